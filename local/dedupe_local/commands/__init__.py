"""Commands of `dedupe` that need a broker or files."""
