"""The operator: reconciles DedupeStreams into one worker for each partition.

It talks to Kubernetes, to Kafka for topic metadata, and to workers over HTTP only.
"""
