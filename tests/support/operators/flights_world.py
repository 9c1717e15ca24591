"""A world of decisions with one table; tests add those who write and compact it."""

import dataclasses

from hoodie_operator.api import kinds, objects
from support.operators import operator_world as ow
from support.operators.operator_world import Outside
from support.operators.rule_examples import edited


class Flights(Outside):
    """A table and its lock, both seen and ready."""

    def __init__(self, table: dict[str, object] | None = None, *, is_ready: bool = True) -> None:
        super().__init__()
        self.lock_key = self.add(kinds.LOCK_PROVIDER, "zk", ow.LOCK)
        self.table_key = self.add(
            kinds.HUDI_TABLE, "flights", table or ow.TABLE, labels={"tier": "gold"}
        )
        self.see_lock(self.lock_key)
        if is_ready:
            self.see_table(self.table_key)
            self.settle()
            self.end(self.uid(self.table_key), is_told=True)
            self.see_table(self.table_key)
            self.settle()
            assert self.condition(self.table_key)[0] == "Ready"
            self.started.clear()

    def change_stored(self, **changes: object) -> None:
        """Have the storage tell another configuration than the table was made with."""
        seen = self.tables[self.uid(self.table_key)]
        assert seen.config is not None
        config = dataclasses.replace(seen.config, **changes)  # type: ignore[arg-type]  # fields of it
        self.tables[self.uid(self.table_key)] = dataclasses.replace(seen, config=config)

    def actions(self) -> list[objects.ObjectKey]:
        return [key for key in self.by_key if key.kind == "TableAction"]

    def add_writer(
        self, name: str, column: str = "a", files: tuple[str, ...] = ("1", "2"), **edits: object
    ) -> objects.ObjectKey:
        key = self.add(kinds.WRITER, name, ow.writer_spec(**edits))
        self.see_source(key, [[file] for file in files], ["id", column])
        return key

    def add_policy(self, name: str = "often", **edits: object) -> objects.ObjectKey:
        spec = {"target": {"tableRef": {"name": "flights"}}, "triggers": {"deltaCommits": 2}}
        return self.add(kinds.COMPACTION_POLICY, name, edited(spec, **edits))

    def compactions(self) -> list[objects.ObjectKey]:
        return [key for key in self.actions() if "compaction" in key.name]
