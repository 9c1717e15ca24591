"""Compaction: log files are merged into new base files, while writers go on."""
