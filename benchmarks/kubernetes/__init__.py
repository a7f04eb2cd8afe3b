"""How fast streams start on Kubernetes, and what the operator costs."""
