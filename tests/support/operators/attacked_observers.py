"""Asks observers at an address about many tables, and prints how much memory that has taken.

A program: memory is measured by the process.
"""

import asyncio
import dataclasses
import sys
from typing import cast

from hoodie import clock
from hoodie_operator.api import configuration, kinds, objects
from hoodie_operator.cluster.adapters.observers import ClusterObservers
from hoodie_operator.cluster.client import api
from hoodie_operator.cluster.control.ports import TableLook
from hoodie_operator.reconcile import effective
from support.operators import operator_world as ow
from support.operators.api_server import ApiServer
from support.tables import peak_memory

TOLD = configuration.parse(
    b"dataRoots: [/data]\nobservers: {memory: 16Mi, timeLimit: 5s}\n", "operator.yaml"
)


def _looks(count: int) -> list[TableLook]:
    here = ow.Outside()
    found = cast("objects.Table", here.by_key[here.add(kinds.HUDI_TABLE, "t", ow.TABLE)])
    return [
        TableLook(
            table=dataclasses.replace(found, uid=f"uid-{number}"),
            uri=f"file:///data/{number}",
            settings=effective.write_settings(found.spec, None),
        )
        for number in range(count)
    ]


def main(address: str, count: int) -> None:
    """Ask about tables one by one, all at once."""

    async def run(client: api.Api) -> None:
        observers = ClusterObservers(
            client, TOLD, clock.SystemClock(), address_of=lambda identity: address
        )
        looks = _looks(count)
        await observers.keep([looks[0].table])
        before = peak_memory.begin()
        seen = await asyncio.gather(*(observers.look_at_tables([look]) for look in looks))
        problems = {
            "" if fact is None or fact.problem is None else fact.problem.message
            for each in seen
            for fact in each.values()
        }
        await observers.close()
        print(peak_memory.peak_mib() - before, *sorted(problems)[-1:])

    ApiServer().use(run)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
