"""Where files are found: paths, patterns, object stores."""
