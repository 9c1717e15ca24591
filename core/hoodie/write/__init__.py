"""Upsert, insert and delete: rows to keys, file groups and data files."""
