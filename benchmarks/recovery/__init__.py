"""How fast a partition recovers: from checkpoints, snapshots and the output topic, locally and on Kubernetes."""
