"""Apache Hudi's table format and protocols in Python: tables, timelines, transactions, services.

    import hoodie

    trips = hoodie.open_table("s3://lake/trips")

What `__init__.pyi` names is here, and imported once it is asked for.
"""

import importlib
import sys
from typing import Final

_HOMES: Final = {
    "HoodieError": "hoodie.errors",
    "Table": "hoodie.table",
    "create_table": "hoodie.opening",
    "errors": "hoodie.errors",
    "open_table": "hoodie.opening",
}

__all__ = ["HoodieError", "Table", "create_table", "errors", "open_table"]


def __getattr__(name: str) -> object:
    if name == "__version__":
        return importlib.import_module("importlib.metadata").version("hudi-operator")
    if name not in _HOMES:
        # Whatever asks a module for its own names, as imports do, gets its answer at once.
        is_own = name.startswith("_")
        guesses = None if is_own else importlib.import_module("hoodie.guesses")
        advice = "" if guesses is None else guesses.hint(name, guesses.MODULE, __all__)
        if advice and _is_imported_by_name():
            # Python has a sentence of its own in place of an AttributeError's.
            raise ImportError(
                f"cannot import name {name!r} from {__name__!r}{advice}", name=__name__
            )
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}{advice}")
    module = importlib.import_module(_HOMES[name])
    found: object = module if module.__name__ == f"{__name__}.{name}" else getattr(module, name)
    globals()[name] = found
    return found


def _is_imported_by_name() -> bool:
    """Return whether the module is asked for a name by `from hoodie import NAME`."""
    frame = sys._getframe(2)
    operation = frame.f_code.co_code[frame.f_lasti]
    return bool(operation == importlib.import_module("opcode").opmap["IMPORT_FROM"])


def __dir__() -> list[str]:
    return [*__all__, "__doc__", "__path__"]
