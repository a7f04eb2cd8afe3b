"""A stream on Kubernetes, and a producer that sends duplicates to its input topic."""
