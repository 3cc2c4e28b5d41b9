"""Files and stores: where they are, how they are written as a whole, what Parquet files hold."""
