"""A proxy before an API server that answers what a real one does on a bad day.

It records each call of whoever is pointed at it, with an index, and may refuse it, cut or freeze
its answer, or call back between two calls - so that a test can kill an operator there.

    client --https--> proxy --https--> API server

One request a connection: answers say `Connection: close`, so that each call is seen alone.
"""

import asyncio
import http
import json
import ssl
import threading
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self, TypeVar
from urllib.parse import parse_qs, urlsplit

from support.kube import api, credentials

T = TypeVar("T")

_LOOPBACK: Final = "127.0.0.1"
_HEAD_END: Final = b"\r\n\r\n"
_CHUNK_BYTES: Final = 65_536
_TIMEOUT_S: Final = 30
_HELD_S: Final = 300
_HTTPS_PORT: Final = 443
# What a proxy says for itself.
_HOP_HEADERS: Final = frozenset({"connection", "content-length", "transfer-encoding"})
# As `k8s.io/apimachinery` names them.
_REASONS: Final = {
    409: "Conflict",
    410: "Expired",
    422: "Invalid",
    429: "TooManyRequests",
    500: "InternalError",
    503: "ServiceUnavailable",
    504: "Timeout",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One request.

    Attributes:
        index: Counts all calls, from 0.
        method: GET, POST, ...
        path: Without the query.
        query: The first value of each parameter.
        agent: The client's `User-Agent`.
        body: As sent.
    """

    index: int
    method: str
    path: str
    query: Mapping[str, str]
    agent: str
    body: bytes

    @property
    def is_watch(self) -> bool:
        return self.query.get("watch") in {"true", "1"}

    @property
    def is_change(self) -> bool:
        return self.method not in {"GET", "HEAD"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Refuse:
    """Answer with an error; the API server hears nothing of the call."""

    status: int
    retry_after_s: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LoseAnswer:
    """Let the API server do it, and cut the connection before the answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cut:
    """Cut the answer off after so many bytes of its body; what is watched ends in mid-event."""

    after_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Freeze:
    """Pass on so many bytes of the body, then nothing more, with the connection open."""

    after_bytes: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Hold:
    """Keep a call until somebody lets it go on to the API server.

    Attributes:
        noticed: Set when there is one.
        go_on: Lets all go on once set.
    """

    noticed: threading.Event = field(default_factory=threading.Event)
    go_on: threading.Event = field(default_factory=threading.Event)


@dataclass(frozen=True, slots=True, kw_only=True)
class Halt:
    """Run something, before the API server hears of the call or once it has answered.

    The client waits meanwhile and then sees its connection cut: `then` is where it is killed.
    """

    then: Callable[[], None]
    is_done: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Delay:
    """Keep the answer back for so long: others hear of what was done before the client does."""

    by_s: float


Fault = Refuse | LoseAnswer | Cut | Freeze | Hold | Halt | Delay


@dataclass(slots=True, kw_only=True)
class Rule:
    """A fault, and the calls that have it.

    Attributes:
        matches: Which calls.
        fault: What happens to them.
        times: To so many of them; None for all.
    """

    matches: Callable[[Call], bool]
    fault: Fault
    times: int | None = None

    def takes(self, call: Call) -> bool:
        """Return whether a call has the fault, and count it."""
        if self.times == 0 or not self.matches(call):
            return False
        if self.times is not None:
            self.times -= 1
        return True


@dataclass(frozen=True, slots=True, kw_only=True)
class _Request:
    call: Call
    head: bytes


@dataclass(slots=True)
class _Target:
    host: str
    port: int
    tls: ssl.SSLContext


class FaultProxy:
    """A running proxy; rules may be added and taken away while it runs."""

    def __init__(self, server: api.Api, folder: Path) -> None:
        """Start it.

        Args:
            server: The API server; who calls shows a token, which is passed on.
            folder: For its credentials; must not be there.
        """
        parts = urlsplit(server.server)
        assert parts.hostname is not None
        # Not the client's own trust: that may hold a certificate, which would speak for callers.
        tls = ssl.create_default_context(cadata=server.ca)
        self._target = _Target(parts.hostname, parts.port or _HTTPS_PORT, tls)
        files = credentials.make(folder, [_LOOPBACK])
        self._ca = files.ca
        self._tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        self._tls.load_cert_chain(files.server, files.server_key)
        self._calls: list[Call] = []
        self._rules: list[Rule] = []
        self._open: set[asyncio.WriteTransport] = set()
        self._serving: set[asyncio.Task[None]] = set()
        self._lock = threading.Lock()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="fault-proxy")
        self._thread.start()
        self._listener = self._do(self._listen())

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    @property
    def server(self) -> str:
        """Its URL."""
        return f"https://{_LOOPBACK}:{self._listener.sockets[0].getsockname()[1]}"

    def kubeconfig(self, token: str) -> Path:
        """Write a kubeconfig of an account that comes through the proxy."""
        path = self._ca.parent / "through-proxy.kubeconfig"
        credentials.write_kubeconfig(path, self.server, self._ca, token)
        return path

    @property
    def calls(self) -> Sequence[Call]:
        """All calls so far, in the order of their arrival."""
        with self._lock:
            return tuple(self._calls)

    def add(self, rule: Rule) -> None:
        """Have a rule apply from the next call on; earlier rules go first."""
        with self._lock:
            self._rules.append(rule)

    def heal(self) -> None:
        """Take all rules away. Frozen answers stay frozen: their connections are lost."""
        with self._lock:
            self._rules.clear()

    def cut_all(self) -> None:
        """Cut all connections that are open now."""
        self._do(self._cut_all())

    def close(self) -> None:
        """End it, with all its connections."""
        self._do(self._end())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def _do(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(_TIMEOUT_S)

    async def _listen(self) -> asyncio.Server:
        return await asyncio.start_server(self._serve, _LOOPBACK, 0, ssl=self._tls)

    async def _end(self) -> None:
        self._listener.close()
        await self._cut_all()
        # One that was about to call the API server has no connection yet that could be cut.
        for serving in tuple(self._serving):
            serving.cancel()
        others = asyncio.all_tasks() - {asyncio.current_task()}
        await asyncio.gather(*others, return_exceptions=True)

    async def _cut_all(self) -> None:
        # Whoever reads or writes on these sees them end, and ends, too.
        for transport in tuple(self._open):
            transport.abort()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one connection: one call."""
        task = asyncio.current_task()
        assert task is not None
        # A loop does not keep its tasks: one whose client is gone would be collected as it waits.
        self._serving.add(task)
        self._open.add(writer.transport)
        try:
            request = await self._read(reader)
            await self._answer(request, writer)
            await writer.drain()
            writer.close()
            await writer.wait_closed()
        except (OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass  # Either side went away, as they may at any time; or the proxy ends.
        finally:
            # What was not closed in order is cut: the client sees no end of an answer.
            writer.transport.abort()
            self._open.discard(writer.transport)
            self._serving.discard(task)

    async def _read(self, reader: asyncio.StreamReader) -> _Request:
        head = await reader.readuntil(_HEAD_END)
        first, *lines = head.decode("latin-1").strip().split("\r\n")
        method, target, _ = first.split(" ", 2)
        headers = dict(_header(line) for line in lines)
        body = await _read_body(reader, headers)
        parts = urlsplit(target)
        with self._lock:
            call = Call(
                index=len(self._calls),
                method=method,
                path=parts.path,
                query={name: values[0] for name, values in parse_qs(parts.query).items()},
                agent=headers.get("user-agent", ""),
                body=body,
            )
            self._calls.append(call)
        kept = {name: value for name, value in headers.items() if name not in _HOP_HEADERS}
        kept |= {"connection": "close", "content-length": str(len(body))}
        passed = "".join(f"{name}: {value}\r\n" for name, value in kept.items())
        return _Request(call=call, head=f"{first}\r\n{passed}\r\n".encode("latin-1"))

    def _fault(self, call: Call) -> Fault | None:
        with self._lock:
            return next((rule.fault for rule in self._rules if rule.takes(call)), None)

    async def _answer(self, request: _Request, writer: asyncio.StreamWriter) -> None:
        match self._fault(request.call):
            case Refuse() as refusal:
                writer.write(_refusal(refusal))
            case LoseAnswer():
                await self._pass_on(request, None)
                raise ConnectionAbortedError
            case Halt(then=then, is_done=is_done):
                if is_done:
                    await self._pass_on(request, None)
                then()
                raise ConnectionAbortedError
            case Hold(noticed=noticed, go_on=go_on):
                noticed.set()
                await asyncio.to_thread(go_on.wait, _HELD_S)
                await self._pass_on(request, writer)
            case Cut(after_bytes=after):
                await self._pass_on(request, writer, after)
                raise ConnectionAbortedError
            case Freeze(after_bytes=after):
                await self._pass_on(request, writer, after)
                await writer.wait_closed()
            case Delay(by_s=by_s):
                await self._pass_on(request, writer, delay_s=by_s)
            case None:
                await self._pass_on(request, writer)

    async def _pass_on(
        self,
        request: _Request,
        writer: asyncio.StreamWriter | None,
        bytes_max: int | None = None,
        *,
        delay_s: float = 0.0,
    ) -> None:
        """Send a call to the API server, and its answer back: all, or so much of its body."""
        target = self._target
        reader, upstream = await asyncio.open_connection(target.host, target.port, ssl=target.tls)
        self._open.add(upstream.transport)
        try:
            upstream.write(request.head + request.call.body)
            head = await reader.readuntil(_HEAD_END)
            if writer is None:
                await reader.read()
                return
            await asyncio.sleep(delay_s)
            writer.write(head)
            left = bytes_max
            while left != 0 and (part := await reader.read(_CHUNK_BYTES)):
                writer.write(part[:left])
                await writer.drain()
                if left is not None:
                    left = max(0, left - len(part))
        finally:
            upstream.transport.abort()
            self._open.discard(upstream.transport)


def _header(line: str) -> tuple[str, str]:
    name, _, value = line.partition(":")
    return name.strip().lower(), value.strip()


async def _read_body(reader: asyncio.StreamReader, headers: Mapping[str, str]) -> bytes:
    if headers.get("transfer-encoding", "").lower() != "chunked":
        return await reader.readexactly(int(headers.get("content-length", "0")))
    body = b""
    while size := int(await reader.readline(), 16):
        body += await reader.readexactly(size)
        await reader.readline()
    await reader.readline()
    return body


def _refusal(refusal: Refuse) -> bytes:
    status = {
        "kind": "Status",
        "apiVersion": "v1",
        "status": "Failure",
        "reason": _REASONS[refusal.status],
        "code": refusal.status,
        "message": f"the fault proxy says {refusal.status}",
    }
    body = json.dumps(status).encode()
    lines = [
        f"HTTP/1.1 {refusal.status} {http.HTTPStatus(refusal.status).phrase}",
        "Content-Type: application/json",
        f"Content-Length: {len(body)}",
        "Connection: close",
    ]
    if refusal.retry_after_s is not None:
        lines.append(f"Retry-After: {refusal.retry_after_s}")
    return "\r\n".join(lines).encode() + _HEAD_END + body
