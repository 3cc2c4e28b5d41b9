"""Files and stores: locations, atomic writes, and Parquet files with checked metadata."""
