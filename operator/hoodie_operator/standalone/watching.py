"""`get --watch`: what has changed since it was printed last, a line each."""

from collections.abc import Sequence

from hoodie_operator.api import kinds, objects
from hoodie_operator.standalone import printing

_GAP = "   "
_GONE = "gone"


class Watch:
    """The lines of one watch: columns grow as wide as what was printed so far."""

    def __init__(self, kind: kinds.Kind | None, *, is_wide: bool) -> None:
        """Have printed nothing yet.

        Args:
            kind: Of the objects; None for those of all kinds, whose names then tell theirs.
            is_wide: Whether all columns are printed.
        """
        self._kind = kind
        self._columns = printing.columns_of(kind, is_wide=is_wide)
        self._printed: dict[str, tuple[str, list[str]]] = {}
        self._widths: list[int] = []

    def lines(self, found: Sequence[objects.AnyObject], now_ms: int) -> list[str]:
        """Return a line for each object that is new or prints otherwise than before, or is gone.

        Ages grow all the time, and are no change.
        """
        rows = []
        for each in found:
            cells = printing.cells_of(each, self._columns, now_ms)
            steady = [
                cell
                for cell, column in zip(cells, self._columns, strict=True)
                if column.type != "date"
            ]
            if self._printed.get(each.uid, ("", []))[1] != steady:
                name = self._name(each.key)
                self._printed[each.uid] = name, steady
                rows.append([name, *cells])
        rows.extend(
            [self._printed.pop(uid)[0], _GONE, *[""] * (len(self._columns) - 1)]
            for uid in self._printed.keys() - {each.uid for each in found}
        )
        if not self._widths:
            headings = ["NAME", *(column.name.upper() for column in self._columns)]
            rows.insert(0, headings)
            self._widths = [0] * len(headings)
        self._widths = [
            max([width, *(len(row[n]) for row in rows)]) for n, width in enumerate(self._widths)
        ]
        return [
            _GAP.join(
                cell.ljust(width) for cell, width in zip(row, self._widths, strict=True)
            ).rstrip()
            for row in rows
        ]

    def _name(self, key: objects.ObjectKey) -> str:
        name = key.name
        if key.namespace != objects.DEFAULT_NAMESPACE:
            name = f"{key.namespace}/{name}"
        return name if self._kind else f"{kinds.BY_NAME[key.kind].short_word}/{name}"
