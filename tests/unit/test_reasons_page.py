"""docs/reasons.md is what the code says."""

import importlib.util
from pathlib import Path

from hoodie_operator.api.reasons import Reason

ROOT = Path(__file__).parents[2]


def test_page_is_up_to_date_and_has_every_reason() -> None:
    spec = importlib.util.spec_from_file_location("reasons_page", ROOT / "tools/reasons_page.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    page = (ROOT / "docs" / "reasons.md").read_text(encoding="utf-8")
    assert page == module.page(), "run make generate"
    for reason in Reason:
        assert f"| `{reason.value}` | {reason.sentence} |" in page
