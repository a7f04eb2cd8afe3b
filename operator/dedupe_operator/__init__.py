"""The operator: a DedupeStream in, a fleet of workers out. Knows Kubernetes, and a worker only by HTTP."""
