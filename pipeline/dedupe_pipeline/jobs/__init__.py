"""The Spark jobs: land, bootstrap, aggregate, audit."""
