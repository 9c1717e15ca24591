"""The programs that runs start: write, compact; in Spark or in local threads."""
