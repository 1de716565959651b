"""Upload data files: store them with their tables as Parquet, and profile, describe, find and delete them."""
