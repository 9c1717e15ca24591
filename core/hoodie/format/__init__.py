"""Bytes and names of a Hudi table, to values and back. No I/O: bytes are passed in and out."""
