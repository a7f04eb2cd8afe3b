"""The Spark data source `dedupestream`: a clean topic and its chunk filters."""
