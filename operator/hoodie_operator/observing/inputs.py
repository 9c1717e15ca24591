"""Looking at sources: which files there are, what is in them, which columns they have.

A relative path begins at the first data root, and none leads out of all of them, links resolved.
A file is known by its path below the first wildcard's folder and a digest of its content, so that a
copy with new times is the same file, and one with new content is another. Reading all of a very
large file only to know it would cost as much as writing it: there the digest is of its size, its
time and samples of its content.
"""

import glob
import hashlib
import os
from collections.abc import Sequence
from io import BufferedReader
from pathlib import Path

import pyarrow as pa
from pyarrow import parquet

from hoodie import clock, errors
from hoodie.contract import input_sources
from hoodie.sources import local_files
from hoodie.storage import uris
from hoodie_operator.api import writer
from hoodie_operator.reconcile import facts, sources

FILES_MAX = 100_000
_DIGEST_BYTES = 8
_WHOLE_BYTES_MAX = 256 << 20
_SAMPLES = 64
_SAMPLE_BYTES = 64 << 10
_WILDCARDS = frozenset("*?[")


class InputObserver:
    """Reads sources in this process."""

    def __init__(self, data_roots: Sequence[str], operator_clock: clock.Clock) -> None:
        """Take what every file lies below one of; relative paths begin at the first."""
        places = [uris.parse(root, working_directory="/") for root in data_roots]
        self._first = places[0]
        self._roots = tuple(
            Path(f"/{place.path}").resolve() for place in places if place.scheme == uris.LOCAL
        )
        self._clock = operator_clock
        self._digests: dict[str, tuple[tuple[int, int, int], str]] = {}
        self._columns: dict[tuple[str, str], tuple[str, ...] | None] = {}

    def look(self, generation: int, source: writer.Source) -> facts.SourceFacts:
        """Return what a source tells now; only files that are new or changed are read."""
        observed_ms = clock.monotonic_ms(self._clock)
        try:
            groups = self._groups(source.files)
            return facts.SourceFacts(
                generation=generation,
                observed_ms=observed_ms,
                groups=groups,
                columns=self._columns_of(groups[0][0], source.files),
            )
        except OSError as error:
            problem = facts.Problem(
                kind=errors.StorageError.kind, message=str(error), is_transient=True
            )
        except errors.HoodieError as error:
            problem = facts.Problem(
                kind=error.kind, message=str(error), is_transient=error.is_transient
            )
        return facts.SourceFacts(generation=generation, observed_ms=observed_ms, problem=problem)

    def _groups(self, source: writer.FilesSource) -> tuple[tuple[facts.SourceFile, ...], ...]:
        if source.batches is not None:
            return tuple(
                tuple(file for path in batch.files for file in self._matching(path))
                for batch in source.batches
            )
        assert source.path is not None
        files = self._matching(source.path)
        size = source.files_per_commit or 1
        return tuple(tuple(files[start : start + size]) for start in range(0, len(files), size))

    def _matching(self, pattern: str) -> list[facts.SourceFile]:
        """Return the files that a pattern names, in the order of their names.

        Raises:
            NotFoundError: There is none.
            InvalidInputError: The pattern or a file leads out of the data root.
        """
        base, rest = self._split(pattern)
        if not rest:
            paths = [base] if base.is_file() else []
            base = base.parent
        else:
            found = glob.iglob(rest, root_dir=base, recursive=True)  # noqa: PTH207 - of a text
            paths = sorted(base / name for name in found if (base / name).is_file())
        if not paths:
            raise errors.NotFoundError(
                f"no file matches {pattern} (searched in {base}), expected at least one"
            )
        if len(paths) > FILES_MAX:
            raise errors.UnsupportedError(
                f"{pattern} matches more than {FILES_MAX} files: use several Writers"
            )
        return [self._file(path, base) for path in paths]

    def _split(self, pattern: str) -> tuple[Path, str]:
        """Return the folder before the first wildcard, and what follows."""
        first = self._first
        if first.scheme == uris.LOCAL or pattern.startswith("/") or "://" in pattern:
            location = uris.parse(pattern, working_directory=f"/{first.path}")
        else:
            location = uris.parse(f"{first}/{pattern}", working_directory="/")
        if location.scheme != uris.LOCAL:
            raise errors.UnsupportedError(
                f"{pattern}: input is read from file systems only, expected a path"
            )
        parts = location.path.split("/")
        plain = next((n for n, part in enumerate(parts) if _WILDCARDS & set(part)), len(parts))
        base = Path("/", *parts[:plain])
        self._check_allowed(base, pattern)
        return base, "/".join(parts[plain:])

    def _file(self, path: Path, base: Path) -> facts.SourceFile:
        self._check_allowed(path, str(path))
        name = os.path.relpath(path, base)
        if not _is_text(name):
            shown = str(path).encode(errors="replace").decode()
            raise errors.UnsupportedError(f"{shown}: its name is not valid UTF-8")
        return facts.SourceFile(path=str(path), token=sources.token(name, self._digest(path)))

    def _check_allowed(self, path: Path, shown: str) -> None:
        real = Path(os.path.realpath(path))  # Of links in a circle, too: there is no file then.
        if not any(real.is_relative_to(root) for root in self._roots):
            raise errors.InvalidInputError(
                f"{shown} resolves to {real}, expected a path below "
                f"{' or '.join(str(root) for root in self._roots) or 'a local data root'}"
            )

    def _digest(self, path: Path) -> str:
        status = path.stat()
        stamp = (status.st_mtime_ns, status.st_size, status.st_ino)
        known = self._digests.get(str(path))
        if known is not None and known[0] == stamp:
            return known[1]
        with path.open("rb") as file:
            digest = _digest_of(file, status.st_size, status.st_mtime_ns)
        self._digests[str(path)] = (stamp, digest)
        return digest

    def _columns_of(
        self, file: facts.SourceFile, source: writer.FilesSource
    ) -> tuple[str, ...] | None:
        csv = source.csv or writer.Csv()
        key = (file.token, f"{source.format} {csv}")
        if key not in self._columns:
            try:
                self._columns[key] = _columns(file.path, source.format, csv)
            except errors.InvalidInputError as error:
                # The source may be read, and what is there is wrong.
                raise errors.FormatError(str(error)) from error
        return self._columns[key]


