"""Processes that build an index killed at random while both engines write the table.

    python tests/conformance/kill_builders.py [--seeds 26] [--first 0] [--keep FOLDER]
        [--having TEXT]

What a seed is, and what is compared, `support.peer.killed_builds` says. `--having` takes only
seeds in whose description a text is. The exit code is 1 if a seed fails; its table is kept.
"""

import argparse
import shutil
import sys
import tempfile
import time
from itertools import count, islice
from pathlib import Path

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT / "tests")]

from hoodie.clock import SystemClock  # noqa: E402 (the path comes first)
from hoodie_operator.standalone.embedded_zookeeper import EmbeddedZooKeeper  # noqa: E402
from support.peer import killed_builds  # noqa: E402
from support.peer.judge import Judge  # noqa: E402

KEPT = Path(".cache") / "killed-builds"


def main() -> None:
    """Run seeds, and print what happened in each."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--seeds", type=int, default=2 * len(killed_builds.KINDS))
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--keep", type=Path, default=KEPT)
    parser.add_argument("--having", default="", help="such as a kind: secondary index, mor")
    options = parser.parse_args()
    wanted = (each for each in count(options.first) if options.having in _text(each))
    failures: list[int] = []
    with tempfile.TemporaryDirectory() as work:
        server = EmbeddedZooKeeper(Path(work) / "zookeeper", SystemClock(), tick_ms=500)
        try:
            address = server.start()
            with Judge(Path(work) / "judge") as judge:
                failures += [
                    seed
                    for seed in islice(wanted, options.seeds)
                    if not _run(judge, seed, Path(work) / str(seed), address, options.keep)
                ]
        finally:
            server.stop()
    print(f"{len(failures)} of {options.seeds} seeds failed: {failures}")
    sys.exit(bool(failures))


def _text(seed: int) -> str:
    return str(killed_builds.drawn(seed))


def _run(judge: Judge, seed: int, folder: Path, zookeeper: str, keep: Path) -> bool:
    """Run a seed; return whether all holds."""
    folder.mkdir()
    begin = time.monotonic()
    plan = killed_builds.drawn(seed)
    print(f"{seed}: {plan}", flush=True)
    run = killed_builds.Run.of(judge, plan, folder, seed, zookeeper)
    try:
        became = run.go()
    except Exception as error:
        became = f"FAILED: {type(error).__name__}: {error}; {dict(run.counts)}"
        shutil.rmtree(keep / str(seed), ignore_errors=True)
        shutil.copytree(folder, keep / str(seed))
    print(f"    {became} ({time.monotonic() - begin:.0f} s)", flush=True)
    shutil.rmtree(folder, ignore_errors=True)
    return not became.startswith("FAILED")


if __name__ == "__main__":
    main()
