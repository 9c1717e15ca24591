"""Where the metadata of a mirror lie: in the table's folder alone, or in a catalog, too.

Without a catalog a mirror is an Iceberg table as Hadoop lays one out:

    metadata/vN.metadata.json    created once: of two processes that make the same version one wins
    metadata/version-hint.text   N, for engines that are given the folder; written afterwards

In a catalog of PyIceberg's (SQL, REST, ...) that catalog writes the metadata and decides who wins,
and the manifests lie in a folder of their own below `metadata/`.

Everything but the catalog's own file goes through the table's storage, with its credentials.
Source: the Iceberg table specification, "File System Tables"; `HadoopTableOperations.java`.
"""

import contextlib
import io
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Protocol

import pyiceberg
from pyiceberg import catalog as catalogs
from pyiceberg import io as iceberg_io
from pyiceberg import schema as iceberg_schema
from pyiceberg import table as iceberg_table
from pyiceberg.catalog import noop
from pyiceberg.exceptions import (
    CommitFailedException,
    NoSuchTableError,
    TableAlreadyExistsError,
)
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.serializers import FromByteStream
from pyiceberg.table import metadata as iceberg_metadata
from pyiceberg.table.sorting import UNSORTED_SORT_ORDER
from pyiceberg.table.update import TableRequirement, TableUpdate, update_table_metadata

from hoodie import errors
from hoodie.services.mirrors import names, states, values
from hoodie.storage import protocol

_UNNAMED = "default"
"""What PyIceberg calls a catalog that is given by its URI; a SQL catalog keeps tables by it."""

_METADATA_PATH_KEY = "write.metadata.path"


class Place(Protocol):
    """Where a mirror is."""

    @property
    def folder(self) -> str:
        """Where its own files are, below the table's root."""
        ...

    @property
    def hint(self) -> str:
        """The file that names the newest version of its metadata."""
        ...

    @property
    def consumer(self) -> str:
        """The name of its consumer."""
        ...

    def load(self) -> iceberg_table.Table | None:
        """Return the mirror; None where there is none yet."""
        ...

    def create(
        self, schema: iceberg_schema.Schema, spec: PartitionSpec, properties: Mapping[str, str]
    ) -> iceberg_table.Table:
        """Return a mirror without files; it may be there only once a change is committed."""
        ...

    def point(self, table: iceberg_table.Table) -> None:
        """Have engines find what was committed, if that takes more than the commit."""
        ...


def open_place(storage: protocol.Storage, catalog: values.Catalog | None) -> Place:
    """Return where a mirror is.

    Args:
        storage: The table's.
        catalog: None for the table's folder alone.

    Raises:
        ConfigurationError: PyIceberg cannot open the catalog.
    """
    if catalog is None:
        return FolderPlace(storage)
    try:
        opened = catalogs.load_catalog(*_catalog_name(catalog.name), **_catalog_options(catalog))
    except Exception as error:  # PyIceberg, SQLAlchemy and requests have no common one.
        raise errors.ConfigurationError(
            f"catalog {catalog.name!r} cannot be opened by PyIceberg {pyiceberg.__version__}: "
            f"{error}; expected the name of one that PyIceberg is configured with, or a URI such "
            "as https://host/api or postgresql+psycopg2://user@host/db"
        ) from error
    return CatalogPlace(storage, opened, catalog)


def _catalog_name(name: str) -> tuple[str, ...]:
    return (_UNNAMED,) if "://" in name else (name,)


def _catalog_options(catalog: values.Catalog) -> dict[str, str]:
    if "://" not in catalog.name:
        return dict(catalog.options)
    kind = "rest" if catalog.name.startswith(("http://", "https://")) else "sql"
    return {"type": kind, "uri": catalog.name} | dict(catalog.options)


class StorageIO(iceberg_io.FileIO):
    """PyIceberg's files, in a table's storage."""

    def __init__(self, storage: protocol.Storage) -> None:
        """Take the table's storage."""
        super().__init__()
        self._storage = storage

    def new_input(self, location: str) -> "_Input":
        """Return a file to read."""
        return _Input(location, self._storage, path_of(self._storage, location))

    def new_output(self, location: str) -> "_Output":
        """Return a file to create."""
        return _Output(location, self._storage, path_of(self._storage, location))

    def delete(self, location: str | iceberg_io.InputFile | iceberg_io.OutputFile) -> None:
        """Delete a file, if there is one."""
        name = location if isinstance(location, str) else location.location
        self._storage.delete(path_of(self._storage, name))


