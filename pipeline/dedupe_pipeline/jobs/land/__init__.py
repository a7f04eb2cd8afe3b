"""Job `land`: the output topic as Parquet files, each record exactly once."""
