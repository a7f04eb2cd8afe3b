"""The benchmark of a growth: a stream with routers gets more partitions under load."""
