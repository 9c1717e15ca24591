"""examples/gitops: what Argo CD and Flux make of objects is what the table of states says."""

import copy
import importlib.util
from pathlib import Path
from types import ModuleType
from typing import Any

import cel
import pytest
import yaml
from lupa import lua51

from hoodie_operator.api import kinds
from hoodie_operator.api.states import Health, Kstatus
from support.operators import recorded_states

FOLDER = Path(__file__).parents[2] / "examples" / "gitops"
TOOL = Path(__file__).parents[2] / "tools" / "gitops.py"
EVERY = [pytest.param(each, id=str(each)) for each in recorded_states.every()]
LIVING = [
    pytest.param(each, id=str(each))
    for each in recorded_states.every()
    if each.row.kstatus is not Kstatus.TERMINATING
]


def _tool() -> ModuleType:
    spec = importlib.util.spec_from_file_location("gitops", TOOL)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_files_are_made_from_the_states() -> None:
    assert {path.name: path.read_text() for path in FOLDER.iterdir()} == _tool().files()


def _argo(document: dict[str, Any]) -> tuple[str, str]:
    """Return what Argo CD's Lua computes; it gives scripts no more than these functions."""
    lua = lua51.LuaRuntime(unpack_returned_tuples=True)
    for name in ("os", "io", "string", "math", "debug", "require", "python"):
        lua.globals()[name] = None
    lua.globals()["obj"] = lua.table_from(document, recursive=True)
    found = lua.execute((FOLDER / "argocd-health.lua").read_text())
    return found["status"], found["message"]


@pytest.mark.parametrize("recorded", EVERY)
def test_argo_cd_tells_the_health_of_the_table(recorded: recorded_states.Recorded) -> None:
    assert _argo(recorded.document) == (recorded.row.health.value, f"{recorded.reason.value}: m")


@pytest.mark.parametrize("kind", kinds.KINDS, ids=lambda kind: kind.name)
def test_argo_cd_waits_for_what_was_not_seen(kind: kinds.Kind) -> None:
    assert _argo(recorded_states.unseen(kind))[0] == Health.PROGRESSING.value


@pytest.mark.parametrize("recorded", EVERY)
def test_argo_cd_waits_for_the_generation_that_is_declared(
    recorded: recorded_states.Recorded,
) -> None:
    document = copy.deepcopy(recorded.document)
    document["metadata"]["generation"] += 1
    assert _argo(document)[0] == Health.PROGRESSING.value


def test_argo_cd_is_given_the_script_for_every_kind() -> None:
    data = yaml.safe_load((FOLDER / "argocd-cm.yaml").read_text())["data"]
    assert set(data.values()) == {(FOLDER / "argocd-health.lua").read_text()}
    assert [key for kind in kinds.KINDS for key in data if key.endswith(f"_{kind.name}")] == list(
        data
    )


def _flux(document: dict[str, Any]) -> Kstatus:
    """Return what Flux computes by the expressions, in its own order."""
    checks = yaml.safe_load((FOLDER / "flux-kustomization.yaml").read_text())
    (check,) = (
        each
        for each in checks["spec"]["healthCheckExprs"]
        if (each["apiVersion"], each["kind"]) == (document["apiVersion"], document["kind"])
    )
    order = {
        "inProgress": Kstatus.IN_PROGRESS,
        "failed": Kstatus.FAILED,
        "current": Kstatus.CURRENT,
    }
    for name, status in order.items():
        if cel.evaluate(check[name], document):
            return status
    return Kstatus.IN_PROGRESS


@pytest.mark.parametrize("recorded", LIVING)
def test_flux_computes_the_status_of_the_table(recorded: recorded_states.Recorded) -> None:
    assert _flux(recorded.document) is recorded.row.kstatus


@pytest.mark.parametrize("kind", kinds.KINDS, ids=lambda kind: kind.name)
def test_flux_waits_for_what_has_no_conditions(kind: kinds.Kind) -> None:
    assert _flux({**recorded_states.unseen(kind), "status": {}}) is Kstatus.IN_PROGRESS
