"""The path of a fit: how many draws, by which method, and what unused draws say of the result."""
