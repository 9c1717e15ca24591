"""Tables in an object store (S3, Google Cloud Storage, Azure), through obstore.

- `create` is one conditional put (If-None-Match `*`, or generation 0), `replace` one put with the
  version's ETag (If-Match; on Google Cloud Storage the generation that has the ETag). The client
  tries again by itself when an answer is lost, so a refusal may be the echo of our own success:
  callers read back.
- A version is the ETag, on S3 a hash of the content.
- Directories are prefixes: an empty one does not exist.
- Credentials and endpoints come from the environment, as the stores' own tools read it
  (`AWS_*`, `GOOGLE_*`, `AZURE_*`), and stand in no message.
"""

import io
import itertools
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent import futures
from contextlib import contextmanager
from datetime import datetime
from typing import Self

import obstore
import obstore.store
import pyarrow as pa
from obstore import exceptions

from hoodie import errors
from hoodie.storage import new_files, paths, store_options, uris
from hoodie.storage.protocol import FileInfo, NewFile

_QUERY = re.compile(r"\?\S*")


_TIME_STEP_MS = 1_000
"""Stores tell the time of an object by HTTP's `Last-Modified`, which has whole seconds."""

_REQUEST_TIME_MS = 30_000
"""The client's own limit of one request."""


_REQUESTS_AT_ONCE = 16
"""Of a read of several files."""

_INSTANCE_METADATA = r"169\.254\.169\.254|169\.254\.170\.2|metadata\.google\.internal"
_REMEDIES = tuple(
    (re.compile(pattern), remedy)
    for pattern, remedy in (
        (
            rf"S3 error.*({_INSTANCE_METADATA})",
            (
                "no credentials were found: set AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and "
                "AWS_REGION, and AWS_SESSION_TOKEN for temporary ones; or AWS_SKIP_SIGNATURE=true "
                "for a public bucket"
            ),
        ),
        (
            rf"GCS error.*({_INSTANCE_METADATA})",
            (
                "no credentials were found: set GOOGLE_APPLICATION_CREDENTIALS to the file of a "
                "service account"
            ),
        ),
        (
            rf"Azure error.*({_INSTANCE_METADATA})",
            (
                "no credentials were found: set AZURE_STORAGE_ACCOUNT_KEY, or "
                "AZURE_STORAGE_CLIENT_ID, AZURE_STORAGE_CLIENT_SECRET and AZURE_STORAGE_TENANT_ID"
            ),
        ),
        (
            r"http://.*builder error",
            "an endpoint without TLS has to be allowed: set AWS_ALLOW_HTTP=true",
        ),
    )
)
"""What to do about failures of clients: one that has no credentials asks the machine for some."""


