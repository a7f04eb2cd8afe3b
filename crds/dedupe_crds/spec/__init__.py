"""The fields of a DedupeStream's spec."""
