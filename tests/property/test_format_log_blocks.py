"""Log files of any blocks, whole and broken."""

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from hoodie import errors
from hoodie.format import log_blocks
from hoodie.format.log_blocks import Block, BlockType, HeaderKey

TEXTS = st.text(st.characters(exclude_categories=["Cs"]))
TYPES = st.sampled_from([each for each in BlockType if each is not BlockType.CORRUPT])
PARTS = st.tuples(
    TYPES, st.dictionaries(st.sampled_from(HeaderKey), TEXTS), st.binary(max_size=100)
)


def encoded(parts: list[tuple[BlockType, dict[HeaderKey, str], bytes]]) -> bytes:
    return b"".join(b"".join(log_blocks.encode(*part)) for part in parts)


@given(st.lists(PARTS))
@settings(deadline=None)  # The machine is shared.
def test_blocks_are_read_as_written(
    parts: list[tuple[BlockType, dict[HeaderKey, str], bytes]],
) -> None:
    found = list(log_blocks.scan(pa.py_buffer(encoded(parts))))
    assert [
        (each.type, each.header, each.content.to_pybytes())
        for each in found
        if isinstance(each, Block)
    ] == parts
    assert len(found) == len(parts)


@given(st.lists(PARTS, min_size=1, max_size=3), st.data())
@settings(deadline=None)  # The machine is shared.
def test_broken_file_is_read_to_its_end_or_refused(
    parts: list[tuple[BlockType, dict[HeaderKey, str], bytes]], data: st.DataObject
) -> None:
    content = encoded(parts)
    at = data.draw(st.integers(0, len(content) - 1))
    change = data.draw(st.binary(max_size=9))
    end = data.draw(st.integers(at, len(content)))
    broken = content[:at] + change + content[end:]
    try:
        found = list(log_blocks.scan(pa.py_buffer(broken)))
    except (errors.FormatError, errors.UnsupportedError):
        return
    # In order, without gaps, to the end.
    place = 0
    for each in found:
        assert each.offset == place
        place = each.offset + (_length(broken, each) if isinstance(each, Block) else each.length)
    assert place == len(broken)


def _length(content: bytes, block: Block) -> int:
    return 14 + int.from_bytes(content[block.offset + 6 : block.offset + 14])
