"""The services of a table, one module each: when one is due, and what its TableAction does.

`protocol` says what a service is; `registry` lists them. What they share is in `table_services`.
"""
