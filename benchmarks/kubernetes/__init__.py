"""The start of streams on Kubernetes, and the cost of the operator."""
