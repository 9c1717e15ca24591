from hoodie import errors
from hoodie.errors import HoodieError
from hoodie.opening import create_table, open_table
from hoodie.table import Table

__version__: str

__all__ = ["HoodieError", "Table", "create_table", "errors", "open_table"]
