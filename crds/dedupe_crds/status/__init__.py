"""The fields that operator and worker report."""
