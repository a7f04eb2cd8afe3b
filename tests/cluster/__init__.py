"""A Kubernetes cluster with a Kafka broker, our images and our chart, for end-to-end tests.

`python -m tests.cluster` is what the Makefile calls; cluster.sh beside it is the cluster itself.
"""
