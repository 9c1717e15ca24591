"""The HFiles of a metadata table: found, and written again by our writer."""

import io
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa

from hoodie.format import log_blocks
from hoodie.format.hfile_blocks import Compression
from hoodie.format.hfile_reading import Reader
from hoodie.format.hfile_writing import Options, Writer
from hoodie.format.log_blocks import Block, BlockType

METADATA = Path(".hoodie", "metadata")
ANOTHER_LAYOUT = Options(created_ms=1, compression=Compression.NONE, block_bytes=200)
"""Many small blocks without compression, as Apache Hudi does not write them."""

Change = Callable[[pa.RecordBatch], pa.RecordBatch]


def base_files(table: Path, partition: str) -> list[Path]:
    """Return the base files of a partition of a table's metadata table."""
    return sorted((table / METADATA / partition).glob("*.hfile"))


def log_contents(table: Path, partition: str) -> Iterator[bytes]:
    """Yield the HFiles that the log blocks of a partition hold."""
    for path in _logs(table, partition):
        for block in log_blocks.scan(pa.py_buffer(path.read_bytes())):
            if isinstance(block, Block) and block.type is BlockType.HFILE_DATA:
                yield block.content.to_pybytes()


def write_again(table: Path, change: Change = lambda batch: batch) -> int:
    """Write every HFile of a metadata table with our writer, and return how many there were.

    Args:
        table: The data table's root.
        change: Applied to what a file holds.
    """
    count = 0
    for path in sorted((table / METADATA).glob("*/*.hfile")):
        _replace(path, again(path.read_bytes(), ANOTHER_LAYOUT, change))
        count += 1
    for path in _logs(table, "*"):
        parts = []
        for block in log_blocks.scan(pa.py_buffer(path.read_bytes())):
            assert isinstance(block, Block), block
            content = block.content.to_pybytes()
            if block.type is BlockType.HFILE_DATA:
                content = again(content, ANOTHER_LAYOUT, change)
                count += 1
            parts += log_blocks.encode(block.type, block.header, content)
        _replace(path, b"".join(bytes(part) for part in parts))
    return count


def _logs(table: Path, partition: str) -> list[Path]:
    found = (table / METADATA).glob(f"{partition}/.*.log.*")
    return sorted(path for path in found if path.suffix != ".crc")


def again(content: bytes, options: Options, change: Change = lambda batch: batch) -> bytes:
    """Return an HFile as our writer writes what it holds."""
    reader = Reader.over("theirs", content)
    sink = io.BytesIO()
    writer = Writer(sink, options)
    for batch in reader.scan():
        changed = change(batch)
        writer.append(changed.column("key"), changed.column("value"))
    kept = {
        name: value
        for name, value in reader.file_info.items()
        if name in {"schema", "minRecordKey", "maxRecordKey", "bloomFilterTypeCode"}
    }
    bloom = reader.meta_block("bloomFilter")
    writer.finish(kept, None if bloom is None else {"bloomFilter": bloom})
    return sink.getvalue()


def _replace(path: Path, content: bytes) -> None:
    path.write_bytes(content)
    # Hadoop's checksum of what was there.
    path.with_name(f".{path.name}.crc").unlink(missing_ok=True)
