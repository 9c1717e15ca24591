"""A mirror of a table with any history shows what a read-optimized read shows, then and later."""

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hoodie import environment
from hoodie.services import mirroring
from hoodie.services.mirrors import values
from support.tables import mirrors
from support.tables.random_histories import KINDS, STEPS, RandomHistory

MIRROR = st.tuples(st.just("mirror"), st.integers(1, 3))
CLEAN = st.just(("clean",))


class Mirrored(RandomHistory):
    """A table that is mirrored now and then."""

    def __init__(self, folder: Path, kind: str) -> None:
        super().__init__(folder, KINDS[kind])
        self.folder = folder
        self.seen: dict[int | None, list[dict[str, object]]] = {}

    def mirror(self, kept: int) -> None:
        table = self.small.table
        done = mirroring.mirror(table._target, values.Options(kept=kept), environment.system())
        self.seen[done.snapshot_id] = mirrors.optimized(table)
        assert 1 <= len(mirrors.opened(self.folder).snapshots()) <= kept

    def check(self) -> None:
        for each in mirrors.opened(self.folder).snapshots():
            assert mirrors.rows(self.folder, each.snapshot_id) == self.seen[each.snapshot_id]


@pytest.mark.sample(1)  # Some seconds each.
@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=5, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(steps=st.lists(st.one_of(*STEPS, MIRROR, MIRROR, CLEAN), min_size=4, max_size=12))
def test_every_kept_snapshot_is_what_the_table_was(
    tmp_path_factory: pytest.TempPathFactory, kind: str, steps: list[tuple[object, ...]]
) -> None:
    history = Mirrored(tmp_path_factory.mktemp("mirrored") / "t", kind)
    history.upsert([("1", "p"), ("2", "q")], 1, is_late=False)
    history.mirror(3)
    for step in [*steps, ("mirror", 2), ("clean",)]:
        if step[0] == "mirror":
            history.mirror(int(str(step[1])))
        else:
            history.take(step)
        if step[0] in {"mirror", "clean"}:
            history.check()
