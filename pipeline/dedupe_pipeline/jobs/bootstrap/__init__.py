"""Extract past ids with Spark for `dedupe bootstrap`."""
