"""HFiles by our reader and writer beside those of Apache Hudi, on the entries of a record index.

    PYTHONPATH=tests .venv/bin/python benchmarks/hfiles.py [--entries N]

Writes N entries with random keys, reads all of them, and looks 1,000 keys up, in files with GZIP
(the default of Apache Hudi) and without compression. Checks that both write the same, and prints
processor time of one thread: the best of some repetitions, the JVM warm. The files are in memory.

On 2 cores of an AMD EPYC, Python 3.11, Java 17, a million entries (35 MB with GZIP), in seconds:

                     GZIP: ours   Apache Hudi   ratio   none: ours   Apache Hudi   ratio
    write            2.02         2.15          1.1     0.18         0.18          1.1
    read all         0.39         0.32          0.8     0.10         0.04          0.4
    look keys up     0.39         0.30          0.8     0.10         0.02          0.2

With GZIP zlib takes 1.8 s of a write and 0.29 s of a read, on both sides. ISA-L (`isal` on PyPI)
instead of zlib writes in 0.39 s, 0.4 % more bytes, and reads in 0.23 s: 5.5 and 1.4 times as fast
as Apache Hudi.
"""

import argparse
import io
import random
import struct
import tempfile
import time
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import pyarrow as pa
from rich.console import Console
from rich.table import Table

from hoodie.format.hfile_blocks import Compression
from hoodie.format.hfile_reading import Reader
from hoodie.format.hfile_writing import Options, Writer
from support.peer.judge import Judge, Settings
from support.peer.peer_hfiles import PeerHFiles

Result = TypeVar("Result")
Pairs = list[tuple[bytes, bytes]]

_KEYS = 1000
_REPETITIONS = 5
_WRITES = 2
_FILE_GROUPS = 200
_SEED = 7


def main() -> None:
    """Print a line for each step."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--entries", type=int, default=1_000_000)
    count = parser.parse_args().entries
    pairs = entries(count)
    keys = sorted(random.Random(_SEED).sample([key for key, _ in pairs], _KEYS))
    table = Table("step", "ours, s", "Apache Hudi, s", "ratio")
    with tempfile.TemporaryDirectory() as folder:
        settings = Settings(name="hfiles", cores=1, memory_mb=4096, jvm_options=())
        with Judge(Path(folder), settings) as judge:
            peer = PeerHFiles(judge=judge, folder=Path(folder))
            for compression in Compression:
                for step, ours_s, theirs_s in measured(pairs, keys, compression, peer):
                    ratio = f"{theirs_s / ours_s:.1f}"
                    table.add_row(step, f"{ours_s:.3f}", f"{theirs_s:.3f}", ratio)
    Console().print(f"{count:,} entries, {_KEYS:,} keys", table)


def entries(count: int) -> Pairs:
    """Return entries as a record index has them: keys are UUIDs, values some 60 bytes."""
    chance = random.Random(_SEED)
    groups = [chance.randbytes(20) for _ in range(_FILE_GROUPS)]
    days = [f"2026/{day // 28 + 1:02}/{day % 28 + 1:02}".encode() for day in range(12 * 28)]
    pairs = []
    for _ in range(count):
        key = str(uuid.UUID(int=chance.getrandbits(128))).encode()
        instant = struct.pack(">q", 1_790_000_000_000 + chance.randrange(20) * 1000)[2:]
        parts = (bytes(7), chance.choice(days), chance.choice(groups), b"\x02\x00\x02", instant)
        pairs.append((key, b"\x02".join(parts)))
    return sorted(pairs)


def measured(
    pairs: Pairs, keys: list[bytes], compression: Compression, peer: PeerHFiles
) -> list[tuple[str, float, float]]:
    """Return name, our time and theirs of each step."""
    options = Options(created_ms=1, compression=compression)
    columns = [pa.array(each, pa.binary()) for each in zip(*pairs, strict=True)]
    ours, write_s = timed(lambda: written(columns, options), _WRITES)
    path = peer.folder / f"{compression.name}.hfile"
    peer_write_s = min(peer.write(path, pairs, options) for _ in range(_WRITES))
    if compression is Compression.GZIP:
        assert path.read_bytes() == ours, "both must write the same bytes"
    # Of its own file without compression Apache Hudi does not read every entry.
    path.write_bytes(ours)
    scanned, scan_s = timed(lambda: sum(each.num_rows for each in over(ours).scan()))
    assert scanned == len(pairs), "all that was written must be read"
    found, lookup_s = timed(lambda: over(ours).lookup(keys).num_rows)
    assert found == len(keys) == len(peer.lookup(path, keys)), "every key must be found"
    peer_scan_s = min(peer.scan_s(path) for _ in range(2 * _REPETITIONS))
    peer_lookup_s = min(peer.lookup_s(path, keys) for _ in range(2 * _REPETITIONS))
    name = compression.name
    return [
        (f"write, {name}", write_s, peer_write_s),
        (f"read all, {name}", scan_s, peer_scan_s),
        (f"look {len(keys)} keys up, {name}", lookup_s, peer_lookup_s),
    ]


def over(content: bytes) -> Reader:
    """Open a file that is in memory."""
    return Reader.over("benchmark", content)


def written(columns: list[pa.Array], options: Options) -> bytes:
    """Return the bytes of a file."""
    sink = io.BytesIO()
    writer = Writer(sink, options)
    writer.append(*columns)
    writer.finish()
    return sink.getvalue()


def timed(step: Callable[[], Result], repetitions: int = _REPETITIONS) -> tuple[Result, float]:
    """Return what a step gives, and the least processor time of its repetitions in seconds."""
    times = []
    for _ in range(repetitions):
        begun = time.process_time()
        result = step()
        times.append(time.process_time() - begun)
    return result, min(times)


if __name__ == "__main__":
    main()
