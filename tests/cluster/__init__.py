"""A Kubernetes cluster with Kafka, the images and the chart, for end-to-end tests.

The Makefile calls `python -m tests.cluster`. cluster.sh implements the cluster itself.
"""
