"""Validation rules as values: one text for the API server, one predicate for everyone else.

A rule's CEL is embedded in the CRD at `spec`, its predicate runs where there is no API server and
again in reconcile, because an object may have been stored under an older schema. The same accepted
and refused examples test both forms.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

Spec = TypeVar("Spec")


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule(Generic[Spec]):
    """What must hold within one spec.

    Attributes:
        name: Stable, for tests and documents.
        field: The path below the spec that a violation points at; empty for the spec itself.
        message: What is expected, as a clause that follows the field's name.
        cel: The rule for the API server, where `self` is the spec.
        holds: The rule for Python.
    """

    name: str
    field: str
    message: str
    cel: str
    holds: Callable[[Spec], bool]


@dataclass(frozen=True, slots=True, kw_only=True)
class TransitionRule(Generic[Spec]):
    """What must hold between the old and the new spec of one object.

    Attributes:
        name: As in `Rule`.
        field: As in `Rule`.
        message: As in `Rule`.
        cel: The rule for the API server, where `self` is the new spec and `oldSelf` the old; of
            one that holds once provisioned the new and the old object.
        holds: The rule for Python: new, old.
        is_once_provisioned: Whether it holds only from `status.provisioned` on: before, nothing
            is there that could differ from the new spec.
    """

    name: str
    field: str
    message: str
    cel: str
    holds: Callable[[Spec, Spec], bool]
    is_once_provisioned: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules(Generic[Spec]):
    """All rules of one kind."""

    within: Sequence[Rule[Spec]] = ()
    between: Sequence[TransitionRule[Spec]] = ()

    def __iter__(self) -> Iterator[Rule[Spec] | TransitionRule[Spec]]:
        yield from self.within
        yield from self.between

    def violations(self, spec: Spec) -> list[Rule[Spec]]:
        """Return the rules that a spec breaks."""
        return [rule for rule in self.within if not rule.holds(spec)]

    def forbidden_changes(
        self, spec: Spec, old: Spec, *, is_provisioned: bool = True
    ) -> list[TransitionRule[Spec]]:
        """Return the rules that a change of an object's spec breaks."""
        return [
            rule
            for rule in self.between
            if (is_provisioned or not rule.is_once_provisioned) and not rule.holds(spec, old)
        ]


def immutable(field: str, get: Callable[[Spec], object]) -> TransitionRule[Spec]:
    """Return the rule that a field, required or with a default, keeps its value."""
    return TransitionRule(
        name=f"immutable-{field}",
        field=field,
        message="cannot be changed",
        cel=f"self.{field} == oldSelf.{field}",
        holds=lambda new, old: get(new) == get(old),
    )


def immutable_optional(field: str, get: Callable[[Spec], object]) -> TransitionRule[Spec]:
    """Return the rule that an optional field keeps its value, or its absence."""
    return TransitionRule(
        name=f"immutable-{field}",
        field=field,
        message="cannot be changed, set or unset",
        cel=(
            f"has(self.{field}) == has(oldSelf.{field}) "
            f"&& (!has(self.{field}) || self.{field} == oldSelf.{field})"
        ),
        holds=lambda new, old: get(new) == get(old),
    )


def fixed_by_provisioning(
    field: str, get: Callable[[Spec], object], message: str = "cannot be changed any more"
) -> TransitionRule[Spec]:
    """Return the rule that a field keeps its value, or its absence, once its object is provisioned.

    Until then a wrong value can be corrected: no more than a refused attempt was made of it.
    """
    return TransitionRule(
        name=f"provisioned-{field}",
        field=field,
        message=message,
        cel=(
            "!has(oldSelf.status) || !has(oldSelf.status.provisioned) || "
            "!oldSelf.status.provisioned || "
            f"(has(self.spec.{field}) == has(oldSelf.spec.{field}) "
            f"&& (!has(self.spec.{field}) || self.spec.{field} == oldSelf.spec.{field}))"
        ),
        holds=lambda new, old: get(new) == get(old),
        is_once_provisioned=True,
    )


def have_no_duplicates(items: Iterable[str]) -> bool:
    """Return whether all items differ."""
    names = list(items)
    return len(names) == len(set(names))
