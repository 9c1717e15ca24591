"""The standalone operator with fake jobs: `python -m fake_operator MANIFESTS STATE DATA`.

--prune, --serve (do not end when settled), --impatient (short graces)
"""

import dataclasses
import sys
from pathlib import Path

from rich.console import Console

from hoodie import environment
from hoodie.contract import job_specs
from hoodie_operator.standalone import loop, ownership, reporting
from hoodie_operator.standalone.folder import Folder
from hoodie_operator.standalone.processes import Processes

PROGRAMS = {
    job_specs.CreateTable: "fake_create",
    job_specs.WriteBatches: "fake_write",
    job_specs.Compact: "fake_compact",
    job_specs.DropTable: "fake_drop",
}


def build(manifests: Path, state: Path, data: Path, *, may_prune: bool = False) -> loop.Operator:
    env = environment.system(allowed_roots=(str(data),))
    return loop.Operator(
        loop.Options(state=state, data_root=data, may_prune=may_prune),
        Folder(manifests),
        env,
        reporting.Lines(Console(width=200)),
        Processes(state, env.clock, allowed_roots=(str(data),), programs=PROGRAMS),
    )


def main() -> int:
    manifests, state, data = (Path(argument) for argument in sys.argv[1:4])
    with ownership.owned(state):
        operator = build(manifests, state, data, may_prune="--prune" in sys.argv)
        if "--impatient" in sys.argv:
            operator.limits = dataclasses.replace(operator.limits, stop_grace_ms=500)
        return loop.run(
            operator,
            environment.system().clock,
            is_until_settled="--serve" not in sys.argv,
            is_interrupted=lambda: False,
        )


if __name__ == "__main__":
    sys.exit(main())
