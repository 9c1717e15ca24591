"""Writes the health checks of examples/gitops from the one table of states.

What a state means to Argo CD is in `hoodie_operator.api.states`; a script sees no state, but the
conditions that stand in it. So the table becomes a list: the first condition that holds decides.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from hoodie_operator.api import group, kinds, states
from hoodie_operator.api.conditions import ConditionStatus, Type
from hoodie_operator.api.states import Health, Kstatus, Row

FOLDER = Path(__file__).parents[1] / "examples" / "gitops"
ORDER = (Type.RECONCILING, Type.STALLED, Type.SUSPENDED, Type.READY)

_HEADER = "Made by `make generate` from operator/hoodie_operator/api/states.py. Do not edit."
_LUA = """-- {header}
-- The health of every kind of {group}, for Argo CD: the first condition that is True decides.
local order = {{
{order}
}}

local health = {{status = "{waiting}", message = "The operator has not seen this generation yet"}}
if obj.status == nil or obj.status.conditions == nil then
  return health
end
if obj.status.observedGeneration ~= obj.metadata.generation then
  return health
end
local conditions = {{}}
for _, condition in ipairs(obj.status.conditions) do
  conditions[condition.type] = condition
end
for _, decides in ipairs(order) do
  local condition = conditions[decides.condition]
  if condition ~= nil and condition.status == "True" then
    health.status = decides.health
    health.message = condition.reason .. ": " .. condition.message
    return health
  end
end
return health
"""
_ARGOCD = """# {header}
# Part of the ConfigMap argocd-cm. Without it Argo CD reports an object as Healthy once it exists.
"""
_FLUX = """# {header}
# Flux computes the same from the conditions (kstatus), so `wait: true` is enough. The expressions
# are for explicit health checks, and for tools without kstatus.
"""


def deciding(row: Row) -> Type | None:
    """Return the first condition of `ORDER` that is True in a state; None where none is."""
    holds = {
        Type.RECONCILING: row.is_reconciling,
        Type.STALLED: row.is_stalled,
        Type.SUSPENDED: row.is_suspended,
        Type.READY: row.ready is ConditionStatus.TRUE,
    }
    return next((each for each in ORDER if holds[each]), None)


def meanings() -> Mapping[Type, tuple[Health, Kstatus]]:
    """Return what each condition decides, by the table of states."""
    found: dict[Type, tuple[Health, Kstatus]] = {}
    for table in states.TABLE.values():
        for row in table.values():
            # What is being deleted both tools know by themselves.
            if row.kstatus is Kstatus.TERMINATING:
                continue
            decides = deciding(row)
            assert decides is not None, "a state in which nothing holds tells nothing"
            meaning = (row.health, row.kstatus)
            assert found.setdefault(decides, meaning) == meaning, f"{decides} is ambiguous"
    return found


def health_script() -> str:
    """Return Argo CD's script."""
    rows = [
        f'  {{condition = "{each.value}", health = "{meanings()[each][0].value}"}},'
        for each in ORDER
    ]
    return _LUA.format(
        header=_HEADER,
        group=group.GROUP,
        order="\n".join(rows),
        waiting=Health.PROGRESSING.value,
    )


def health_expressions() -> Mapping[str, str]:
    """Return Flux's expressions by the field that they are for."""
    fields = {
        Kstatus.IN_PROGRESS: "inProgress",
        Kstatus.FAILED: "failed",
        Kstatus.CURRENT: "current",
    }
    names: dict[str, list[str]] = {name: [] for name in fields.values()}
    for condition in ORDER:
        names[fields[meanings()[condition][1]]].append(f"'{condition.value}'")
    return {
        name: "has(status.conditions) && status.conditions.exists(c, "
        f"c.type in [{', '.join(types)}] && c.status == 'True')"
        for name, types in names.items()
    }


def argocd_config() -> dict[str, Any]:
    """Return the part of Argo CD's configuration that has the script."""
    keys = (f"resource.customizations.health.{group.GROUP}_{kind.name}" for kind in kinds.KINDS)
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "argocd-cm", "namespace": "argocd"},
        "data": {key: _Text(health_script()) for key in keys},
    }


def flux_kustomization() -> dict[str, Any]:
    """Return a Kustomization that waits for tables and all that belongs to them."""
    return {
        "apiVersion": "kustomize.toolkit.fluxcd.io/v1",
        "kind": "Kustomization",
        "metadata": {"name": "lake", "namespace": "flux-system"},
        "spec": {
            "interval": "10m",
            "timeout": "15m",
            "path": "./lake",
            "prune": True,
            "wait": True,
            "sourceRef": {"kind": "GitRepository", "name": "lake"},
            "healthCheckExprs": [
                {"apiVersion": group.API_VERSION, "kind": kind.name, **health_expressions()}
                for kind in kinds.KINDS
            ],
        },
    }


def files() -> Mapping[str, str]:
    """Return the content of each file by its name."""
    return {
        "argocd-health.lua": health_script(),
        "argocd-cm.yaml": _ARGOCD.format(header=_HEADER) + _yaml(argocd_config()),
        "flux-kustomization.yaml": _FLUX.format(header=_HEADER) + _yaml(flux_kustomization()),
    }


class _Text(str):
    """A text of several lines, which YAML is to keep as such."""

    __slots__ = ()


class _Dumper(yaml.SafeDumper):
    """Writes texts of several lines as blocks."""


_Dumper.add_representer(
    _Text, lambda dumper, text: dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|")
)


def _yaml(document: object) -> str:
    return yaml.dump(document, Dumper=_Dumper, sort_keys=False, width=200)


def main() -> None:
    """Write the files anew."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    for name, content in files().items():
        (FOLDER / name).write_text(content, encoding="utf-8")


if __name__ == "__main__":
    main()
