"""The manifests of the documentation are what they teach."""

import re
from pathlib import Path

import pytest

from hoodie_operator.api import kinds, manifests

ROOT = Path(__file__).parents[3]


def test_manifests_in_the_documentation_fit() -> None:
    text = (ROOT / "docs" / "operator.md").read_text()
    found: list[str] = []
    for block in re.findall(r"```yaml\n(.*?)```", text, re.DOTALL):
        read, problems = manifests.parse(block.encode(), "docs/operator.md")
        assert problems == []
        found += [manifest.key.kind for manifest in read]
    assert set(found) == kinds.BY_NAME.keys()


# Those for a cluster hold what is not ours, too, and have tests of their own.
EXAMPLES = [
    path
    for path in sorted((ROOT / "examples").rglob("*.yaml"))
    if not {"kubernetes", "gitops"} & set(path.parts)
]


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda p: p.name)
def test_example_manifest_fits(path: Path) -> None:
    read, problems = manifests.parse(path.read_bytes(), path.name)
    assert problems == []
    assert read