class ObjectStorage:
    """A prefix of a bucket or container."""

    def __init__(
        self,
        uri: str,
        store: obstore.store.ObjectStore | None = None,
        options: store_options.StorageOptions | None = None,
    ) -> None:
        """Take the prefix.

        Args:
            uri: `s3://BUCKET/PREFIX` (also s3a), `gs://BUCKET/PREFIX`, `az://CONTAINER/PREFIX`,
                `abfss://CONTAINER@ACCOUNT.dfs.core.windows.net/PREFIX`.
            store: The whole bucket; opened as the environment says if none is given.
            options: Take the place of what the environment says.

        Raises:
            ConfigurationError: The environment does not say how to open the bucket.
            InvalidInputError: An option is not known.
        """
        self._options = options
        location = uris.parse(uri, working_directory="/")
        self._uri = str(location)
        if options:
            self._uri = store_options.OptionedUri.of(self._uri, options)
        self._prefix = location.path
        if store is None:
            bucket = f"{location.scheme}://{location.authority}"
            store = store_options.open_store(bucket, options)
        self._store: obstore.store.ObjectStore = store

    def __reduce__(
        self,
    ) -> tuple[type[Self], tuple[str, None, store_options.StorageOptions | None]]:
        """Pickle as the URI and its options; what they leave open, the environment there says."""
        return type(self), (self._uri, None, self._options)

    @property
    def uri(self) -> str:
        """The prefix as a URI, aliases of schemes replaced; it brings options along."""
        return self._uri

    @property
    def has_atomic_listings(self) -> bool:
        """False: pages of a thousand files, and even for one page no store promises it."""
        return False

    @property
    def request_time_ms(self) -> int:
        """The limit of one request: nobody repeats one of a process that is dead."""
        return _REQUEST_TIME_MS

    def list(self, directory: str, *, is_recursive: bool = False) -> "list[FileInfo]":
        """Return the files in a directory, sorted by path; a request for each thousand files."""
        found = map(self._info, self._listed(directory, is_recursive))
        return sorted(found, key=lambda info: info.path)

    def names_by_directory(
        self, directory: str, *, is_recursive: bool = False
    ) -> Mapping[str, Sequence[str]]:
        """Return the names of files by directory; a request for each thousand files."""
        found = map(self._path_of, self._listed(directory, is_recursive))
        return paths.by_directory(sorted(found))

    def _listed(self, directory: str, is_recursive: bool) -> "Sequence[obstore.ObjectMeta]":
        name = paths.checked_directory(directory)
        with self._reported("list", name):
            prefix = self._prefix_of(name)
            if is_recursive:
                return [*itertools.chain.from_iterable(obstore.list(self._store, prefix=prefix))]
            return [*obstore.list_with_delimiter(self._store, prefix=prefix)["objects"]]

    def names(self, directory: str) -> Sequence[str]:
        """Return the names in a directory; a request for each thousand."""
        name = paths.checked_directory(directory)
        with self._reported("list", name):
            prefix = self._prefix_of(name)
            listing = obstore.list_with_delimiter(self._store, prefix=prefix)
        files = (meta["path"] for meta in listing["objects"])
        directories = (f"{each.rstrip('/')}/" for each in listing["common_prefixes"])
        return [each[len(prefix) + 1 if prefix else 0 :] for each in (*files, *directories)]

    def _prefix_of(self, directory: str) -> str | None:
        return paths.joined(self._prefix, directory).rstrip("/") or None

    def stat(self, path: str) -> FileInfo:
        """Return what is known of a file."""
        key = self._key(path)
        with self._reported("find", path):
            return self._info(obstore.head(self._store, key))

    def read(self, path: str, *, offset: int = 0, length: int | None = None) -> bytes:
        """Return a file's bytes, or a range of them, which ends where the file does."""
        paths.check_range(path, offset, length)
        key = self._key(path)
        if length == 0:
            self.stat(path)
            return b""
        with self._reported("read", path):
            if offset == 0 and length is None:
                return obstore.get(self._store, key).bytes().to_bytes()
            try:
                if length is None:
                    options: obstore.GetOptions = {"range": {"offset": offset}}
                    return obstore.get(self._store, key, options=options).bytes().to_bytes()
                return obstore.get_range(self._store, key, start=offset, length=length).to_bytes()
            except exceptions.GenericError:
                # A range that begins at or after the end is an error to every store.
                if offset >= obstore.head(self._store, key)["size"]:
                    return b""
                raise

    def read_all(self, paths: Iterable[str]) -> Iterator[bytes]:
        """Yield the bytes of files, in that order; a request each."""
        return map(self.read, paths)

    def read_buffers(self, paths: Sequence[str]) -> Sequence[pa.Buffer]:
        """Return the bytes of files, in that order; a request each, some at a time."""
        threads = min(len(paths), _REQUESTS_AT_ONCE)
        if threads <= 1:
            return [pa.py_buffer(self.read(path)) for path in paths]
        with futures.ThreadPoolExecutor(threads, thread_name_prefix="hoodie-read") as pool:
            return [pa.py_buffer(content) for content in pool.map(self.read, paths)]

    def fetch(self, path: str) -> tuple[bytes, str]:
        """Return a file's bytes and their version."""
        key = self._key(path)
        with self._reported("read", path):
            found = obstore.get(self._store, key)
            return found.bytes().to_bytes(), found.meta["e_tag"] or ""

    def open_input(self, path: str, *, is_mapped: bool = True) -> pa.NativeFile:
        """Open a file for random access, a request for each range read; nothing is mapped."""
        info = self.stat(path)
        return pa.PythonFile(_RangeReader(self, info), mode="r")

    def create(self, path: str, content: bytes) -> FileInfo:
        """Create a file with its full content, atomically and durably."""
        key = self._key(path)
        with self._reported("create", path):
            done = obstore.put(self._store, key, content, mode="create", use_multipart=False)
        return _put_info(path, content, done)

    def replace(self, path: str, content: bytes, *, if_match: str) -> FileInfo:
        """Replace a file's content, if its version is still `if_match`."""
        key = self._key(path)
        with self._reported("replace", path):
            expected = self._expected(key, if_match)
            done = obstore.put(self._store, key, content, mode=expected, use_multipart=False)
        return _put_info(path, content, done)

    def _expected(self, key: str, if_match: str) -> "obstore.UpdateVersion":
        if not isinstance(self._store, obstore.store.GCSStore):
            return {"e_tag": if_match}
        # Google compares generations, which its listings do not tell.
        try:
            seen = obstore.head(self._store, key)
        except FileNotFoundError as error:
            raise exceptions.PreconditionError(f"{key} is gone") from error
        if seen["e_tag"] != if_match:
            raise exceptions.PreconditionError(f"the ETag is {seen['e_tag']}, not {if_match}")
        return {"e_tag": if_match, "version": seen["version"]}

    def open_write(self, path: str) -> NewFile:
        """Open a new file for streaming; it is there once it is closed."""
        key = self._key(path)
        with self._reported("create", path):
            return _Upload(self, path, obstore.open_writer(self._store, key))

    def touch(self, path: str) -> FileInfo:
        """Create an empty file, or put an existing one again as it is; three requests."""
        while True:
            try:
                content, version = self.fetch(path)
                put = self.replace(path, content, if_match=version)
            except errors.ConflictError:
                continue
            except errors.NotFoundError:
                try:
                    put = self.create(path, b"")
                except errors.AlreadyExistsError:
                    continue
            try:
                return self.stat(path)  # A put does not return the store's time.
            except errors.NotFoundError:
                return put  # It was deleted since.

    def delete(self, path: str) -> bool:
        """Delete a file; False when there was none; two requests."""
        key = self._key(path)
        try:
            self.stat(path)
        except errors.NotFoundError:
            return False
        with self._reported("delete", path):
            obstore.delete(self._store, key)
        return True

    def delete_directory(self, directory: str) -> None:
        """Delete a directory and all in it; a request for a thousand files where the store can."""
        found = self.list(directory, is_recursive=True)
        with self._reported("delete", directory):
            obstore.delete(self._store, [self._key(info.path) for info in found])

    def delete_all(self, paths: Iterable[str]) -> None:
        """Delete files, in that order; missing ones are fine; a request each."""
        for path in paths:
            key = self._key(path)
            try:
                with self._reported("delete", path):
                    obstore.delete(self._store, key)
            except errors.NotFoundError:
                continue

    def delete_ordered(self, paths: Iterable[str]) -> None:
        """Delete files, in that order; missing ones are fine; a request each."""
        self.delete_all(paths)

    def delete_unordered(self, paths: Iterable[str]) -> None:
        """Delete files; missing ones are fine. S3 takes 1,000 of them in a request."""
        wanted = list(paths)
        keys = [self._key(path) for path in wanted]
        if not keys:
            return
        try:
            with self._reported("delete", wanted[0]):
                obstore.delete(self._store, keys)
        except errors.NotFoundError:
            # Stores without such requests end with the first file that is missing.
            self.delete_all(wanted)

    def _key(self, path: str) -> str:
        return paths.joined(self._prefix, paths.checked(path))

    def _path_of(self, meta: "obstore.ObjectMeta") -> str:
        return meta["path"].removeprefix(f"{self._prefix}/" if self._prefix else "")

    def _info(self, meta: "obstore.ObjectMeta") -> FileInfo:
        modified: datetime = meta["last_modified"]
        return FileInfo(
            path=self._path_of(meta),
            size_bytes=meta["size"],
            modified_ms=int(modified.timestamp() * 1000),
            version=meta["e_tag"] or "",
            modified_step_ms=_TIME_STEP_MS,
        )

    @contextmanager
    def _reported(self, action: str, path: str) -> Iterator[None]:
        """Turn the store's errors into ours, saying what was done to what."""
        try:
            yield
        except (exceptions.BaseError, OSError, ValueError) as error:
            if isinstance(error, errors.HoodieError):
                raise
            message = f"cannot {action} {self._uri}/{path}: {_explained(error)}"
            raise _translated(error, message) from error

    def upload_error(self, path: str, error: Exception) -> errors.HoodieError:
        """Return what an upload's failure is to our callers."""
        return _translated(error, f"cannot write {self._uri}/{path}: {_explained(error)}")


