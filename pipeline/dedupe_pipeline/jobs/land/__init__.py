"""Job `land`: the clean topic as Parquet files, each record exactly once."""
