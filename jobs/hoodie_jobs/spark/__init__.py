"""All that knows Spark: sessions, reading input, writing, table services, the data source."""
