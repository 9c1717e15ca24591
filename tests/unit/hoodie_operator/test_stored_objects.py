"""How commands name an object: as kubectl does."""

import pytest

from hoodie import errors
from hoodie_operator.commands import stored


@pytest.mark.parametrize(
    ("kind", "name"), [("writer", "rides"), ("writer/rides", None), ("Writers/rides", None)]
)
def test_object_is_named_in_either_way(kind: str, name: str | None) -> None:
    found, rides = stored.one_asked_for(kind, name)
    assert (found.name, rides) == ("Writer", "rides")


@pytest.mark.parametrize(
    ("kind", "name"), [("writer", None), ("writer/", None), ("writer/a", "b"), ("trip/a", None)]
)
def test_what_names_no_object_is_refused(kind: str, name: str | None) -> None:
    with pytest.raises(errors.InvalidInputError, match=rf"^'?{kind.partition('/')[0]}.*expected"):
        stored.one_asked_for(kind, name)


def test_kind_without_a_name_is_all_of_them() -> None:
    found, name = stored.asked_for("tables", None)
    assert (found.name, name) == ("HudiTable", None)
