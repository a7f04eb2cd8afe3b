"""A real Prometheus for tests: its programs, and a server."""
