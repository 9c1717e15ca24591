"""Round trips of the textual formats: properties, names of files and of instants."""

from hypothesis import given, settings
from hypothesis import strategies as st

from hoodie import errors
from hoodie.format import file_names, instant_names, properties
from hoodie.model import files, instants

TEXTS = st.text(st.characters(exclude_categories=["Cs"]))
TIMES = st.integers(0, 4_000_000_000_000).map(instants.format_time)
FILE_IDS = st.from_regex(r"[a-zA-Z0-9-]+", fullmatch=True)
TOKENS = st.builds(file_names.write_token, *(st.integers(0, 10**6),) * 3)


@given(st.dictionaries(TEXTS, TEXTS), st.lists(TEXTS))
@settings(deadline=None)  # The machine is shared.
def test_properties_are_read_as_written(mapping: dict[str, str], comments: list[str]) -> None:
    assert properties.decode(properties.encode(mapping, comments)) == mapping


@given(st.binary())
@settings(deadline=None)  # The machine is shared.
def test_any_bytes_are_properties_or_a_format_error(content: bytes) -> None:
    try:
        decoded = properties.decode(content)
    except errors.FormatError:
        return
    assert properties.decode(properties.encode(decoded)) == decoded


@given(FILE_IDS, TOKENS, TIMES, st.integers(1, 10**9 - 1), st.sampled_from(["", "p", "a=1/b=2"]))
@settings(deadline=None)  # The machine is shared.
def test_data_file_is_read_as_it_is_named(
    file_id: str, token: str, time: instants.InstantTime, version: int, partition: str
) -> None:
    base = file_names.base_file_name(file_id, token, time)
    log = file_names.log_file_name(file_id, time, version, token)
    group = files.FileGroupId(partition, file_id)
    assert file_names.parse(files.join(partition, base), 7) == files.BaseFile(
        group=group, name=base, instant_time=time, write_token=token, size_bytes=7
    )
    assert file_names.parse(files.join(partition, log), 7) == files.LogFile(
        group=group, name=log, instant_time=time, version=version, write_token=token, size_bytes=7
    )


ACTIONS = "|".join(action.value for action in instants.Action)
NEAR_INSTANTS = st.from_regex(
    rf"[0-9]{{17}}(_[0-9]{{17}})?(\.({ACTIONS}|x))?(\.(requested|inflight|x))?", fullmatch=True
)


@given(st.text() | NEAR_INSTANTS)
@settings(deadline=None)  # The machine is shared.
def test_any_name_is_an_instant_of_that_name_or_none(name: str) -> None:
    try:
        instant = instant_names.parse(name)
    except errors.UnsupportedError:
        return
    assert instant is None or instant_names.file_name(instant) == name
