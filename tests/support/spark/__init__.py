"""A Spark session for tests, and a landing job that is killed at a step."""
