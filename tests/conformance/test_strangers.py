"""Random tables of Apache Hudi, some of those that `make strangers` meets, are written by both."""

from pathlib import Path

import pytest

from support.peer import traits
from support.peer.judge import Judge
from support.peer.meetings import Meeting


@pytest.mark.sample(1)
@pytest.mark.parametrize("seed", [*range(100_000, 100_008), *range(600, 604)])
def test_random_table_is_the_same_for_both_after_each_step(
    seed: int, judge: Judge, tmp_path: Path
) -> None:
    Meeting(judge, traits.drawn(seed), tmp_path).run()
