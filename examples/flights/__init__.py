"""The demo: real flights, sent by a producer that repeats itself, deduplicated and read by Spark."""
