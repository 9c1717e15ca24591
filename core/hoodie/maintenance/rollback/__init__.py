"""Rollback: failed writes are found and taken back, and what ended instants left is removed."""
