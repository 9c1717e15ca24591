"""The parts of a control plane can be killed, frozen and started again, and none is left behind."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from support.kube import api, control_plane, programs

CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"


def test_api_server_that_is_started_again_knows_what_it_knew(
    own_control_plane: control_plane.ControlPlane,
) -> None:
    plane = own_control_plane
    plane.api.create(CONFIG_MAPS, {"metadata": {"name": "a"}})
    plane.program("kube-apiserver").kill()
    with pytest.raises(OSError, match="refused"):
        plane.api.get(f"{CONFIG_MAPS}/a")
    plane.start_api_server()
    assert plane.api.is_there(f"{CONFIG_MAPS}/a")


def test_frozen_api_server_answers_when_it_goes_on(
    own_control_plane: control_plane.ControlPlane,
) -> None:
    plane = own_control_plane
    server = plane.program("kube-apiserver")
    server.pause()
    states = server.thread_states()
    assert set(states) == {"T"}
    assert len(states) > 1
    watch = plane.api.watch(CONFIG_MAPS, timeout_s=0.5)
    with pytest.raises(TimeoutError):
        next(watch)
    server.resume()
    programs.wait_until(lambda: plane.api.is_there("/readyz"), "the API server answers again")


def _processes_of(folder: Path) -> list[str]:
    """Return the command lines of living processes that name a folder."""
    found = []
    for process in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            command = process.read_bytes().replace(b"\0", b" ").decode()
        except OSError:
            continue  # It ended while we looked.
        if str(folder) in command:
            found.append(command)
    return found


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL])
def test_nothing_is_left_of_a_control_plane_whose_owner_has_gone(
    tmp_path: Path, how: signal.Signals
) -> None:
    folder = tmp_path / "plane"
    paths = {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    with subprocess.Popen(
        [sys.executable, "-m", "support.kube.control_plane", str(folder)],
        stdout=subprocess.PIPE, text=True, env=os.environ | paths,
    ) as owner:  # fmt: skip
        assert owner.stdout is not None
        kubeconfig = owner.stdout.readline().strip().removeprefix("export KUBECONFIG=")
        assert api.connect(Path(kubeconfig)).is_there("/readyz")
        assert len(_processes_of(folder)) > 4
        owner.send_signal(how)
        owner.wait(30)
    programs.wait_until(lambda: not _processes_of(folder), "all processes have ended")
