"""Commands of `dedupe` that do one job on a broker or on files, and end."""
