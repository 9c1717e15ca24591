"""The text form of row filters, as `hoodie read --where` takes it.

Grammar (words in any case; names may be quoted with double quotes, `""` stands for one):

    filter     = term { "or" term }
    term       = factor { "and" factor }
    factor     = "not" factor | "(" filter ")" | condition
    condition  = value ( "=" | "==" | "!=" | "<>" | "<" | "<=" | ">" | ">=" ) literal
               | value [ "not" ] "in" "(" literal { "," literal } ")"
               | value [ "not" ] "between" literal "and" literal
               | value [ "not" ] "like" 'text%'
               | value "is" [ "not" ] "null"
               | name
    value      = name | function "(" name { "," literal } ")"
    literal    = number | [ "date" | "timestamp" ] 'text' | true | false

A text literal takes single quotes (`''` for one); dates and timestamps are texts: '2013-01-31'. A
name alone is a column of truth values. `like` finds how a text begins: a `%` at its end is the only
pattern. Functions are lower, upper, trim, ltrim, rtrim, length and substring(name, from, length) of
texts, year, month, day, date_add(name, days) and date_sub(name, days) of dates.

`hoodie update` takes what columns are set to in the same words:

    assignments = name "=" ( literal | null ) { "," name "=" ( literal | null ) }
"""

import decimal
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NoReturn

from hoodie import errors
from hoodie.model import predicates, spark_functions

NESTING_MAX = 100
LENGTH_MAX = 100_000

_TOKEN = re.compile(
    r"""\s*(?:
        (?P<number>[+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?)
      | (?P<text>'(?:[^']|'')*')
      | (?P<quoted>"(?:[^"]|"")+")
      | (?P<word>[^\W\d][\w.]*)
      | (?P<sign><=|>=|!=|<>|==|[=<>(),])
      | (?P<end>$)
    )""",
    re.VERBOSE,
)
_COMPARATORS = {
    "=": predicates.Comparator.EQ,
    "==": predicates.Comparator.EQ,
    "!=": predicates.Comparator.NE,
    "<>": predicates.Comparator.NE,
    "<": predicates.Comparator.LT,
    "<=": predicates.Comparator.LE,
    ">": predicates.Comparator.GT,
    ">=": predicates.Comparator.GE,
}
_HOLDERS = {"filter": "a filter", "assignment": "an assignment"}
_ANY_TEXT, _ANY_CHARACTER = "%_"
_SURROGATES = range(0xD800, 0xE000)
_RESERVED = frozenset(("and", "or", "not", "in", "is", "null", "true", "false"))


def parse(text: str) -> predicates.Predicate:
    """Return the filter that a text means.

    Raises:
        InvalidInputError: The text is no filter; the message shows where.
    """
    if len(text) > LENGTH_MAX:
        raise errors.InvalidInputError(f"the filter is longer than {LENGTH_MAX} characters")
    parser = _Parser(text)
    predicate = parser.filter(0)
    parser.expect_end()
    return predicate


def parse_assignments(text: str) -> dict[str, predicates.Literal | None]:
    """Return what columns are set to.

    Raises:
        InvalidInputError: The text is no list of assignments, or sets a column twice.
    """
    if len(text) > LENGTH_MAX:
        raise errors.InvalidInputError(f"the assignments are longer than {LENGTH_MAX} characters")
    parser = _Parser(text, "assignment")
    found = dict([parser.assignment()])
    while parser.has_more():
        name, value = parser.assignment()
        if name in found:
            raise errors.InvalidInputError(f"assignment {text!r} sets column {name!r} twice")
        found[name] = value
    parser.expect_end("a comma or the end: a value is a number, a 'text', true, false or null")
    return found


@dataclass(frozen=True, slots=True)
class _Token:
    kind: str
    value: str
    position: int

    @property
    def keyword(self) -> str:
        """The token in the form the grammar spells it."""
        return self.value.lower() if self.kind in ("word", "sign") else ""


