"""charts/hudi-operator: what of it follows from the code is the code's own."""

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest
import yaml

from hoodie_operator.api import group, kinds

ROOT = Path(__file__).parents[2]
TEMPLATES = sorted((ROOT / "charts" / "hudi-operator" / "templates").iterdir())


@pytest.fixture(scope="module")
def tool() -> ModuleType:
    spec = importlib.util.spec_from_file_location("chart_tool", ROOT / "tools" / "chart.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_chart_has_the_kinds_of_the_repository(tool: ModuleType) -> None:
    folders = [tool.CRDS, ROOT / "crds"]
    ours, theirs = ({path.name: path.read_text() for path in each.iterdir()} for each in folders)
    assert ours == theirs


def test_schema_of_values_is_the_configurations(tool: ModuleType) -> None:
    content = tool.VALUES_SCHEMA.read_text()
    assert tool.values_schema(content) == content
    assert "dataRoots" in content


def test_chart_has_the_projects_version() -> None:
    chart = yaml.safe_load((ROOT / "charts" / "hudi-operator" / "Chart.yaml").read_text())
    project = (ROOT / "pyproject.toml").read_text()
    assert f'\nversion = "{chart["version"]}"\n' in project
    assert chart["version"] == chart["appVersion"]


def test_templates_name_every_kind_and_the_group_that_is() -> None:
    text = "".join(path.read_text() for path in TEMPLATES)
    assert group.GROUP in text
    assert [kind.plural for kind in kinds.KINDS if f"{kind.plural}/status" not in text] == []
