"""Run the scripts of docs/upstream, each in an Apache Hudi of its own, and show what each finds.

    python tests/conformance/run_upstream.py [SCRIPT...]

The exit code is 0 if each finds what it is about, so that a release that mends one is noticed.
"""

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT / "tests")]

from support.peer import judge  # noqa: E402 (the path comes first)

SCRIPTS = ROOT / "docs" / "upstream"
_CONF = {
    "spark.serializer": "org.apache.spark.serializer.KryoSerializer",
    "spark.kryo.registrator": "org.apache.spark.HoodieSparkKryoRegistrar",
    "spark.sql.extensions": "org.apache.spark.sql.hudi.HoodieSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.hudi.catalog.HoodieCatalog",
    "spark.driver.host": "127.0.0.1",
    "spark.ui.enabled": "false",
    "spark.sql.shuffle.partitions": "2",
}
_TIMEOUT_S = 600


def run(script: Path, work: Path) -> subprocess.CompletedProcess[str]:
    """Return what a script printed, and its exit code."""
    bundle = max(judge.jars().glob(judge.BUNDLE_PATTERN))
    conf = [f"--conf={key}={value}" for key, value in _CONF.items()]
    submit = judge.PYTHON.with_name("spark-submit")
    environment = os.environ | {
        "PYSPARK_PYTHON": str(judge.PYTHON),
        "PATH": f"{judge.PYTHON.parent}:{os.environ['PATH']}",
        "SPARK_LOCAL_IP": "127.0.0.1",
        "TMPDIR": str(work),
    }
    environment.pop("PYTHONPATH", None)
    command = [submit, "--master=local[2]", f"--jars={bundle}", *conf, script]
    return subprocess.run(
        command,
        check=False,
        capture_output=True,
        text=True,
        env=environment,
        cwd=work,
        timeout=_TIMEOUT_S,
    )


def main() -> None:
    """Run some scripts, or all of them."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("scripts", nargs="*", type=Path, metavar="SCRIPT")
    found = parser.parse_args().scripts or sorted(SCRIPTS.glob("*.py"))
    unlike: list[str] = []
    for script in found:
        with tempfile.TemporaryDirectory() as work:
            done = run(script.resolve(), Path(work))
        print(f"{script.name}: exit code {done.returncode}\n{done.stdout}", flush=True)
        if done.returncode != 1 or ("expected" not in done.stdout and "as of" not in done.stdout):
            unlike.append(script.name)
            print(done.stderr[-3000:], flush=True)
    print(f"{len(unlike)} of {len(found)} do not find what they are about: {unlike}")
    sys.exit(bool(unlike))


if __name__ == "__main__":
    main()