class _Parser:
    """Recursive descent over the tokens, one token ahead."""

    def __init__(self, text: str, what: str = "filter") -> None:
        self._text = text
        self._what = what
        self._tokens = self._scan()
        self._next = next(self._tokens)

    def filter(self, depth: int) -> predicates.Predicate:
        """Read terms joined by `or`."""
        if depth > NESTING_MAX:
            raise errors.InvalidInputError(f"the filter nests deeper than {NESTING_MAX}")
        operands = [self._term(depth)]
        while self._accept("or"):
            operands.append(self._term(depth))
        return operands[0] if len(operands) == 1 else predicates.Or(tuple(operands))

    def expect_end(self, expected: str = "and, or, or the end") -> None:
        """Refuse anything left over."""
        if self._next.kind != "end":
            self._refuse(expected)

    def has_more(self) -> bool:
        """Read a comma, if there is one."""
        return self._accept(",")

    def assignment(self) -> tuple[str, predicates.Literal | None]:
        """Read a column, and what it is set to."""
        column = self._name()
        self._expect("=")
        return column, None if self._accept("null") else self._literal()

    def _term(self, depth: int) -> predicates.Predicate:
        operands = [self._factor(depth)]
        while self._accept("and"):
            operands.append(self._factor(depth))
        return operands[0] if len(operands) == 1 else predicates.And(tuple(operands))

    def _factor(self, depth: int) -> predicates.Predicate:
        if depth > NESTING_MAX:
            raise errors.InvalidInputError(f"the filter nests deeper than {NESTING_MAX}")
        if self._accept("not"):
            return predicates.Not(self._factor(depth + 1))
        if self._accept("("):
            inner = self.filter(depth + 1)
            self._expect(")")
            return inner
        return self._condition()

    def _condition(self) -> predicates.Predicate:
        is_name = self._next.kind == "word"
        column = self._name()
        if is_name and self._accept("("):
            return self._call(column)
        return self._condition_on(column)

    def _call(self, name: str) -> predicates.Predicate:
        """Read a condition on what a function makes of a column."""
        column = self._name()
        given: list[str] = []
        while self._accept(","):
            literal = self._literal()
            is_text = isinstance(literal, str)
            given.append(spark_functions.quoted(str(literal)) if is_text else str(literal))
        self._expect(")")
        try:
            function = spark_functions.of_arguments(name, given)
        except (errors.InvalidInputError, errors.UnsupportedError) as error:
            raise errors.InvalidInputError(f"filter {self._text!r}: {error}") from error
        call = function.called(column)
        return predicates.Applied(function, column, self._condition_on(call))

    def _condition_on(self, column: str) -> predicates.Predicate:
        if self._accept("is"):
            is_negated = self._accept("not")
            self._expect("null")
            return _negated(predicates.IsNull(column), is_negated)
        if self._next.keyword in ("not", "in", "between", "like"):
            is_negated = self._accept("not")
            return _negated(self._membership(column), is_negated)
        comparator = _COMPARATORS.get(self._next.keyword)
        if comparator is not None:
            self._advance()
            return predicates.Compare(column, comparator, self._literal())
        if self._next.kind == "end" or self._next.keyword in ("and", "or", ")"):
            return predicates.Compare(column, predicates.Comparator.EQ, True)
        return self._refuse("a comparison, in, between, like, or is null")

    def _membership(self, column: str) -> predicates.Predicate:
        if self._accept("in"):
            return predicates.In(column, self._literals())
        if self._accept("between"):
            least = self._literal()
            self._expect("and")
            return _range(column, least, self._literal())
        if self._accept("like"):
            return self._like(column)
        return self._refuse("in, between or like")

    def _like(self, column: str) -> predicates.Predicate:
        if self._next.kind != "text":
            self._refuse("a 'text%'")
        prefix = str(self._literal())
        has_more = prefix.endswith(_ANY_TEXT)
        prefix = prefix.removesuffix(_ANY_TEXT)
        if _ANY_TEXT in prefix or _ANY_CHARACTER in prefix:
            raise errors.InvalidInputError(
                f"filter {self._text!r}: like {prefix + _ANY_TEXT * has_more!r}, expected a text "
                "with a % at its end and no other % or _"
            )
        if not has_more:
            return predicates.Compare(column, predicates.Comparator.EQ, prefix)
        return _beginning_with(column, prefix)

    def _literals(self) -> tuple[predicates.Literal, ...]:
        self._expect("(")
        values = [self._literal()]
        while self._accept(","):
            values.append(self._literal())
        self._expect(")")
        return tuple(values)

    def _name(self) -> str:
        token = self._next
        if token.kind == "quoted":
            self._advance()
            return token.value[1:-1].replace('""', '"')
        if token.kind != "word" or token.keyword in _RESERVED:
            self._refuse("a column's name")
        self._advance()
        return token.value

    def _literal(self) -> predicates.Literal:
        token = self._next
        if token.kind == "number":
            self._advance()
            is_whole = token.value.lstrip("+-").isdecimal()
            # Exactly what is written: a decimal column may have more digits than a float.
            return int(token.value) if is_whole else decimal.Decimal(token.value)
        if token.keyword in ("date", "timestamp"):
            self._advance()
            token = self._next
            if token.kind != "text":
                self._refuse("a 'text', such as '2013-01-31'")
        if token.kind == "text":
            self._advance()
            return token.value[1:-1].replace("''", "'")
        if token.keyword in ("true", "false"):
            self._advance()
            return token.keyword == "true"
        quotes = " in single quotes" if token.kind == "quoted" else ""
        nulls = "; `is null` finds nulls" if token.keyword == "null" else ""
        return self._refuse(f"a number, a 'text'{quotes}, true or false{nulls}")

    def _accept(self, keyword: str) -> bool:
        if self._next.keyword != keyword:
            return False
        self._advance()
        return True

    def _expect(self, keyword: str) -> None:
        if not self._accept(keyword):
            self._refuse(keyword)

    def _advance(self) -> None:
        self._next = next(self._tokens)

    def _refuse(self, expected: str) -> NoReturn:
        found = repr(self._next.value) if self._next.kind != "end" else "the end"
        raise errors.InvalidInputError(
            f"{self._what} {self._text!r}, character {self._next.position + 1}: found {found}, "
            f"expected {expected}"
        )

    def _scan(self) -> Iterator[_Token]:
        position = 0
        while True:
            match = _TOKEN.match(self._text, position)
            if match is None or match.lastgroup is None:
                at = position + len(self._text[position:]) - len(self._text[position:].lstrip())
                raise errors.InvalidInputError(
                    f"{self._what} {self._text!r}, character {at + 1}: {self._text[at]!r} begins "
                    f"nothing that {_HOLDERS[self._what]} holds"
                )
            position = match.end()
            yield _Token(match.lastgroup, match[match.lastgroup], match.start(match.lastgroup))


def _range(
    column: str, least: predicates.Literal, greatest: predicates.Literal
) -> predicates.Predicate:
    return predicates.And(
        (
            predicates.Compare(column, predicates.Comparator.GE, least),
            predicates.Compare(column, predicates.Comparator.LE, greatest),
        )
    )


def _beginning_with(column: str, prefix: str) -> predicates.Predicate:
    """Return the range of the texts that begin with one, in the order of their code points."""
    least = predicates.Compare(column, predicates.Comparator.GE, prefix)
    kept = prefix.rstrip(chr(sys.maxunicode))
    if not kept:
        return least
    following = ord(kept[-1]) + 1
    if following == _SURROGATES.start:
        following = _SURROGATES.stop  # Which no text holds.
    end = kept[:-1] + chr(following)
    return predicates.And((least, predicates.Compare(column, predicates.Comparator.LT, end)))


def _negated(predicate: predicates.Predicate, is_negated: bool) -> predicates.Predicate:
    return predicates.Not(predicate) if is_negated else predicate
