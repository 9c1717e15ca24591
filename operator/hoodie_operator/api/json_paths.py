"""The part of JSON paths that printer columns use: `.a.b` and `.a[?(@.b=="text")].c`."""

import re
from collections.abc import Mapping

_STEP = re.compile(r'\.(?P<name>\w+)(?:\[\?\(@\.(?P<key>\w+)=="(?P<text>[^"]*)"\)\])?', re.ASCII)


def value_at(data: object, path: str) -> object:
    """Return what a path leads to in JSON data; None when there is nothing."""
    end = 0
    for match in _STEP.finditer(path):
        assert match.start() == end, f"{path} does not have the form .a.b"
        end = match.end()
        if not isinstance(data, Mapping):
            return None
        data = data.get(match["name"])
        if match["key"] and isinstance(data, list):
            data = next(
                (
                    item
                    for item in data
                    if isinstance(item, Mapping) and item.get(match["key"]) == match["text"]
                ),
                None,
            )
    assert end == len(path), f"{path} does not have the form .a.b"
    return data
