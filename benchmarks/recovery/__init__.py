"""Recovery of a partition: from checkpoints, snapshots and the output topic.

It is measured on this machine alone, and on Kubernetes.
"""
