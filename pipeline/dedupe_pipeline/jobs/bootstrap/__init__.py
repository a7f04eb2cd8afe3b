"""Job `bootstrap`: extract past ids with Spark for `dedupe bootstrap`."""
