"""Decoded Avro records whose fields are read by name and type.

A missing field is null, so that a record of any Hudi release is read; a field of another type than
expected is a FormatError that names it.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NoReturn

from hoodie import errors


@dataclass(frozen=True, slots=True)
class Record:
    """A decoded record.

    Attributes:
        fields: Values as decoded.
        source: What they are from, for messages.
    """

    fields: Mapping[str, object]
    source: str

    def text(self, name: str) -> str | None:
        """Return a text or null."""
        value = self.fields.get(name)
        return value if value is None or isinstance(value, str) else self._refuse(name, "text")

    def required_text(self, name: str) -> str:
        """Return a text that may not be null."""
        value = self.fields.get(name)
        return value if isinstance(value, str) else self._refuse(name, "text")

    def number(self, name: str) -> int | None:
        """Return a whole number or null."""
        value = self.fields.get(name)
        if isinstance(value, bool):
            self._refuse(name, "number")
        return value if value is None or isinstance(value, int) else self._refuse(name, "number")

    def count(self, name: str) -> int:
        """Return a whole number, 0 for null."""
        return self.number(name) or 0

    def flag(self, name: str) -> bool:
        """Return a boolean, false for null."""
        value = self.fields.get(name)
        if value is None:
            return False
        return value if isinstance(value, bool) else self._refuse(name, "boolean")

    def texts(self, name: str) -> tuple[str, ...]:
        """Return an array of texts, empty for null."""
        return tuple(
            value if isinstance(value, str) else self._refuse(name, "array of texts")
            for value in self._sequence(name)
        )

    def records(self, name: str) -> tuple["Record", ...]:
        """Return an array of records, empty for null."""
        return tuple(self._record(name, value) for value in self._sequence(name))

    def text_map(self, name: str) -> dict[str, str]:
        """Return a map of texts, empty for null."""
        return {
            key: value if isinstance(value, str) else self._refuse(name, "map of texts")
            for key, value in self.map(name).items()
        }

    def counts(self, name: str) -> dict[str, int]:
        """Return a map of numbers of 0 or more, empty for null."""
        return {
            key: Record({key: value}, self.source).count(key)
            for key, value in self.map(name).items()
        }

    def float_map(self, name: str) -> dict[str, float]:
        """Return a map of numbers, empty for null."""
        return {
            key: float(value)
            if isinstance(value, float | int)
            else self._refuse(name, "map of doubles")
            for key, value in self.map(name).items()
        }

    def texts_map(self, name: str) -> dict[str, tuple[str, ...]]:
        """Return a map of arrays of texts, empty for null."""
        return {
            key: Record({name: values}, self.source).texts(name)
            for key, values in self.map(name).items()
        }

    def record(self, name: str) -> "Record | None":
        """Return a record or null, of a union that was decoded with the names of its records."""
        value = self.fields.get(name)
        if value is None:
            return None
        named = value[1] if isinstance(value, tuple) and len(value) == 2 else value  # noqa: PLR2004
        return self._record(name, named)

    def records_by_key(self, name: str) -> Iterator[tuple[str, tuple["Record", ...]]]:
        """Yield the items of a map of arrays of records, nothing for null.

        One by one: all records of a large map at once keep the garbage collector busy.
        """
        for key, values in self.map(name).items():
            yield key, Record({name: values}, self.source).records(name)

    def counts_map(self, name: str) -> dict[str, int]:
        """Return how many values each array in a map of arrays has, empty for null."""
        return {
            key: len(Record({name: values}, self.source)._sequence(name))
            for key, values in self.map(name).items()
        }

    def map(self, name: str) -> Mapping[str, object]:
        """Return a map of anything, empty for null."""
        value = self.fields.get(name)
        if value is None:
            return {}
        return value if isinstance(value, Mapping) else self._refuse(name, "map")

    def _sequence(self, name: str) -> Sequence[object]:
        value = self.fields.get(name)
        if value is None:
            return ()
        return value if isinstance(value, list) else self._refuse(name, "array")

    def _record(self, name: str, value: object) -> "Record":
        fields = value if isinstance(value, dict) else self._refuse(name, "array of records")
        return Record(fields, self.source)

    def _refuse(self, name: str, expected: str) -> NoReturn:
        value = str(self.fields.get(name))[:80]
        raise errors.FormatError(f"{self.source}: {name} is {value!r}, expected {expected}")
