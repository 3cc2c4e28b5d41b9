"""The Coreset: how it is built, combined, streamed and saved."""
