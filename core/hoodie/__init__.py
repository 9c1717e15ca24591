"""Apache Hudi's table format and protocols in Python: tables, timelines, transactions, services."""
