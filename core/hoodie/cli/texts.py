"""Texts from elsewhere (rows, names, messages) as they may be shown: no controls, no secrets."""

import re

# Their pictures, so that no cell moves the cursor or colours the screen; DEL has its own.
_PICTURES = {code: 0x2400 + code for code in range(0x20)} | {0x7F: 0x2421}
# C1 controls, of which 0x9B begins escape sequences too, and marks that reorder a line.
_HIDDEN = dict.fromkeys(
    [*range(0x80, 0xA0), 0x2028, 0x2029, *range(0x202A, 0x202F), *range(0x2066, 0x206A)], 0xFFFD
)
_VISIBLE = {**_PICTURES, **_HIDDEN}
_CREDENTIALS = re.compile(r"(?P<scheme>\b[A-Za-z][A-Za-z0-9+.-]*://)[^\s@'\"]*:[^\s@'\"]*@")
_QUERY_SECRETS = re.compile(
    r"(?P<name>[?&;](?:sig|token|secret|password|key|x-amz-[a-z-]+|[a-z_]*secret[a-z_]*)=)[^&\s'\"]+",
    re.IGNORECASE,
)


def visible(text: str) -> str:
    """Return a text on one line, control codes replaced by their pictures."""
    return text.translate(_VISIBLE)


def one_line(text: str) -> str:
    """Return a message on one line, its own line breaks as spaces."""
    return visible(" ".join(line.strip() for line in text.splitlines() if line.strip()))


def redacted(text: str) -> str:
    """Return a text without the credentials of URIs in it."""
    without_user = _CREDENTIALS.sub(r"\g<scheme>***@", text)
    return _QUERY_SECRETS.sub(r"\g<name>***", without_user)
