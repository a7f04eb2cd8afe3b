"""What the end-to-end tests use to see and change a cluster."""
