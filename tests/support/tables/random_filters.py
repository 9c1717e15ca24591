"""Random filters over columns of each ordered type, and values for these."""

import datetime
import decimal
from collections.abc import Mapping
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

from hoodie.model import predicates
from hoodie.model.predicates import And, Comparator, Compare, In, IsNull, Not, Or

SCHEMA = pa.schema(
    [
        ("i", pa.int32()),
        ("f", pa.float32()),
        ("d", pa.float64()),
        ("s", pa.string()),
        ("day", pa.date32()),
        ("n", pa.decimal128(9, 2)),
        ("t", pa.timestamp("us")),
    ]
)
# Characters whose order in UTF-16 is not that of their code points, among others.
TEXTS = st.text(st.sampled_from("ab\ue000\U0001f600"), max_size=2)
DAYS = st.dates(datetime.date(2026, 1, 1), datetime.date(2026, 1, 5))
VALUES: dict[str, st.SearchStrategy[Any]] = {
    "i": st.integers(-3, 3),
    "f": st.sampled_from([-0.0, 0.0, 0.1, 1.5, -2.0]),
    "d": st.sampled_from([-0.0, 0.0, 0.1, 1.5, -2.0]),
    "s": TEXTS,
    "day": DAYS,
    "n": st.decimals(-2, 2, places=2),
    "t": st.builds(datetime.datetime.combine, DAYS, st.times()),
}
LITERALS: dict[str, st.SearchStrategy[Any]] = {
    **VALUES,
    "i": st.one_of(st.integers(-4, 4), st.sampled_from([0.5, -1.5, decimal.Decimal("2.5")])),
    "n": st.one_of(st.decimals(-3, 3, places=3), st.integers(-3, 3)),
}


@st.composite
def leaves(draw: st.DrawFn, literals: Mapping[str, st.SearchStrategy[Any]]) -> predicates.Predicate:
    name = draw(st.sampled_from(sorted(literals)))
    match draw(st.integers(0, 2)):
        case 0:
            return Compare(name, draw(st.sampled_from(list(Comparator))), draw(literals[name]))
        case 1:
            return In(name, tuple(draw(st.lists(literals[name], max_size=3))))
        case _:
            return IsNull(name)


def filters_of(
    literals: Mapping[str, st.SearchStrategy[Any]],
) -> st.SearchStrategy[predicates.Predicate]:
    """Return filters on columns, by their names, that compare with literals."""
    return st.recursive(
        leaves(literals),
        lambda inner: st.one_of(
            st.builds(Not, inner),
            st.builds(And, st.lists(inner, max_size=2).map(tuple)),
            st.builds(Or, st.lists(inner, max_size=2).map(tuple)),
        ),
        max_leaves=4,
    )


FILTERS = filters_of(LITERALS)
