"""Parses Spark's analysed plan from its text, because Spark Connect provides plans only as text.

Other modules of this package ask which nodes over a stream are above which. They also ask how far apart a join of streams lets the
times of its rows be.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from sparkcep.spark.connection import is_connect, set_within, where_available

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_LINE = re.compile(r"((?:   |:  )*)([:+]- )?[!']*(~?)(.*)")
_SHOWN, _ALL = "spark.sql.debug.maxToStringFields", "100000"  # the number of a node's columns that are shown
_CUT = re.compile(r"\.\.\. \d+ more field")
_STATEFUL = frozenset([
    "Aggregate", "Distinct", "Deduplicate", "DeduplicateWithinWatermark", "UpdateEventTimeWatermarkColumn", "FlatMapGroupsWithState", "FlatMapGroupsInPandasWithState",
    "TransformWithState", "TransformWithStateInPySpark", "TransformWithStateInPandas", "GlobalLimit", "LocalLimit", "Limit",
])  # fmt: skip
_JOINED = {"Inner": "INNER", "Cross": "CROSS", "LeftOuter": "LEFT OUTER", "RightOuter": "RIGHT OUTER", "FullOuter": "FULL OUTER", "LeftSemi": "LEFT SEMI", "LeftAnti": "LEFT ANTI"}
_MARKED = re.compile(r"#(\d+)-T\d+ms")  # a watermark column
_COLUMN = r"[^#(),]*#(\d+)-T\d+ms"
# The length of years and months varies, so Spark cannot bound a state by them.
_MOVED = re.compile(rf"(?:cast\()?{_COLUMN}(?: [+-] INTERVAL '[^']*' (?:DAY|HOUR|MINUTE|SECOND)(?: TO \w+)?)?(?: as timestamp(?:_ntz)?\))?")


@dataclass(frozen=True)
class Node:
    """A node of a plan: its ``name``, the ``text`` after it, and whether Spark marks its rows as ``streaming``."""

    name: str
    text: str
    streaming: bool
    children: tuple[Node, ...] = ()

    def below(self) -> Iterator[Node]:
        """Yields the node and all nodes below it."""
        yield self
        for child in self.children:
            yield from child.below()

    @property
    def streams(self) -> bool:
        """Whether any row comes from a stream. Views and sources lack the mark."""
        return self.streaming or self.name.startswith("Streaming") or any(child.streams for child in self.children)

    @property
    def joins(self) -> bool:
        """Whether it joins streams."""
        return self.name == "Join" and len(self.children) == 2 and all(child.streams for child in self.children)

    @property
    def keeps_state(self) -> bool:
        """Whether it is stateful in Spark."""
        return self.joins or (self.streaming and self.name in _STATEFUL)


def analysed(frame: DataFrame) -> Node:
    """Returns the analysed plan of a DataFrame. References to definitions of WITH are replaced by the definitions."""
    with _whole(frame.sparkSession):
        if is_connect(frame.sparkSession):
            text = frame._explain_string(extended=True).partition("== Analyzed Logical Plan ==\n")[2].partition("\n\n== ")[0]
            text = text.partition("\n")[2]  # after the list of columns
        else:
            text = frame._jdf.queryExecution().analyzed().toString()
    return read(text)


@contextmanager
def _whole(session: SparkSession) -> Iterator[None]:
    """Makes Spark print all columns of a node, if the session allows the setting."""
    with ExitStack() as changed:
        with where_available():
            changed.enter_context(set_within(session, _SHOWN, _ALL))
        yield


@dataclass
class _Reading:
    name: str
    text: str
    streaming: bool
    children: list[_Reading] = field(default_factory=list)

    def node(self, known: dict[str, _Reading]) -> Node:
        children = self.children
        if self.name == "WithCTE":
            defined = {child.text.partition(",")[0]: child for child in children if child.name == "CTERelationDef"}
            known, children = {**known, **defined}, [child for child in children if child.name != "CTERelationDef"]
        elif self.name == "CTERelationRef" and (definition := known.get(self.text.partition(",")[0])) is not None:
            children = definition.children
        return Node(self.name, self.text, self.streaming, tuple(child.node(known) for child in children))


def read(text: str) -> Node:
    """Parses a plan. Subqueries in expressions are left out, because Spark allows no stream in them."""
    path: list[_Reading] = []
    for line in text.strip("\n").split("\n"):
        found = _LINE.fullmatch(line)
        if path and (found is None or found[2] is None):  # a further line of a multi-line value
            path[-1].text += f"\n{line}"
            continue
        assert found is not None
        name, _, rest = found[4].partition(" ")
        node = _Reading(name.rstrip(","), rest, bool(found[3]))
        depth = len(found[1]) // 3 + (found[2] is not None)
        del path[depth:]
        if len(path) < depth:  # the plan of a subquery in the node's own expressions, which Spark indents one step more
            path.append(_Reading("", "", False))
        elif path:
            path[-1].children.append(node)
        path.append(node)
    return path[0].node({})


# -- joins of streams ---------------------------------------------------------------------------------------------------


def unbounded(plan: Node) -> list[str]:
    """Names the kinds of the stream joins below which a clause would wait indefinitely, or receive late rows."""
    return [_JOINED.get(kind := node.text.split(",")[0].split()[0], kind) for node in plan.below() if node.joins and not _bounded(node)]


def _bounded(join: Node) -> bool:
    """Whether a join limits how long a row of either side waits for the other, by their watermark columns.

    Two forms count: ``l.ts = r.ts``, or a lower and an upper bound of one column by the other, shifted by an interval.
    """
    kind, _, rest = join.text.partition(", ")
    sides = [_own(side) for side in join.children]
    if kind == "FullOuter" or not rest or any(side is None for side in sides) or _CUT.search(join.text):
        return False
    bounds: set[str] = set()
    for part in _parts(rest):
        if _MARKED.search(part) is None:
            continue
        found = _bounds(part, *sides)
        if not found:
            return False
        bounds |= found
    return {"above", "below"} <= bounds


def _own(side: Node) -> frozenset[str] | None:
    """Returns the ids of a join side's watermark column under all its names.

    Returns None unless there is exactly one such column.
    """
    texts = [node.text for node in side.below()]
    watermarks = [node for node in side.below() if node.name == "EventTimeWatermark"]
    if len(watermarks) != 1 or any(map(_CUT.search, texts)):
        return None
    first = re.search(r"#(\d+): ", watermarks[0].text)
    if first is None:
        return None
    own, more = {first[1]}, True
    while more:
        more = {new for text in texts for old, new in re.findall(r"#(\d+)-T\d+ms AS [^,\[\]]*?#(\d+)-T\d+ms", text) if old in own} - own
        own |= more
    return frozenset(own) if all(number in own for text in texts for number in _MARKED.findall(text)) else None


def _parts(condition: str) -> Iterator[str]:
    """Yields the conjuncts of a condition, without the parentheses around each."""
    text = condition.strip()
    while text.startswith("(") and _closing(text, 0) == len(text) - 1:
        text = text[1:-1]
    depth, begin, quoted = 0, 0, False
    for i, c in enumerate(text):
        quoted ^= c == "'"
        depth += 0 if quoted else (c in "([") - (c in ")]")
        if depth == 0 and not quoted and text.startswith(" AND ", i):
            yield from _parts(text[begin:i])
            yield from _parts(text[i + 5 :])
            return
    yield text


def _closing(text: str, begin: int) -> int:
    """Returns the offset of the parenthesis that closes the one at ``begin``, or -1."""
    depth = 0
    for i in range(begin, len(text)):
        depth += (text[i] == "(") - (text[i] == ")")
        if depth == 0:
            return i
    return -1


def _bounds(part: str, left: frozenset[str], right: frozenset[str]) -> set[str]:
    """Returns the sides, "above" or "below", on which a condition bounds the left watermark column by the right one.

    Returns the empty set for a condition of an unknown form.
    """
    if part.startswith("between(") and part.endswith(")"):
        terms = part[len("between(") : -1].split(", ")
        pairs = [(terms[0], ">=", terms[1]), (terms[0], "<=", terms[2])] if len(terms) == 3 else []
    else:
        found = re.fullmatch(r"(.*?) (=|<=|>=|<|>) (.*)", part)
        pairs = [(found[1], found[2], found[3])] if found else []
    bounds: set[str] = set()
    for one, sign, other in pairs:
        a, b = _MOVED.fullmatch(one), _MOVED.fullmatch(other)
        if a is None or b is None or {a[1] in left, b[1] in left} != {True, False} or {a[1] in right, b[1] in right} != {True, False}:
            return set()
        if sign == "=":
            bounds |= {"above", "below"} if all(re.fullmatch(_COLUMN, term) for term in (one, other)) else set()
        else:
            bounds.add("above" if sign.startswith("<") == (a[1] in left) else "below")
    return bounds
