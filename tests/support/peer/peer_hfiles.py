"""HFiles by Apache Hudi's own reader and writer, without a table around them."""

import struct
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from hoodie.format import hfile_blocks
from hoodie.format.hfile_writing import Options
from support.peer.judge import Judge

Pairs = Sequence[tuple[bytes, bytes]]

_LENGTH = struct.Struct(">i")


def compress_as_java(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have HFiles compressed by zlib, as Java compresses them, and not by ISA-L."""
    monkeypatch.setattr(hfile_blocks, "isal_zlib", zlib)
    monkeypatch.setattr(hfile_blocks, "_GZIP_LEVEL", 6)


@dataclass(frozen=True, slots=True, kw_only=True)
class PeerHFiles:
    """Apache Hudi's reader and writer.

    Attributes:
        judge: The process that has them.
        folder: For what is exchanged with it.
    """

    judge: Judge
    folder: Path

    def write(
        self,
        path: Path,
        pairs: Pairs,
        options: Options,
        file_info: Mapping[str, bytes] | None = None,
        meta: Mapping[str, bytes] | None = None,
    ) -> float:
        """Write a file, and return the processor time that it took, in seconds."""
        given = [
            [part for name, value in (each or {}).items() for part in (name.encode(), value)]
            for each in (file_info, meta)
        ]
        entries = [part for pair in pairs for part in pair]
        lists = map(_encoded, (*given, entries))
        request = self.folder / "write"
        request.write_bytes(b"".join(_LENGTH.pack(len(each)) + each for each in lists))
        words = (options.compression.name, str(options.block_bytes), str(options.created_ms))
        return self.judge.hfile("write", str(request), str(path), *words)

    def scan(self, path: Path) -> list[tuple[bytes, bytes]]:
        """Return all entries that it reads."""
        self.judge.hfile("scan", str(path), str(self._answer))
        return self._pairs()

    def scan_s(self, path: Path) -> float:
        """Read all entries and drop them; return processor time in seconds."""
        return self.judge.hfile("scan", str(path), "-")

    def lookup(self, path: Path, keys: Sequence[bytes]) -> list[tuple[bytes, bytes]]:
        """Return the entries that it finds of keys, which ascend."""
        self.judge.hfile("lookup", str(path), str(self._answer), str(self._keys(keys)))
        return self._pairs()

    def lookup_s(self, path: Path, keys: Sequence[bytes]) -> float:
        """Look keys up; return processor time in seconds."""
        return self.judge.hfile("lookup", str(path), "-", str(self._keys(keys)))

    @property
    def _answer(self) -> Path:
        return self.folder / "answer"

    def _keys(self, keys: Sequence[bytes]) -> Path:
        request = self.folder / "keys"
        encoded = _encoded(keys)
        request.write_bytes(_LENGTH.pack(len(encoded)) + encoded)
        return request

    def _pairs(self) -> list[tuple[bytes, bytes]]:
        content = self._answer.read_bytes()
        parts = []
        at = 0
        while at < len(content):
            (length,) = _LENGTH.unpack_from(content, at)
            parts.append(content[at + 4 : at + 4 + length])
            at += 4 + length
        return list(zip(parts[::2], parts[1::2], strict=True))


def _encoded(strings: Sequence[bytes]) -> bytes:
    return b"".join(_LENGTH.pack(len(each)) + each for each in strings)
