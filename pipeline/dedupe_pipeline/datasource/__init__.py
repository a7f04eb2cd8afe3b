"""The Spark data source `dedupestream`: an output topic and its chunk filters."""
