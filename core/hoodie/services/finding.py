"""The tables that lie below a folder."""

from collections.abc import Callable
from dataclasses import dataclass, replace

from hoodie import environment, errors
from hoodie.model import table_config
from hoodie.storage import locations, paths
from hoodie.timeline import table_properties


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """A table.

    Attributes:
        path: Below the folder; empty for the folder itself.
        config: Its configuration; None where it cannot be read.
        problem: Why not.
    """

    path: str
    config: table_config.TableConfig | None
    problem: str | None = None


def tables_below(
    folder: str, env: environment.Environment, report: Callable[[int, int], object]
) -> list[Found]:
    """Return the tables in a folder and below it, sorted by path; those in other tables, too.

    Args:
        folder: A folder, or a URI.
        env: Opens storages.
        report: Told how many of how many tables have been looked at.
    """
    storage = env.open_storage(folder)
    location = locations.resolve(storage.uri)
    names = storage.names_by_directory("", is_recursive=True)
    own = paths.parent(table_properties.PATH)
    properties = table_properties.PATH.removeprefix(f"{own}/")
    roots = sorted(
        directory.removesuffix(own).removesuffix("/")
        for directory, files in names.items()
        # A metadata table lies in the folder of its own that each table has.
        if properties in files and directory.split("/").index(own) == directory.count("/")
    )
    found = []
    for number, root in enumerate(roots):
        report(number, len(roots))
        path = paths.joined(location.path, root) if root else location.path
        uri = str(replace(location, path=path))
        try:
            config = table_properties.load(env.open_storage(uri), env.clock)
        except errors.HoodieError as error:
            found.append(Found(path=root, config=None, problem=str(error)))
        else:
            found.append(Found(path=root, config=config))
    return found