def location_of(storage: protocol.Storage, path: str) -> str:
    """Return what Iceberg calls a file of a table."""
    return f"{storage.uri}/{path}"


def path_of(storage: protocol.Storage, location: str) -> str:
    """Return the path below a table's root.

    Raises:
        FormatError: The file is not the table's.
    """
    prefix = f"{storage.uri}/"
    if not location.startswith(prefix):
        raise errors.FormatError(
            f"the mirror of {storage.uri} names {location}, which is not in the table: the table "
            f"was moved or copied; delete its folder {names.FOLDER} to have it mirrored again"
        )
    return location.removeprefix(prefix)


class _Input(iceberg_io.InputFile):
    def __init__(self, location: str, storage: protocol.Storage, path: str) -> None:
        super().__init__(location)
        self._storage, self._path = storage, path

    def __len__(self) -> int:
        return self._storage.stat(self._path).size_bytes

    def exists(self) -> bool:
        try:
            self._storage.stat(self._path)
        except errors.NotFoundError:
            return False
        return True

    def open(self, seekable: bool = True) -> io.BytesIO:
        return io.BytesIO(self._storage.read(self._path))


class _Output(iceberg_io.OutputFile):
    def __init__(self, location: str, storage: protocol.Storage, path: str) -> None:
        super().__init__(location)
        self._storage, self._path = storage, path

    def __len__(self) -> int:
        return len(self.to_input_file())

    def exists(self) -> bool:
        return self.to_input_file().exists()

    def to_input_file(self) -> _Input:
        return _Input(self.location, self._storage, self._path)

    def create(self, overwrite: bool = False) -> "_Created":
        return _Created(self._storage, self._path)


class _Created(io.BytesIO):
    """The content of a file that is there, whole, once it is closed."""

    def __init__(self, storage: protocol.Storage, path: str) -> None:
        super().__init__()
        self._storage, self._path = storage, path

    def close(self) -> None:
        if not self.closed:
            self._storage.create(self._path, self.getvalue())
        super().close()

    def __exit__(self, kind: type[BaseException] | None, *rest: object) -> None:
        if kind is None:
            self.close()
        else:
            super().close()


def _point(
    storage: protocol.Storage, hint: str, newest: str, is_later: Callable[[bytes], bool]
) -> None:
    """Write a hint, unless it says the same, or something later."""
    content = newest.encode()
    with contextlib.suppress(errors.AlreadyExistsError, errors.ConflictError):
        try:
            before, tag = storage.fetch(hint)
        except errors.NotFoundError:
            storage.create(hint, content)
            return
        if before != content and not is_later(before):
            storage.replace(hint, content, if_match=tag)


class FolderPlace:
    """A mirror in the table's folder alone."""

    folder = names.FOLDER
    consumer = names.CONSUMER
    hint = f"{names.FOLDER}/version-hint.text"

    def __init__(self, storage: protocol.Storage) -> None:
        """Take the table's storage."""
        self._storage = storage

    def load(self) -> iceberg_table.Table | None:
        """Return the newest version, whatever the hint says; a listing and a read."""
        version = states.newest_version(self._storage.names(names.FOLDER))
        if version is None:
            return None
        content = self._storage.read(states.metadata_path(version))
        return self._table(FromByteStream.table_metadata(io.BytesIO(content)), version)

    def create(
        self, schema: iceberg_schema.Schema, spec: PartitionSpec, properties: Mapping[str, str]
    ) -> iceberg_table.Table:
        """Return version 0, which is nowhere: the first commit makes version 1."""
        found = iceberg_metadata.new_table_metadata(
            schema=schema,
            partition_spec=spec,
            sort_order=UNSORTED_SORT_ORDER,
            location=self._storage.uri,
            properties=dict(properties),
        )
        return self._table(found, 0)

    def point(self, table: iceberg_table.Table) -> None:
        """Write the hint, unless it names this version or a later one."""
        assert isinstance(table.catalog, _Versions), table
        version = table.catalog.version
        _point(
            self._storage,
            self.hint,
            str(version),
            lambda before: before.isdigit() and int(before) > version,
        )

    def _table(self, found: Any, version: int) -> iceberg_table.Table:  # noqa: ANN401
        return iceberg_table.Table(
            identifier=("hoodie", "mirror"),
            metadata=found,
            metadata_location=location_of(self._storage, states.metadata_path(version)),
            io=StorageIO(self._storage),
            catalog=_Versions(self._storage, version),
        )


