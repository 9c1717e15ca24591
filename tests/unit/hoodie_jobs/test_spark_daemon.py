"""Workers are forked from a process with one thread, and use Arrow and stores like any other."""

import os
import subprocess
import sys
from pathlib import Path

_OF_A_TASK = {"OMP_NUM_THREADS": "1"}
"""What Spark sets for tasks of one core."""

_IN_FORKS = """
import os, signal, sys
from hoodie_jobs.spark import daemon

daemon.preload()

def forked(work, count):
    children = []
    for number in range(count):
        if not (child := os.fork()):
            # A deadlock ends the child, and so fails the test.
            signal.alarm(60)
            work(number)
            os._exit(0)
        children.append(child)
    return [os.waitpid(child, 0)[1] for child in children]
"""


def test_process_has_one_thread_when_it_forks() -> None:
    program = """
import os, sys, threading
from hoodie_jobs.spark import daemon
daemon.preload()
print(threading.active_count(), len(os.listdir("/proc/self/task")), "pandas" in sys.modules)
"""
    # Pools of Arrow and of obstore would be threads of the system as well.
    assert _run(program, _OF_A_TASK) == "1 1 True\n"


def test_forked_workers_use_arrow_and_stores_in_parallel(tmp_path: Path) -> None:
    program = f"""{_IN_FORKS}
def work(number):
    import obstore
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.csv
    import pyarrow.dataset
    import pyarrow.parquet as pq
    import numpy as np

    pa.set_cpu_count(4)
    names = [f"column_{{place}}" for place in range(8)]
    rows = pa.table({{name: np.arange(100_000) for name in names}})
    path = f"{{sys.argv[1]}}/{{number}}"
    for _ in range(2):
        pq.write_table(rows, path, row_group_size=20_000)
        assert pq.read_table(path, use_threads=True, pre_buffer=True).equals(rows)
        found = pyarrow.dataset.dataset(path).to_table(filter=pc.field("column_0") < 10)
        assert found.num_rows == 10
        pa.csv.write_csv(rows.slice(0, 1000), path)
        assert pa.csv.read_csv(path).num_rows == 1000
        assert rows.group_by("column_1", use_threads=True).aggregate([]).num_rows == 100_000
    assert np.ones((300, 300)).dot(np.ones((300, 300)))[0, 0] == 300
    for pool in (pa.jemalloc_memory_pool(), pa.mimalloc_memory_pool()):
        assert len(pa.allocate_buffer(1 << 24, memory_pool=pool)) == 1 << 24
    store = obstore.store.LocalStore(sys.argv[1])
    obstore.put(store, f"{{number}}.object", b"content")
    assert bytes(obstore.get(store, f"{{number}}.object").bytes()) == b"content"

print(forked(work, 4), forked(work, 4))
"""
    assert _run(program, {}, str(tmp_path)) == f"{[0] * 4} {[0] * 4}\n"


def test_forked_workers_draw_different_numbers() -> None:
    program = f"""{_IN_FORKS}
import random
import numpy as np

def work(number):
    os.write(1, f"{{random.random()}} {{np.random.random()}}\\n".encode())

forked(work, 3)
"""
    lines = _run(program, _OF_A_TASK).splitlines()
    assert len(lines) == 3
    assert len({number for line in lines for number in line.split()}) == 6


def _run(program: str, variables: dict[str, str], *arguments: str) -> str:
    found = subprocess.run(
        [sys.executable, "-c", program, *arguments],
        capture_output=True,
        check=False,
        text=True,
        env={**os.environ, **variables},
    )
    assert not found.returncode, found.stderr
    return found.stdout
