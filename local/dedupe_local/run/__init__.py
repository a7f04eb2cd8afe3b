"""`dedupe run`: workers as child processes, their restarts and a live table."""
