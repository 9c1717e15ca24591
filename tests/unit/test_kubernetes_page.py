"""docs/kubernetes.md: what it names exists, and its manifests fit."""

import dataclasses
import re
from pathlib import Path

import yaml

from hoodie_operator.api import configuration, hudi_table, kinds, manifests
from hoodie_operator.api.reasons import Reason
from hoodie_operator.api.writer import WriterSpec
from hoodie_operator.cluster.control import metrics
from hoodie_operator.manifests import obstacles
from support.operators.operator_world import Outside

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "kubernetes.md").read_text(encoding="utf-8")


def _rows(heading: str) -> list[str]:
    """Return the first cells of the table below a heading."""
    section = re.split(r"\n##", PAGE.partition(f"## {heading}\n")[2])[0]
    return re.findall(r"^\| (`.*?) \|", section, re.MULTILINE)


def test_manifests_fit() -> None:
    (block,) = re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)
    found, problems = manifests.parse(block.encode(), "docs/kubernetes.md")
    assert problems == []
    assert [each.key.kind for each in found] == ["LockProvider", "HudiTable", "Writer"]


def test_example_passes_the_decisions_and_its_input_is_mounted() -> None:
    (block,) = re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)
    (roots,) = re.findall(r"`config.dataRoots` is `(\[.*?\])`", PAGE)
    here = Outside()
    here.limits = dataclasses.replace(
        here.limits, data_roots=tuple(yaml.safe_load(roots)), service_accounts=None
    )
    keys = {}
    for document in yaml.safe_load_all(block):
        kind = kinds.BY_NAME[document["kind"]]
        keys[kind.name] = here.add(kind, document["metadata"]["name"], document["spec"])
    here.see_lock(keys["LockProvider"])
    here.settle()
    assert here.condition(keys["HudiTable"])[1] == "NotObserved"
    table, writer = here.by_key[keys["HudiTable"]].spec, here.by_key[keys["Writer"]].spec
    assert isinstance(table, hudi_table.HudiTableSpec)
    assert isinstance(writer, WriterSpec)
    (volume,) = table.storage.volumes or ()
    assert str(writer.source.files.path).startswith(f"{volume.mount_path}/")
    assert f"file://{volume.mount_path}" in here.limits.data_roots


def test_every_reason_that_is_named_exists() -> None:
    named = [word for row in _rows("Troubleshooting") for word in re.findall(r"\w+", row)]
    assert len(named) > 15
    assert set(named) <= {reason.value for reason in Reason}


def test_every_message_about_a_silent_server_is_one_that_is_told() -> None:
    source = Path(obstacles.__file__).read_text(encoding="utf-8")
    parts = [
        part.strip(" :")
        for row in _rows("Silent lock servers and observers")
        for part in row.strip("`").split("...")
    ]
    assert len(parts) > 15
    assert [part for part in parts if part not in source] == []


def test_every_metric_that_is_named_exists() -> None:
    source = Path(metrics.__file__).read_text(encoding="utf-8")
    named = [word for row in _rows("Monitoring") for word in re.findall(r"hudi_\w+", row)]
    assert len(named) > 10
    assert [name for name in named if f'"{name}"' not in source] == []


def test_every_key_of_the_configuration_is_told() -> None:
    told = [word for row in _rows("Configuration") for word in re.findall(r"`(\w+)", row)]
    known = configuration.Configuration.model_json_schema(by_alias=True)["properties"]
    assert set(told) == set(known)


def test_every_value_of_the_chart_is_told() -> None:
    values = yaml.safe_load((ROOT / "charts" / "hudi-operator" / "values.yaml").read_text())
    told = [word for row in _rows("Install") for word in re.findall(r"`(\w+)", row)]
    # The account of the operator itself is nobody's concern but the cluster administrator's.
    assert values.keys() - set(told) == {"serviceAccount"}
