"""The command line of one side alone: of `peer.py`, `ours.py` and `ours_on_spark.py`."""

import argparse
import json
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import asdict
from pathlib import Path

from data import WORKLOADS, shrunk
from steps import Run, Side, run, warm_up

FOLDER = Path(__file__).parent / "work"


def main(open_side: Callable[[Path], AbstractContextManager[Side]]) -> None:
    """Run workloads on one side, each after a warm-up, and write the results as JSON."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--workload", action="append", choices=[*WORKLOADS], help="default: all")
    parser.add_argument("--repeat", type=int, default=1)
    parser.add_argument("--shrink", type=int, default=1, help="divides all numbers of rows")
    parser.add_argument("--folder", type=Path, default=FOLDER)
    parser.add_argument("--output", type=Path)
    arguments = parser.parse_args()
    runs: list[Run] = []
    with open_side(arguments.folder) as side:
        for name in arguments.workload or WORKLOADS:
            workload = shrunk(WORKLOADS[name], arguments.shrink)
            warm_up(side, workload, arguments.folder)
            for _ in range(arguments.repeat):
                runs.append(run(side, workload, arguments.folder))
                for step in runs[-1].steps:
                    print(f"{name:14} {step}", flush=True)
    if arguments.output is not None:
        arguments.output.write_text(json.dumps([asdict(each) for each in runs], indent=1))