def _put_info(path: str, content: bytes, done: "obstore.PutResult") -> FileInfo:
    return FileInfo(
        path=path,
        size_bytes=len(content),
        modified_ms=0,
        version=done["e_tag"] or "",
        modified_step_ms=_TIME_STEP_MS,
    )


_MEANINGS: tuple[tuple[tuple[type[Exception], ...], type[errors.HoodieError]], ...] = (
    ((FileNotFoundError,), errors.NotFoundError),
    ((exceptions.AlreadyExistsError,), errors.AlreadyExistsError),
    ((exceptions.PreconditionError,), errors.ConflictError),
    ((exceptions.NotSupportedError,), errors.UnsupportedError),
    ((exceptions.InvalidPathError, ValueError), errors.InvalidInputError),
    ((exceptions.PermissionDeniedError, exceptions.UnauthenticatedError), errors.StorageError),
)
"""What a failure of the client means to our callers; any other may take effect yet."""


def _translated(error: Exception, message: str) -> errors.HoodieError:
    for kinds, meaning in _MEANINGS:
        if isinstance(error, kinds):
            return meaning(message)
    return errors.UnansweredError(message)


def _explained(error: Exception) -> str:
    """Return what a failure is, in a line, after what to do about it where that is known."""
    # What follows the first line is the client's innards; a query may hold a signature.
    line = _QUERY.sub("", str(error).partition("\n")[0])
    for pattern, remedy in _REMEDIES:
        if pattern.search(line):
            return f"{remedy}; Python takes storage_options as well ({line})"
    return line


