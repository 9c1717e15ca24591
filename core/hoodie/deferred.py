"""Modules that are imported when they are first used, as `lazy import` of PEP 810 does it.

    with deferred.imports():
        from hoodie.maintenance.cleaning import service as cleaning

`cleaning` is the module, whose code runs when something of it is asked for. So a program that reads
a table does not import, by `table`, all else that one can do with it. Checks of types and of layers
see such imports as they see others. A module that names types of deferred ones in its signatures
begins with `from __future__ import annotations`, without which `def` would ask for them.

Only modules of this project are deferred, no packages, and nothing that others import.

Threads: the code of a module runs once. A thread that uses the module meanwhile waits for the lock
of that module. It holds the locks of modules only that import this one, directly or not. Since
there are no circular imports (`make check`), there is no deadlock.
"""

import contextlib
import importlib.abc
import importlib.machinery
import sys
import threading
from collections.abc import Iterator, Sequence
from types import ModuleType
from typing import Final

_OWN: Final = f"{__name__.partition('.')[0]}."


@contextlib.contextmanager
def imports() -> Iterator[None]:
    """Defer the modules of this project that are imported in a `with` block, for the first time."""
    finder = _Finder()
    sys.meta_path.insert(0, finder)
    try:
        yield
    finally:
        sys.meta_path.remove(finder)


def load() -> None:
    """Run all modules that were deferred so far, and what they defer: before a process is forked.

    Raises:
        ImportError: Of a module that cannot be imported.
    """
    while waiting := [each for each in list(sys.modules.values()) if isinstance(each, _Deferred)]:
        for each in waiting:
            _run(each)


class _Deferred(ModuleType):
    """A module whose code has not run to its end."""

    def __getattribute__(self, name: str) -> object:
        # The import system reads such names, and so does code that goes through sys.modules.
        if not (name.startswith("__") and name.endswith("__")):
            _run(self)
        return ModuleType.__getattribute__(self, name)


class _Loader(importlib.abc.Loader):
    """Stands in for the loader of a module whose code has not run.

    Attributes:
        loader: The module's own.
        lock: Held while its code runs.
        is_running: Whether it does.
    """

    def __init__(self, loader: importlib.abc.Loader) -> None:
        self.loader = loader
        self.lock = threading.RLock()
        self.is_running = False

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType:
        """Return a module that asks for its code."""
        return _Deferred(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        """Leave it to `_run`."""


class _Finder(importlib.abc.MetaPathFinder):
    """Finds what the path has, to be run later."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if not fullname.startswith(_OWN):
            return None
        found = importlib.machinery.PathFinder.find_spec(fullname, path, target)
        if found is None or found.loader is None or found.submodule_search_locations is not None:
            return None
        found.loader = _Loader(found.loader)
        return found


def _run(module: ModuleType) -> None:
    """Run a module's code, unless that is done, or this thread is at it."""
    spec = module.__spec__
    assert spec is not None
    waiting = spec.loader
    if not isinstance(waiting, _Loader):
        return
    with waiting.lock:
        if waiting.is_running or spec.loader is not waiting:
            return
        waiting.is_running = True
        try:
            waiting.loader.exec_module(module)
        finally:
            waiting.is_running = False
        spec.loader = module.__loader__ = waiting.loader
        module.__class__ = ModuleType
