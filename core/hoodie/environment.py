"""What a table's code depends on: storage, clock, random ids, threads, identity of the process.

One value is made at the edge (`system`), or by a test with a virtual clock and a faulty storage,
and passed down; nothing below looks any of it up by itself.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from hoodie import clock, deferred, identity
from hoodie.background import protocol as background_protocol
from hoodie.background import threads
from hoodie.engine import local as local_engine
from hoodie.engine import protocol as engine_protocol
from hoodie.storage import locations
from hoodie.storage import protocol as storage_protocol

with deferred.imports():
    from hoodie.storage import store_options


@dataclass(frozen=True, slots=True, kw_only=True)
class Environment:
    """The dependencies of a table's code; a parameter of this type is called `env`.

    Attributes:
        open_storage: Opens the storage of a table's URI.
        clock: Time.
        random: Ids and jitter.
        background: Runs heartbeats.
        engine: Runs data-parallel work.
        process: The process that made this; `identity.as_of_now` of it is the one that uses it,
            which may have been forked since.
    """

    open_storage: Callable[[str], storage_protocol.Storage]
    clock: clock.Clock
    random: identity.Random
    background: background_protocol.Background
    engine: engine_protocol.Engine
    process: identity.ProcessIdentity


def system(
    *,
    parallelism: int | None = None,
    allowed_roots: Sequence[str] = (),
    storage_options: store_options.StorageOptions | None = None,
) -> Environment:
    """Return the machine's own environment.

    Args:
        parallelism: Threads for data-parallel work; None takes the machine's cores.
        allowed_roots: Folders or prefixes that every table must be below one of; none for no
            limit.
        storage_options: Credentials and endpoint of an object store, instead of the environment.
    """
    return Environment(
        open_storage=lambda uri: locations.open_storage(
            uri, allowed_roots=allowed_roots, options=storage_options
        ),
        clock=clock.SystemClock(),
        random=identity.SystemRandom(),
        background=threads.ThreadBackground(),
        engine=local_engine.LocalEngine(parallelism),
        process=identity.current_process(),
    )
