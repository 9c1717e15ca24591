"""An attempt that is to be started, with all that its manifests are made of."""

import dataclasses
from typing import Final

from hoodie.contract import input_sources, job_specs
from hoodie.model import commits
from hoodie_operator.api import configuration, execution, kinds, objects
from hoodie_operator.reconcile import effects, facts
from support.operators import operator_world as ow

NAMESPACE: Final = "default"
TOLD = configuration.parse(
    b"""
dataRoots: [/data]
image: {name: "hudi:1"}
serviceAccounts: {default: hudi-jobs}
""",
    "operator.yaml",
)


@dataclasses.dataclass(frozen=True)
class Attempt:
    """What an attempt is started with."""

    start: effects.StartRun
    owner: objects.AnyObject
    table: objects.Table

    def of_edited_table(self) -> "Attempt":
        """Return the same attempt as it is after an edit of its table."""
        table = dataclasses.replace(self.start.table, protocol_hash="edited")
        return dataclasses.replace(self, start=dataclasses.replace(self.start, table=table))


def attempt() -> Attempt:
    """Return an attempt of a Writer of one file."""
    here = ow.Outside()
    here.see_lock(here.add(kinds.LOCK_PROVIDER, "zk", ow.LOCK))
    here.see_table(here.add(kinds.HUDI_TABLE, "flights", ow.TABLE))
    owner = here.by_key[here.add(kinds.WRITER, "schedules", ow.writer_spec())]
    here.settle()
    table = here.world.table(NAMESPACE, "flights")
    assert table is not None
    (create,) = here.started
    work = job_specs.WriteBatches(
        operation=commits.Operation.UPSERT,
        source=input_sources.Source(format=input_sources.SourceFormat.CSV),
        batches=(input_sources.Batch(id="1", files=("/in/1.csv",)),),
    )
    start = effects.StartRun(
        id=facts.RunId(
            kind="Writer", namespace=NAMESPACE, name=owner.name, uid=owner.uid, attempt=4
        ),
        fence_number=1_000_004,
        table=create.table,
        work=work,
        runtime=execution.Runtime(),
        run_hash="r",
        memory_percent=100,
        writer_id=owner.name,
        action_id=None,
    )
    return Attempt(start, owner, table)