def _is_text(name: str) -> bool:
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


def _digest_of(file: BufferedReader, size: int, modified_ns: int) -> str:
    if size <= _WHOLE_BYTES_MAX:
        whole = hashlib.file_digest(file, lambda: hashlib.blake2b(digest_size=_DIGEST_BYTES))
        return whole.hexdigest()
    digest = hashlib.blake2b(f"{size} {modified_ns}".encode(), digest_size=_DIGEST_BYTES)
    for number in range(_SAMPLES):
        file.seek((size - _SAMPLE_BYTES) * number // (_SAMPLES - 1))
        digest.update(file.read(_SAMPLE_BYTES))
    return digest.hexdigest()


def _columns(path: str, file_format: writer.FileFormat, csv: writer.Csv) -> tuple[str, ...] | None:
    """Return the columns of a file; None when only reading all of it would tell."""
    match file_format:
        case writer.FileFormat.CSV:
            source = input_sources.Source(
                format=input_sources.SourceFormat.CSV,
                has_header=csv.header,
                delimiter=csv.delimiter,
                null_text=csv.null_text,
            )
            return tuple(local_files.csv_names(path, source))
        case writer.FileFormat.PARQUET:
            try:
                return tuple(parquet.read_schema(path).names)
            except (pa.ArrowInvalid, UnicodeDecodeError) as error:
                raise errors.InvalidInputError(f"{path}: {error}") from error
        case writer.FileFormat.JSON:
            return None
