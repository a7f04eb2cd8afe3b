"""A partition's store that grows to 100 M ids, under a memory limit."""
