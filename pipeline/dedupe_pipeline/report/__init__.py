"""Progress and log of a command, on stderr: a bar, lines or JSON."""
