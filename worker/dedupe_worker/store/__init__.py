"""The ids that a partition remembers, on disk."""
