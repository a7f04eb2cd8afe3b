"""The demo: real flights with producer duplicates, deduplicated and read by Spark."""
