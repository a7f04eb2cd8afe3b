"""A stream on Kubernetes, and a producer that repeats itself to feed it."""
