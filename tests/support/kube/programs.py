"""Programs that a test starts beside itself, and waiting for what they do.

Each dies with the process that started it, however that ends: the kernel kills it (prctl's
PR_SET_PDEATHSIG, by setpriv). Start them from the main thread: the kernel watches the thread.
"""

import signal
import subprocess
import time
from collections.abc import Callable, Sequence
from pathlib import Path

_POLL_S = 0.05
_TAIL_LINES = 15
_STOPPED = "T"


class Program:
    """One started program with its log."""

    def __init__(self, name: str, command: Sequence[str | Path], log: Path) -> None:
        self.name = name
        self.log = log
        with log.open("ab") as file:
            self._process = subprocess.Popen(
                ["setpriv", "--pdeathsig", "KILL", "--", *command],
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=subprocess.STDOUT,
                start_new_session=True,  # Ctrl-C is for whoever started us; we end it in order.
            )

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def is_running(self) -> bool:
        return self._process.poll() is None

    def kill(self) -> None:
        """End it at once, as a power cut would."""
        self._process.kill()
        self._process.wait()

    def stop(self, timeout_s: float = 10) -> None:
        """Ask it to end, and kill it if it does not."""
        if not self.is_running:
            return
        self._process.terminate()
        try:
            self._process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            self.kill()

    def pause(self) -> None:
        """Freeze it: its connections stay open, and nothing is answered from here on."""
        self._process.send_signal(signal.SIGSTOP)
        # On a busy machine each thread goes on until it comes up again.
        wait_until(lambda: set(self.thread_states()) == {_STOPPED}, f"{self.name} stands still")

    def thread_states(self) -> list[str]:
        """Return the state of each of its threads, as of `man proc_pid_stat`."""
        found = Path(f"/proc/{self.pid}/task").glob("*/stat")
        return [stat.read_text().rpartition(")")[2].split()[0] for stat in found]

    def resume(self) -> None:
        self._process.send_signal(signal.SIGCONT)

    def tail(self) -> str:
        """Return the last lines of its log."""
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-_TAIL_LINES:])


def wait_until(
    holds: Callable[[], bool], what: str, timeout_s: float = 60, needs: Sequence[Program] = ()
) -> None:
    """Return once a condition holds.

    Args:
        holds: Asked again and again; an OSError counts as not yet.
        what: The condition in words, for the failure.
        timeout_s: After this long it has failed.
        needs: If one of these ends, it has failed as well.

    Raises:
        TimeoutError: It did not come to hold.
        RuntimeError: A program that is needed has ended.
    """
    deadline = time.monotonic() + timeout_s
    while not _holds(holds):
        for program in needs:
            if not program.is_running:
                raise RuntimeError(f"{program.name} ended before {what}:\n{program.tail()}")
        if time.monotonic() > deadline:
            logs = "\n".join(f"{program.name}:\n{program.tail()}" for program in needs)
            raise TimeoutError(f"not within {timeout_s:.0f} s: {what}\n{logs}")
        time.sleep(_POLL_S)


def _holds(condition: Callable[[], bool]) -> bool:
    try:
        return condition()
    except OSError:
        return False
