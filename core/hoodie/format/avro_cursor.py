"""Avro's binary form to columns, all rows at once.

A cursor stands at one place in each row, and every read moves it on in all rows: the records are
read field by field, not row by row. What is read may be broken: a row that ends early or holds no
valid value is a FormatError, and nothing is allocated because of a length that a row only claims.

Source: Avro 1.11 specification, "Binary Encoding"; drawn in `hoodie.format.avro_parts`.
"""

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from hoodie import errors

Flags = npt.NDArray[np.bool_]
Bytes = npt.NDArray[np.uint8]
Places = npt.NDArray[np.int64]

CONTENT_BYTES_MAX = 2**31 - 1
"""Offsets of Arrow's binary arrays, and lengths in Java, have 31 bits."""

_VARINT_BYTES_MAX = 10
_VARINT_MORE = np.uint8(0x80)
_VARINT_BITS = np.uint8(0x7F)


class Cursor:
    """A place in each of several rows of one buffer.

    Attributes:
        data: All bytes.
        at: The place in each row.
        ends: Where each row ends; the rows do not overlap and come in order.
    """

    __slots__ = ("at", "data", "ends")

    def __init__(self, data: Bytes, starts: Places, ends: Places) -> None:
        assert len(data) <= CONTENT_BYTES_MAX, len(data)
        self.data = data
        self.at = starts.copy()
        self.ends = ends

    def bytes_here(self, present: Flags | None = None) -> Bytes:
        """Return the next byte of each row, and move behind it; anything where absent."""
        found = self._take(self.at)
        self.at += 1 if present is None else present
        return found

    def booleans(self, present: Flags | None) -> Flags:
        """Return the next booleans; false where absent."""
        found = self._take(self.at)
        if present is None:
            self.at += 1
        else:
            found[~present] = 0
            self.at += present
        if found.max(initial=0) > 1:
            raise errors.FormatError(f"byte {found.max()} for a boolean")
        return found.astype(np.bool_)

    def varints(self, present: Flags | None) -> npt.NDArray[np.int64]:
        """Return the next whole numbers; 0 where absent."""
        rows = None if present is None else np.flatnonzero(present)
        at = self.at if rows is None else self.at[rows]
        bits = self._take(at)
        zigzag = (bits & _VARINT_BITS).astype(np.uint64)
        more = np.flatnonzero(bits & _VARINT_MORE)
        counts = np.ones(len(at), np.int64)
        for position in range(1, _VARINT_BYTES_MAX):
            if not len(more):
                break
            bits = self._take(at[more] + position)
            shift = np.uint64(7 * position)
            zigzag[more] |= (bits & _VARINT_BITS).astype(np.uint64) << shift
            counts[more] += 1
            more = more[(bits & _VARINT_MORE) != 0]
        if len(more):
            raise errors.FormatError(f"a number of more than {_VARINT_BYTES_MAX} bytes")
        found = (zigzag >> np.uint64(1)).view(np.int64) ^ -(zigzag & np.uint64(1)).view(np.int64)
        if rows is None:
            self.at += counts
            return found
        self.at[rows] += counts
        values = np.zeros(len(self.at), np.int64)
        values[rows] = found
        return values

    def fixed(self, width: int, present: Flags | None) -> Bytes:
        """Return the next bytes of each row, one row a value; anything where absent."""
        cells = self._take(self.at[:, None] + np.arange(width))
        self.at += width if present is None else present * width
        return cells

    def spans(self, present: Flags | None) -> tuple[Places, Places]:
        """Return start and end of the next texts or bytes, and move behind them.

        They are in order, over all rows; where absent they are empty.
        """
        lengths = self.varints(present)
        is_bad = (lengths < 0) | (lengths > self.ends - self.at)
        if present is not None:
            is_bad &= present
        if is_bad.any():
            row = int(is_bad.argmax())
            raise errors.FormatError(
                f"a text of {lengths[row]} bytes, {self.ends[row] - self.at[row]} are left"
            )
        starts = self.at.copy()
        self.at += lengths
        if present is None:
            return starts, self.at.copy()
        return np.where(present, starts, self.ends), np.where(present, self.at, self.ends)

    def check_inside(self) -> None:
        """Check that no read went beyond its row.

        Raises:
            FormatError: Some row was too short.
        """
        if (self.at > self.ends).any():
            raise errors.FormatError("a record ends within a field")

    def check_at_end(self) -> None:
        """Check that each row was read to its end.

        Raises:
            FormatError: Some row was too short or too long.
        """
        self.check_inside()
        if (self.at != self.ends).any():
            raise errors.FormatError("a record has bytes after its last field")

    def _take(self, places: Places) -> Bytes:
        # Beyond the end any byte will do: the checks find every row that was left.
        if not len(self.data):
            return np.zeros(places.shape, np.uint8)
        return self.data.take(places, mode="clip")


def binaries(data: pa.Buffer, starts: Places, ends: Places, present: Flags | None) -> pa.Array:
    """Return the bytes between places as an Arrow binary array, null where absent.

    Args:
        data: The buffer that the places are in.
        starts: In order, each at or behind the end before it.
        ends: Each at or behind its start.
        present: Rows that are not null; None for all.
    """
    # Every second element of an array over all bytes is a value, the ones between are gaps.
    offsets = np.empty(2 * len(starts) + 1, np.int32)
    offsets[0:-1:2] = starts
    offsets[1::2] = ends
    offsets[-1] = ends[-1] if len(ends) else 0
    assert (np.diff(offsets) >= 0).all()
    everything = pa.Array.from_buffers(
        pa.binary(), 2 * len(starts), [None, pa.py_buffer(offsets), data]
    )
    places = np.arange(0, 2 * len(starts), 2)
    return everything.take(pa.array(places, mask=None if present is None else ~present))


def texts(data: pa.Buffer, starts: Places, ends: Places, present: Flags | None) -> pa.Array:
    """Return the texts between places; as `binaries`.

    Raises:
        FormatError: A text is no UTF-8.
    """
    try:
        return binaries(data, starts, ends, present).cast(pa.string())
    except pa.ArrowInvalid as error:
        raise errors.FormatError(f"a text is not UTF-8: {error}") from error
