"""`dedupe run`: workers as child processes, and their live table."""
