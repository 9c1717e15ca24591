"""What is shown: values of the table as documents (for `--json`) and grids (for people); no I/O."""
