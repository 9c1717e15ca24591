"""Random tables of Apache Hudi, written by it and by us in turn, and compared after each step.

    python tests/conformance/meet_strangers.py [--tables 150] [--first 0] [--keep FOLDER]
        [--having TEXT]

Apache Hudi makes each table and changes it some times; then it is adopted, and both go on. After
each step both engines read it, Apache Hudi by listing and by the metadata table, and have to return
the same rows: those of a dictionary, where the step is one that it follows. What Apache Hudi itself
refuses or fails at is counted. An adoption or a write that we refuse is shown: a person has to
judge it. `--having` takes only strangers in whose description a text is. The exit code is 1 if a
reader differs or we fail; the folder of such a table is kept.
"""

import argparse
import contextlib
import shutil
import sys
import tempfile
import time
from itertools import count, islice
from pathlib import Path

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT / "tests")]

from support.peer import traits  # noqa: E402 (the path comes first)
from support.peer.judge import Judge, JudgeError, JudgeLostError, Settings  # noqa: E402
from support.peer.meetings import Meeting  # noqa: E402

KEPT = Path(".cache") / "strangers"


def main() -> None:
    """Meet strangers, and tell of each."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--tables", type=int, default=150)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--keep", type=Path, default=KEPT)
    parser.add_argument("--having", default="", help="such as a trait of traits.TRAITS")
    options = parser.parse_args()
    wanted = (each for each in count(options.first) if options.having in str(traits.drawn(each)))
    failures: list[int] = []
    with tempfile.TemporaryDirectory() as work, contextlib.ExitStack() as stack:
        judges: dict[str, Judge] = {}
        for seed in islice(wanted, options.tables):
            begin = time.monotonic()
            stranger = traits.drawn(seed)
            if not _is_alive(judges.get(stranger.zone)):
                judge = Judge(Path(work) / f"judge-{seed}", Settings(zone=stranger.zone))
                judges[stranger.zone] = stack.enter_context(judge)
            folder = Path(work) / str(seed)
            folder.mkdir()
            print(f"{seed}: {stranger}", flush=True)
            try:
                became = Meeting(judges[stranger.zone], stranger, folder).run()
            except Exception as error:
                failures.append(seed)
                became = f"FAILED: {type(error).__name__}: {error}"
                shutil.rmtree(options.keep / str(seed), ignore_errors=True)
                shutil.copytree(folder, options.keep / str(seed))
            print(f"    {became} ({time.monotonic() - begin:.0f} s)", flush=True)
            shutil.rmtree(folder, ignore_errors=True)
    print(f"{len(failures)} of {options.tables} tables failed: {failures}")
    sys.exit(bool(failures))


def _is_alive(judge: Judge | None) -> bool:
    """Return whether a JVM answers: that of an earlier table may have crashed."""
    if judge is None:
        return False
    try:
        judge.versions()
    except (JudgeError, JudgeLostError):
        return False
    return True


if __name__ == "__main__":
    main()
