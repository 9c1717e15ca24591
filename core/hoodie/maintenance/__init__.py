"""Maintenance of a table layout: plans of table services and their tasks, one a file group."""
