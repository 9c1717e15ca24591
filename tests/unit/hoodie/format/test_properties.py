"""The text of java.util.Properties: what `store` writes, what `load` accepts."""

import pytest

from hoodie import errors
from hoodie.format import properties

SCHEMA = '{"type":"record","name":"t","fields":[{"name":"a","type":["null","string"]}]}'


def test_schema_is_quoted_as_java_does() -> None:
    text = properties.encode({"hoodie.table.create.schema": '{"type":"record","name":"a=b"}'})
    assert text == b'hoodie.table.create.schema={"type"\\:"record","name"\\:"a\\=b"}\n'


def test_comments_stand_first_and_never_become_properties() -> None:
    text = properties.encode(
        {"a": "1"}, ["Updated at 2026-11-21T07:00:46Z", "evil\nb=2\r\nc=3", "дата"]
    )
    assert text == (
        b"#Updated at 2026-11-21T07:00:46Z\n#evil\n#b=2\n#c=3\n#\\u0434\\u0430\\u0442\\u0430\na=1\n"
    )
    assert properties.decode(text) == {"a": "1"}


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("plain text ", "plain text "),
        ("  two", "\\  two"),
        ("a\\b", "a\\\\b"),
        ("#!:=", "\\#\\!\\:\\="),
        ("\t\n\r\f", "\\t\\n\\r\\f"),
        ("\x00\x7f~", "\\u0000\\u007F~"),
        ("é€", "\\u00E9\\u20AC"),
        ("😀", "\\uD83D\\uDE00"),
        ("", ""),
        (SCHEMA, SCHEMA.replace(":", "\\:")),
    ],
)
def test_value_is_escaped_as_java_does(value: str, text: str) -> None:
    assert properties.encode({"k": value}) == f"k={text}\n".encode("ascii")
    assert properties.decode(f"k={text}\n".encode("ascii")) == {"k": value}


def test_blanks_in_keys_are_escaped() -> None:
    assert properties.encode({" a b": "c"}) == b"\\ a\\ b=c\n"
    assert properties.decode(b"\\ a\\ b=c\n") == {" a b": "c"}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (b"", {}),
        (b"\n \t\f\n#c\n ! d\n", {}),
        (b"a=1\r\nb:2\rc 3\nd\t=\t4\ne", {"a": "1", "b": "2", "c": "3", "d": "4", "e": ""}),
        (b"a==1\nb = : x", {"a": "=1", "b": ": x"}),
        (b"a=1\\\n   2\\\n#3\nb=4", {"a": "12#3", "b": "4"}),
        (b"a=1\\\\\nb=2", {"a": "1\\", "b": "2"}),
        (b"a=1\\\n\nb=2", {"a": "1", "b": "2"}),
        (b"\\\n\na=1", {"a": "1"}),
        (b"a=1\\", {"a": "1"}),
        (b"a=1\na=2\n", {"a": "2"}),
        (b"k\\:1=\\q\\u0041", {"k:1": "qA"}),
        (b"a=\xe9", {"a": "é"}),
        (b"=x\n", {"": "x"}),
    ],
)
def test_text_is_read_as_java_does(text: bytes, expected: dict[str, str]) -> None:
    assert properties.decode(text) == expected


@pytest.mark.parametrize("text", [b"a=\\u12", b"a=\\uzzzz", b"\\u=1", b"a=\\uD83D"])
def test_broken_escape_is_a_format_error(text: bytes) -> None:
    with pytest.raises(errors.FormatError):
        properties.decode(text)


def test_file_of_hudi_is_read() -> None:
    text = (
        b"#Updated at 2026-11-21T07:00:46.809722901Z\n"
        b"#Sat Nov 21 07:00:46 UTC 2026\n"
        b"hoodie.table.type=COPY_ON_WRITE\n"
        b"hoodie.table.metadata.partitions.inflight=\n"
        b'hoodie.table.create.schema={"type"\\:"record"}\n'
        b"hoodie.table.metadata.partitions=column_stats,files,partition_stats\n"
    )
    assert properties.decode(text) == {
        "hoodie.table.type": "COPY_ON_WRITE",
        "hoodie.table.metadata.partitions.inflight": "",
        "hoodie.table.create.schema": '{"type":"record"}',
        "hoodie.table.metadata.partitions": "column_stats,files,partition_stats",
    }
