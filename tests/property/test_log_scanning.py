"""Log files that are located block by block, against the same files read at once."""

from hypothesis import given, settings
from hypothesis import strategies as st

from hoodie import errors
from hoodie.filegroup import log_scanning
from hoodie.format import log_blocks
from hoodie.format.log_blocks import BlockType, HeaderKey
from support.tables.file_groups import Group, at

TYPES = st.sampled_from(
    [BlockType.AVRO_DATA, BlockType.DELETE, BlockType.COMMAND, BlockType.CDC_DATA]
)
LENGTHS = st.sampled_from([0, 10, 65_530, 70_000, 1_100_000])


@st.composite
def log_files(draw: st.DrawFn) -> bytes:
    """Draw blocks, and what a torn write leaves between them."""
    parts = []
    for number in range(draw(st.integers(1, 4))):
        header = {
            HeaderKey.INSTANT_TIME: at(draw(st.integers(1, 3))),
            HeaderKey.TARGET_INSTANT_TIME: at(draw(st.integers(1, 3))),
            HeaderKey.COMMAND_BLOCK_TYPE: "0",
        }
        content = bytes([number]) * draw(LENGTHS)
        block = b"".join(log_blocks.encode(draw(TYPES), header, content))
        parts.append(block[: draw(st.sampled_from([len(block), len(block), 20]))])
        parts.append(b"?" * draw(st.sampled_from([0, 0, 7, 1_048_570])))
    return b"".join(parts)


@settings(max_examples=60, deadline=None)
@given(st.lists(log_files(), min_size=1, max_size=3), st.sets(st.integers(1, 3)))
def test_located_blocks_are_those_that_are_read(contents: list[bytes], pending: set[int]) -> None:
    group = Group()
    for number, content in enumerate(contents):
        group.raw(10 + number, content)
    log = group.slice.log_files
    corrupt: list[list[log_blocks.CorruptRange]] = [[], []]

    def counts(time: str) -> bool:
        return time not in {at(tick) for tick in pending}

    try:
        read = log_scanning.read(
            group.storage, log, counts, lambda _, found: corrupt[0].append(found)
        )
    except errors.HoodieError:
        read = None
    try:
        located = log_scanning.locate(
            group.storage, log, counts, lambda _, found: corrupt[1].append(found)
        )
    except errors.HoodieError:
        assert read is None
        return
    assert list(log_scanning.contents(group.storage, located)) == read
    assert corrupt[0] == corrupt[1]
