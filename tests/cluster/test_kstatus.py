"""What the library that Flux and kubectl's tools use computes of every state."""

import copy

from hoodie_operator.api import kinds
from hoodie_operator.api.states import Kstatus
from support.kube import clusters
from support.operators import recorded_states


def test_kstatus_is_the_tables(cluster: clusters.Cluster) -> None:
    every = list(recorded_states.every())
    found = cluster.kstatus(*(each.document for each in every))
    computed = {str(each): answer["status"] for each, answer in zip(every, found, strict=True)}
    assert computed == {str(each): each.row.kstatus.value for each in every}


def test_kstatus_waits_for_what_was_not_seen(cluster: clusters.Cluster) -> None:
    changed = []
    for each in recorded_states.every():
        if each.row.kstatus is not Kstatus.TERMINATING:
            document = copy.deepcopy(each.document)
            document["metadata"]["generation"] += 1
            changed.append(document)
    assert {answer["status"] for answer in cluster.kstatus(*changed)} == {"InProgress"}


def test_kstatus_takes_what_nobody_looked_at_for_done(cluster: clusters.Cluster) -> None:
    # Its own rule for what has no status: tools that wait must wait for Ready as well.
    found = cluster.kstatus(*(recorded_states.unseen(kind) for kind in kinds.KINDS))
    assert {answer["status"] for answer in found} == {"Current"}
