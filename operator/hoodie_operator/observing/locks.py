"""Looking at lock providers: whether those who serve them answer."""

import socket
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Final

from hoodie_operator.api import lock_provider, objects
from hoodie_operator.reconcile import facts

SILENT: Final = "does not answer"

_ANSWER_S: Final = 1.0
_ANSWER_BYTES: Final = 1024
_QUESTION: Final = b"srvr"  # The one four-letter word that servers answer by default.
_ANSWER: Final = b"Zookeeper version"
_NOT_SERVING: Final = b"not currently serving requests"
_WITHOUT_SERVER: Final = {
    lock_provider.LockType.FILE_SYSTEM: "a lock file beside each table",
    lock_provider.LockType.IN_PROCESS: "a lock inside each process",
    lock_provider.LockType.STORAGE: "a lease in the storage of each table",
    # Whether it may be asked, the credentials of a run decide, not ours.
    lock_provider.LockType.DYNAMODB: "a lease in a table of DynamoDB",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What a provider says.

    Attributes:
        is_ready: Whether it can be used.
        servers: `host:port` of each, where there are some.
        message: For people.
    """

    is_ready: bool
    servers: Sequence[str] = ()
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """What is asked of each server of a provider.

    Attributes:
        servers: `host:port` of each.
        silence_of: Returns why a server cannot be used; None when it can. May take long.
        kind: What the servers are expected to be.
    """

    servers: Sequence[str]
    silence_of: Callable[[str], str | None]
    kind: str


def question(spec: lock_provider.LockProviderSpec) -> Question | Answer:
    """Return what to ask of a provider that is not embedded, or what is known without asking."""
    told = _WITHOUT_SERVER.get(spec.type)
    if told is not None:
        return Answer(is_ready=True, message=told)
    if spec.hive_metastore is not None:
        servers = spec.hive_metastore.servers
        return Question(servers=servers, silence_of=_silence, kind="Hive Metastore")
    assert spec.zookeeper is not None
    assert spec.zookeeper.servers is not None
    return question_zookeeper(spec.zookeeper.servers)


def question_zookeeper(servers: Sequence[str]) -> Question:
    """Return what to ask of the servers of a ZooKeeper."""
    return Question(servers=servers, silence_of=_silence_of_zookeeper, kind="ZooKeeper")


def ask(spec: lock_provider.LockProviderSpec, threads: ThreadPoolExecutor) -> Answer:
    """Ask a provider whose servers, if it has any, are declared."""
    found = question(spec)
    if isinstance(found, Answer):
        return found
    silences = threads.map(found.silence_of, found.servers)
    return answered(found, dict(zip(found.servers, silences, strict=True)))


def seen(
    answer: Answer, lock: objects.Lock, before: facts.LockFacts | None, now_ms: int
) -> facts.LockFacts:
    """Return what an answer means for a provider.

    Args:
        answer: The answer.
        lock: Whom it is about.
        before: What was known.
        now_ms: The operator's clock.
    """
    is_same = before is not None and before.is_ready == answer.is_ready
    return facts.LockFacts(
        generation=lock.generation,
        is_ready=answer.is_ready,
        servers=tuple(answer.servers),
        message=answer.message,
        since_ms=before.since_ms if before is not None and is_same else now_ms,
    )


def answered(asked: Question, silences: Mapping[str, str | None]) -> Answer:
    """Return what a provider says, from why each of its servers cannot be used."""
    count = sum(why is None for why in silences.values())
    told = "; ".join(f"{server} {why}" for server, why in silences.items() if why is not None)
    if count == 0:
        message = f"{told}, expected a {asked.kind}"
        return Answer(is_ready=False, servers=tuple(silences), message=message)
    answers = f"{count} of {len(silences)} answer"
    message = f"{answers}; {told}" if told else answers
    return Answer(is_ready=True, servers=tuple(silences), message=message)


def _connect(server: str) -> socket.socket:
    host, _, port = server.rpartition(":")
    return socket.create_connection((host.strip("[]"), int(port)), timeout=_ANSWER_S)


def _silence(server: str) -> str | None:
    """Return why a server cannot be used; None when it takes connections."""
    try:
        _connect(server).close()
    except (OSError, ValueError, OverflowError):
        return SILENT
    return None


def _silence_of_zookeeper(server: str) -> str | None:
    """Return why a server cannot be used; None when it is a ZooKeeper that serves."""
    try:
        with _connect(server) as opened:
            opened.sendall(_QUESTION)
            answer = opened.recv(_ANSWER_BYTES)
    except (OSError, ValueError, OverflowError):
        return SILENT
    if _NOT_SERVING in answer:
        return "does not serve requests: it has no quorum"
    # One that is told to answer no questions says so itself.
    return None if answer.startswith((_ANSWER, _QUESTION)) else "is not a ZooKeeper server"
