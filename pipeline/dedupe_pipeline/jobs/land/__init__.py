"""Write the clean topic to Parquet, each record once."""
