"""Progress of Spark jobs, for people and for Prometheus."""
