"""Leaving out partitions by an expression of Arrow of which no predicate is known.

Arrow itself simplifies an expression by what holds of a fragment. Here that is the values of its
partition's columns, as far as the path tells them.
"""

import functools
import operator
from collections.abc import Mapping, Sequence
from dataclasses import replace

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import dataset, fs

from hoodie.model import schemas
from hoodie.read import planning, pruning


def without_other_partitions(
    plan: planning.Plan, expression: pc.Expression, columns: pa.Schema
) -> planning.Plan:
    """Return a plan without the slices of partitions in which an expression is true of no row.

    Args:
        plan: Of a read.
        expression: What rows must be.
        columns: The table's, meta columns among them.
    """
    if not plan.slices:
        return plan
    config = plan.task(plan.slices[0]).config
    own = pa.schema([each for each in columns if each.name not in schemas.META_COLUMNS])
    paths = list(dict.fromkeys(each.group.partition_path for each in plan.slices))
    values = pruning.values_of_partitions(paths, config, own)
    left = _matching(paths, values, expression, columns)
    return replace(
        plan, slices=tuple(each for each in plan.slices if each.group.partition_path in left)
    )


def _matching(
    paths: Sequence[str],
    values: Mapping[str, Mapping[str, pa.Scalar]],
    expression: pc.Expression,
    columns: pa.Schema,
) -> set[str]:
    parquet, nowhere = dataset.ParquetFileFormat(), fs.LocalFileSystem()
    fragments = []
    for number, path in enumerate(paths):
        known = [pc.field(name) == pc.scalar(value) for name, value in values.get(path, {}).items()]
        holds = functools.reduce(operator.and_, known, pc.scalar(True))
        # Nothing is opened: the name is the number by which it is known again.
        fragments.append(parquet.make_fragment(str(number), nowhere, partition_expression=holds))
    found = dataset.FileSystemDataset(fragments, columns, parquet, nowhere)
    return {paths[int(each.path)] for each in found.get_fragments(filter=expression)}
