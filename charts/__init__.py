"""The Helm chart, and how it is packed."""
