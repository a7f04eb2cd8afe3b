"""A Kafka in memory, at the seam of the client library."""
