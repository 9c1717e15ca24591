"""What it means that a run's pod is asked how far it is, and does not tell."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable

import pytest

from hoodie import clock
from hoodie.contract import job_results
from hoodie_operator.api import configuration
from hoodie_operator.api.resources import Manifest
from hoodie_operator.cluster.adapters import runs
from hoodie_operator.manifests import naming
from hoodie_operator.manifests import runs as run_manifests

TOLD = job_results.JobProgress(phase="writing", done=1, total=2, updated_ms=3)
JOB: Manifest = {"metadata": {"name": "left-1"}}
POD: Manifest = {
    "metadata": {"labels": {naming.ROLE: naming.DRIVER}},
    "status": {"phase": "Running", "podIP": "127.0.0.1"},
}

Answer = Callable[[asyncio.StreamWriter], Awaitable[None]]


def _of(head: str, body: bytes = b"") -> Answer:
    async def answer(out: asyncio.StreamWriter) -> None:
        length = "" if " 204 " in head else f"Content-Length: {len(body)}\r\n"
        out.write(f"{head}\r\n{length}Connection: close\r\n\r\n".encode() + body)

    return answer


async def _nothing(out: asyncio.StreamWriter) -> None:
    await asyncio.sleep(60)


async def _hang_up(out: asyncio.StreamWriter) -> None:
    out.transport.abort()


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        (_of("HTTP/1.1 200 OK", job_results.encode_progress(TOLD)), TOLD),
        (_of("HTTP/1.1 204 No Content"), None),
        (None, None),
        (_nothing, "(no answer within 0 s)"),
        (_hang_up, "(ServerDisconnectedError)"),
        (_of("HTTP/1.1 403 Forbidden", b"RBAC: access denied"), "(it answers 403)"),
        (_of("HTTP/1.1 200 OK", b"<html>"), "(InvalidInputError)"),
    ],
)
def test_network_in_the_way_is_told_from_a_run_that_has_not_begun(
    monkeypatch: pytest.MonkeyPatch,
    answer: Answer | None,
    told: job_results.JobProgress | str | None,
) -> None:
    monkeypatch.setattr(runs, "_ANSWER_S", 0.3)

    async def ask() -> job_results.JobProgress | str | None:
        connections: list[asyncio.StreamWriter] = []

        async def serve(asked: asyncio.StreamReader, out: asyncio.StreamWriter) -> None:
            await asked.readuntil(b"\r\n\r\n")
            assert answer is not None
            connections.append(out)
            await answer(out)

        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        monkeypatch.setattr(run_manifests, "PROGRESS_PORT", port)
        if answer is None:
            server.close()
        asking = runs.JobRuns(
            None,  # type: ignore[arg-type]  # no API server is asked
            None,  # type: ignore[arg-type]  # nor a fence
            configuration.Configuration(data_roots=("/data",)),
            clock.SystemClock(),
        )
        try:
            return await asking.progress(JOB, [POD])
        finally:
            await asking.close()
            server.close()
            for connection in connections:
                connection.close()
                with contextlib.suppress(ConnectionError):
                    await connection.wait_closed()

    found = asyncio.run(ask())
    if isinstance(told, str):
        assert isinstance(found, str)
        assert found.startswith("127.0.0.1:")
        assert found.endswith(told)
    else:
        assert found == told
