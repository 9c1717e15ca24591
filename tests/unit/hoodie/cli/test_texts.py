"""Nothing from outside moves the cursor, breaks a line or shows a secret."""

import pytest

from hoodie.cli import texts


def test_control_codes_become_visible() -> None:
    assert texts.visible("a\x1b[31mb\tc\x7f\x9b") == "a␛[31mb␉c␡�"
    assert texts.visible("größe 漢字") == "größe 漢字"


def test_message_is_one_line() -> None:
    assert texts.one_line("first\n  second\r\n\nthird\x07") == "first second third␇"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("s3://AKIA:se/cr+et@bucket/t is gone", "s3://***@bucket/t is gone"),
        ("'https://user:pw@host:80/x'", "'https://***@host:80/x'"),
        ("abfss://container@account.dfs.core/t", "abfss://container@account.dfs.core/t"),
        ("az://c/t?sv=1&sig=abc%2B&x=2", "az://c/t?sv=1&sig=***&x=2"),
        ("zookeeper://host:2181/hudi/t", "zookeeper://host:2181/hudi/t"),
        ("mail me@example.org at 10:30", "mail me@example.org at 10:30"),
    ],
)
def test_credentials_in_uris_are_not_shown(text: str, shown: str) -> None:
    assert texts.redacted(text) == shown