class _Versions(noop.NoopCatalog):
    """Commits a version of metadata by creating its file."""

    def __init__(self, storage: protocol.Storage, version: int) -> None:
        super().__init__("hoodie")
        self.version = version
        self._storage = storage

    def commit_table(
        self,
        table: iceberg_table.Table,
        requirements: tuple[TableRequirement, ...],
        updates: tuple[TableUpdate, ...],
    ) -> iceberg_table.CommitTableResponse:
        """Create the next version.

        Raises:
            CommitFailedException: Another process has created it.
        """
        before = table.metadata
        if self.version:
            for each in requirements:
                each.validate(before)
        after = update_table_metadata(
            before, updates, metadata_location=table.metadata_location if self.version else None
        )
        path = states.metadata_path(self.version + 1)
        content = after.model_dump_json().encode()
        try:
            self._storage.create(path, content)
        except errors.AlreadyExistsError as error:
            # An answer may have been lost: the content has ids that nobody else has.
            if self._storage.read(path) != content:
                raise CommitFailedException(str(error)) from error
        self.version += 1
        return iceberg_table.CommitTableResponse.model_validate(
            {"metadata": after, "metadata-location": location_of(self._storage, path)}
        )


class CatalogPlace:
    """A mirror in a catalog."""

    def __init__(
        self, storage: protocol.Storage, opened: catalogs.Catalog, named: values.Catalog
    ) -> None:
        """Take the table's storage and the catalog."""
        self._storage, self._opened, self._named = storage, opened, named
        self.consumer = named.consumer
        self.folder = names.folder_of(self.consumer)
        self.hint = names.catalog_hint_of(self.consumer)

    def load(self) -> iceberg_table.Table | None:
        """Return the mirror by the catalog; None if that has no such table."""
        try:
            with self._asked():
                found = self._opened.load_table(self._named.table)
        except NoSuchTableError:
            return None
        if found.location() != self._storage.uri:
            raise errors.ConfigurationError(
                f"{self._named.table} in catalog {self._named.name} is at {found.location()}, "
                f"expected a mirror of {self._storage.uri}: give this one another name"
            )
        return self._ours(found)

    def create(
        self, schema: iceberg_schema.Schema, spec: PartitionSpec, properties: Mapping[str, str]
    ) -> iceberg_table.Table:
        """Create the mirror in the catalog, and its namespace where that is missing."""
        namespace = self._named.table.rpartition(".")[0]
        own = {_METADATA_PATH_KEY: location_of(self._storage, self.folder)}
        try:
            with self._asked():
                if namespace:
                    self._opened.create_namespace_if_not_exists(namespace)
                found = self._opened.create_table(
                    self._named.table,
                    schema,
                    location=self._storage.uri,
                    partition_spec=spec,
                    properties=dict(properties) | own,
                )
        except TableAlreadyExistsError as error:
            raise CommitFailedException(str(error)) from error
        return self._ours(found)

    def point(self, table: iceberg_table.Table) -> None:
        """Say what the catalog has, for those that do not ask it."""
        # Versions begin again where the catalog has lost the mirror. Of two processes the slower
        # one may be the last to write: the next run mends it.
        newest = table.metadata_location.rpartition("/")[2]
        _point(self._storage, self.hint, newest, lambda _: False)

    @contextlib.contextmanager
    def _asked(self) -> Iterator[None]:
        """Have failures of the catalog told as ours, but for those that answer the question.

        Raises:
            StorageError: The catalog failed.
        """
        try:
            yield
        except (NoSuchTableError, TableAlreadyExistsError, errors.HoodieError):
            raise
        except Exception as error:  # PyIceberg, SQLAlchemy and requests have no common one.
            raise errors.StorageError(
                f"catalog {self._named.name} failed for {self._named.table}: {error}"
            ) from error

    def _ours(self, found: iceberg_table.Table) -> iceberg_table.Table:
        found.io = StorageIO(self._storage)
        return found
