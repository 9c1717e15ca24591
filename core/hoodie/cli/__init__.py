"""The command line `hoodie`: tables at any URI, from any shell.

Standard output carries the answer: tables and lines for people, one JSON document with `--json`.
Standard error carries progress, notes and errors. Exit codes are those of `hoodie.errors`.
"""

from hoodie.cli.program import main

__all__ = ["main"]
