"""Coresets: how they are built, combined, streamed, checked, shown and saved."""