class _RangeReader:
    """A file object for Arrow over ranges of one object."""

    def __init__(self, storage: ObjectStorage, info: FileInfo) -> None:
        self._storage = storage
        self._info = info
        self._position = 0
        self.closed = False

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._position

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        base = {
            io.SEEK_SET: 0,
            io.SEEK_CUR: self._position,
            io.SEEK_END: self._info.size_bytes,
        }[whence]
        self._position = base + offset
        return self._position

    def read(self, size: int = -1) -> bytes:
        length = None if size < 0 else size
        content = self._storage.read(self._info.path, offset=self._position, length=length)
        self._position += len(content)
        return content

    def close(self) -> None:
        self.closed = True


class _Upload(new_files.StreamedFile):
    """A new object that is there once this is closed; not at all if it was discarded."""

    def __init__(self, storage: ObjectStorage, path: str, writer: "obstore.WritableFile") -> None:
        super().__init__(path)
        self._storage = storage
        self._path = path
        self._writer: obstore.WritableFile | None = writer

    def _append(self, content: memoryview) -> None:
        assert self._writer is not None
        try:
            self._writer.write(bytes(content))
        except (exceptions.BaseError, OSError) as error:
            raise self._storage.upload_error(self._path, error) from error

    def _publish(self) -> None:
        assert self._writer is not None
        try:
            self._writer.close()
        except (exceptions.BaseError, OSError) as error:
            raise self._storage.upload_error(self._path, error) from error

    def _drop(self) -> None:
        self._writer = None  # The parts of an upload that is not closed never become an object.
