"""Input files as Arrow tables: choosing columns, parsing, casting to the table's schema."""
