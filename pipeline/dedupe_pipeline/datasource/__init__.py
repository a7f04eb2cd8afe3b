"""Spark's data source `dedupestream`: a clean topic, without what its filters rule out."""
