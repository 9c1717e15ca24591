"""Frozen dataclasses to JSON and back, strictly.

For values that cross a process boundary as a file. A class's fields are its JSON object's keys; an
enum is its value; a union of dataclasses carries the class's name under `kind`. Decoding refuses
unknown keys, missing keys without a default, and ill-typed values, and names the path of each.

Supported field types: str, int, float, bool, Enum, dataclass, unions of dataclasses, any of these
with None, `tuple[X, ...]` and `Mapping[str, X]`.
"""

import dataclasses
import enum
import functools
import json
import types
import typing
from collections.abc import Collection, Mapping
from typing import TypeAlias, TypeVar

from hoodie import errors

Json: TypeAlias = "bool | int | float | str | list[Json] | dict[str, Json] | None"
Value = TypeVar("Value")

KIND_KEY = "kind"
_SHOWN_LENGTH_MAX = 80
_ENCODER = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))

_SCALARS = {str: "a text", int: "a whole number", float: "a number", bool: "true or false"}


def encode(value: object, *, without: Collection[str] = ()) -> bytes:
    """Return the JSON text of a dataclass instance as UTF-8, without needless spaces.

    Args:
        value: The instance.
        without: Fields of it to leave out, which have their defaults.
    """
    data = _to_json(value)
    if isinstance(data, dict):
        data = {key: each for key, each in data.items() if key not in without}
    text = _ENCODER.encode(data)
    # A file name that is no UTF-8 holds lone surrogates; their escape is what JSON writes too.
    return text.encode(errors="backslashreplace")


def decode(cls: type[Value], content: bytes, source: str) -> Value:
    """Return the instance of a dataclass that a JSON text stands for.

    Args:
        cls: The dataclass.
        content: The JSON text.
        source: What the text is, for messages: a file's path.

    Raises:
        InvalidInputError: The text is no JSON, or does not fit the class.
    """
    try:
        data = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise errors.InvalidInputError(f"{source}: is not JSON: {error}") from error
    return typing.cast("Value", _to_value(cls, data, source))


def _to_json(value: object) -> Json:
    match value:
        case None | bool() | int() | float() | str():
            return value
        case enum.Enum():
            return _to_json(value.value)
        case tuple() | list():
            return [_to_json(item) for item in value]
    if not dataclasses.is_dataclass(value):
        assert isinstance(value, Mapping), f"{type(value).__name__} cannot be converted to JSON"
        return {str(key): _to_json(item) for key, item in value.items()}
    cls: type = type(value)
    return {
        name: (_to_tagged if field.is_tagged else _to_json)(getattr(value, name))
        for name, field in _fields(cls).items()
    }


@dataclasses.dataclass(frozen=True, slots=True)
class _Field:
    """What JSON has to know of a field.

    Attributes:
        hint: Its type.
        is_required: Whether it has no default.
        is_tagged: Whether its value tells which of several dataclasses it is of.
    """

    hint: object
    is_required: bool
    is_tagged: bool


@functools.cache
def _fields(cls: type) -> Mapping[str, _Field]:
    hints = typing.get_type_hints(cls)
    return {
        field.name: _Field(
            hint=hints[field.name],
            is_required=field.default is field.default_factory is dataclasses.MISSING,
            is_tagged=len(_classes(hints[field.name])) > 1,
        )
        for field in dataclasses.fields(cls)
    }


def _to_tagged(value: object) -> Json:
    encoded = _to_json(value)
    if isinstance(encoded, dict):
        return {KIND_KEY: type(value).__name__, **encoded}
    return encoded


def _to_value(hint: object, data: Json, path: str) -> object:
    if hint in _SCALARS:
        return _to_scalar(hint, data, path)
    origin = typing.get_origin(hint)
    if origin in (typing.Union, types.UnionType):
        return _to_union(hint, data, path)
    if origin is not None:
        return _to_collection(hint, data, path)
    if isinstance(hint, typing.NewType):
        return _to_value(hint.__supertype__, data, path)
    assert isinstance(hint, type), f"{hint} cannot be converted to JSON"
    if issubclass(hint, enum.Enum):
        return _to_member(hint, data, path)
    return _to_instance(hint, data, path)


def _to_collection(hint: object, data: Json, path: str) -> object:
    item = typing.get_args(hint)
    if typing.get_origin(hint) is tuple:
        assert item[1] is ..., f"{hint} cannot be converted to JSON"
        if not isinstance(data, list):
            raise _unfit(path, data, "a list")
        return tuple(_to_value(item[0], entry, f"{path}[{n}]") for n, entry in enumerate(data))
    assert typing.get_origin(hint) is Mapping, f"{hint} cannot be converted to JSON"
    if not isinstance(data, dict):
        raise _unfit(path, data, "an object")
    return {key: _to_value(item[1], entry, f"{path}.{key}") for key, entry in data.items()}


def _to_union(hint: object, data: Json, path: str) -> object:
    options = typing.get_args(hint)
    if data is None and types.NoneType in options:
        return None
    classes = _classes(hint)
    if len(classes) > 1:
        if not isinstance(data, dict):
            raise _unfit(path, data, "an object")
        kinds = {cls.__name__: cls for cls in classes}
        kind = data.get(KIND_KEY)
        if not isinstance(kind, str) or kind not in kinds:
            raise _unfit(f"{path}.{KIND_KEY}", kind, "one of " + ", ".join(kinds))
        rest = {key: entry for key, entry in data.items() if key != KIND_KEY}
        return _to_instance(kinds[kind], rest, path)
    (option,) = (option for option in options if option is not types.NoneType)
    return _to_value(option, data, path)


def _to_scalar(hint: type, data: Json, path: str) -> object:
    if hint is float and isinstance(data, int) and not isinstance(data, bool):
        return float(data)
    # bool is a subclass of int, and neither may pass for the other.
    if type(data) is not hint:
        raise _unfit(path, data, _SCALARS[hint])
    return data


def _to_member(hint: type[enum.Enum], data: Json, path: str) -> enum.Enum:
    for member in hint:
        if type(member.value) is type(data) and member.value == data:
            return member
    raise _unfit(path, data, "one of " + ", ".join(str(member.value) for member in hint))


def _to_instance(cls: type, data: Json, path: str) -> object:
    assert dataclasses.is_dataclass(cls), f"{cls.__name__} cannot be converted to JSON"
    if not isinstance(data, dict):
        raise _unfit(path, data, "an object")
    fields = _fields(cls)
    if unknown := sorted(data.keys() - fields.keys()):
        raise errors.InvalidInputError(f"{path}.{unknown[0]}: unknown field")
    arguments: dict[str, object] = {}
    for name, field in fields.items():
        if name in data:
            arguments[name] = _to_value(field.hint, data[name], f"{path}.{name}")
        elif field.is_required:
            raise errors.InvalidInputError(f"{path}.{name}: is missing")
    return cls(**arguments)


def _classes(hint: object) -> tuple[type, ...]:
    if typing.get_origin(hint) not in (typing.Union, types.UnionType):
        return ()
    return tuple(
        option
        for option in typing.get_args(hint)
        if isinstance(option, type) and dataclasses.is_dataclass(option)
    )


def _unfit(path: str, data: object, expected: str) -> errors.InvalidInputError:
    shown = json.dumps(data, ensure_ascii=False)
    if len(shown) > _SHOWN_LENGTH_MAX:
        shown = shown[: _SHOWN_LENGTH_MAX - 3] + "..."
    return errors.InvalidInputError(f"{path}: is {shown}, expected {expected}")
