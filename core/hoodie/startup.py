"""How programs of ours begin: what a process is better off without.

For programs alone, whose process is theirs: a library leaves its user's imports as they are.
"""

import importlib.abc
import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Final

_PANDAS: Final = "pandas"


def leave_out_pandas() -> None:
    """Have pandas not found from now on, where it was not imported before.

    `pyarrow` imports it with the first list that becomes an array, to see whether the list is a
    Series: half a second and 40 MiB for who never makes one.
    """
    if not any(isinstance(finder, _NoPandas) for finder in sys.meta_path):
        sys.meta_path.insert(0, _NoPandas())


class _NoPandas(importlib.abc.MetaPathFinder):
    """Ends the search for pandas."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        del path, target
        if fullname == _PANDAS:
            raise ModuleNotFoundError("this program does without pandas", name=fullname)
        return None
