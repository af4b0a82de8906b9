"""The plan of a clause: variables resolved, options checked, and every expression split into who computes what.

A :class:`Plan` is plain data. The rewriter passes it to the table function as JSON. It holds

* ``inputs``: row expressions that Spark computes, as columns with their SQL text over the input table;
* ``letters``: for each variable the row-local part of its condition, packed by Spark into bits of one integer;
* ``conditions``: for each variable the conjuncts that read other rows, as small trees;
* ``leaves``: the values that the engine returns for MEASURES; ``outputs``: Spark SQL text over those leaves.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from typing import Annotated, Literal

from sparkcep.clause.tokens import quote
from sparkcep.clause.tree import ONE_ROW, PAST_LAST
from sparkcep.plan import json as plan_json
from sparkcep.plan import records
from sparkcep.plan.extend import event_time
from sparkcep.plan.limits import MAX_IDLE, MAX_TEXT, Range
from sparkcep.settings import COUNTED

LETTERS = "__letters"
PLAN_HEAD = '{"variables":'  # how a plan's JSON begins
_OMITTED = {"precision_loss": True}  # members that JSON lacks if they have these values: most plans do
_NAMED = re.compile(r"[\w.]{1,60}|`[^`]{1,60}`")


@dataclass(frozen=True)
class Plan:
    """See the module's docstring. :mod:`sparkcep.plan.records` documents the records."""

    variables: tuple[str, ...]
    pattern: records.PatternTree
    rows: Literal["one", "show", "omit", "unmatched"]
    skip: records.Skip = records.Skip(PAST_LAST, 0)
    partition: tuple[records.Key, ...] = ()
    order: tuple[records.Order, ...] = ()
    inputs: tuple[records.Computed, ...] = ()
    letters: tuple[records.Letter, ...] = ()
    conditions: tuple[records.Condition, ...] = ()
    leaves: tuple[records.Leaf, ...] = ()
    outputs: tuple[records.Computed, ...] = ()  # over leaves and aggregates
    places: tuple[records.ConditionPlace, ...] = ()  # for errors that need types
    leaf_places: tuple[records.LeafPlace, ...] = ()  # of sums, averages and MATCH_COUNT(), for errors that need types
    failing: tuple[records.Failing, ...] = ()  # expressions in conditions that may fail for some row
    ordered_inputs: tuple[records.Computed, ...] = ()  # with lag/lead over the clause's order
    arrays: tuple[records.Computed, ...] = ()  # over leaves: the arrays whose elements Spark aggregates
    aggregates: tuple[records.Computed, ...] = ()  # over one element of those arrays
    over_arrays: tuple[records.Computed, ...] = ()  # over leaves: functions of whole arrays, used if a match has several output rows
    ansi: bool = True
    zone: str = "UTC"  # the session's time zone
    months: tuple[str, ...] = ()  # input columns that hold the months of year-month intervals
    case_sensitive: bool = False
    precision_loss: bool = True  # whether decimal results of more than 38 digits lose digits after the point
    selection: records.Selection | None = None  # None: adjacent rows, by the exact engine
    windows: tuple[records.Window, ...] = ()  # WINDOW (kind "none" without one), then each group's WITHIN; () without a selection
    without: tuple[records.Without, ...] = ()  # negated groups of the pattern
    prefilter: tuple[str, ...] = ()  # SQL conditions; only rows that satisfy one reach the engine; empty: all rows do
    bounds: tuple[records.Bound, ...] = ()
    place: records.Place | None = None  # of PATTERN's row pattern, for errors about its size
    approximate: records.Approx | None = None
    slide: records.Slide | None = None
    ranking: records.Ranking | None = None
    equal_keys: tuple[records.EqualKey, ...] = ()  # further partition keys
    candidates: tuple[records.Candidate, ...] = ()  # empty if rows may not be dropped by them
    near: bool = False  # whether rows farther than WINDOW from all candidate rows may be dropped
    slice: records.PerhapsInput = ""  # the input column that cuts partitions into time slices (sql/prefilter/slices); empty: no slices
    automaton: records.Automaton | None = None  # with one, the pattern is empty and the variables are the names of arcs
    changes: records.Changes | None = None  # of an automaton, or of a pattern, which is translated to one
    arcs: records.Arcs | None = None  # arcs of an automaton that come from the rows of a table
    words: tuple[records.Word, ...] = ()  # words that were not read as columns; unused in the table function
    unfinished: records.Unfinished | None = None
    idle: Annotated[int, Range(0, MAX_IDLE)] = 0  # over a stream: microseconds without a row after which a partition ends; 0: never
    stepwise: bool = False  # whether leaves "rows" hold only the rows that are new since the match's previous output row (engine/output/gather)
    format: Annotated[int, Range(0, 1 << 31)] = plan_json.FORMAT
    made_by: str = plan_json.MADE_BY
    given: tuple[str, ...] = ()  # the output columns that are read above the engine, in their order; empty: all

    @property
    def keys(self) -> tuple[str, ...]:
        """The input columns that form the partition key."""
        return (*(key.column for key in (*self.partition, *self.equal_keys)), *([self.slice] if self.slice else []))

    def key_texts(self) -> tuple[str, ...]:
        """The keys of PARTITION BY as SQL texts over the table function's output."""
        return tuple(key.column if self.rows == ONE_ROW or not key.plain else quote(key.name) for key in self.partition)

    @property
    def adjacent(self) -> bool:
        """Whether the rows of a match are adjacent."""
        return self.selection is None or self.selection.strategy == "STRICT"

    @property
    def budgeted(self) -> bool:
        """Whether BUDGET limits the checks of approximate matches."""
        return self.approximate is not None and self.approximate.budget is not None

    @property
    def repeatable(self) -> bool:
        """Whether a second run returns the same rows. Under BUDGET INTERVAL it does not, unless its clock counts."""
        pace = self.approximate.budget.pace if self.approximate is not None and self.approximate.budget is not None else None
        return pace is None or pace.clock == COUNTED

    @property
    def counting(self) -> bool:
        """Whether MATCH_COUNT() is asked for: all matches that end at a row become one output row."""
        return self.approximate is None and self._counts

    @property
    def sizing(self) -> bool:
        """Whether MATCH_COUNT() of approximate matches is asked for: each reported match says how many matches it represents."""
        return self.approximate is not None and self._counts

    @property
    def _counts(self) -> bool:
        return any(leaf.spec.kind == "cnt" for leaf in self.leaves)

    @property
    def graphing(self) -> bool:
        """Whether MATCH_GRAPH() is asked for: all matches that end at a row become one output row with their graph."""
        return any(leaf.spec.kind == "graph" for leaf in self.leaves)

    @property
    def reports_all(self) -> bool:
        """Whether ALL MATCHES are reported."""
        return self.selection is not None and self.selection.report == "ALL"

    @property
    def punctuates(self) -> bool:
        """Whether punctuations are among the output rows (WITH PUNCTUATIONS)."""
        return any(leaf.spec.kind == "punctuation" for leaf in self.leaves)

    @property
    def compares_overall(self) -> bool:
        """Whether REPORT CHANGES compares the lists of all partitions together (TOP k OVERALL)."""
        ranking = self.ranking
        return ranking is not None and ranking.changes is not None and ranking.overall and bool(self.partition)

    @property
    def non_overlapping(self) -> bool:
        """Whether ALL MATCHES are in SASE+'s non-overlapping format.

        Of overlapping matches of a partition, only the first one to complete is reported.
        """
        return self.reports_all and self.skip.mode == PAST_LAST

    def moved(self, to: Callable[[int, int], tuple[int, int]]) -> Plan:
        """The plan with all places moved: ``to`` maps line and column."""
        return replace(self, **{f.name: _moved(getattr(self, f.name), to) for f in fields(self)})

    def ranked_by_engine(self) -> Plan:
        """The plan with ranks computed by the engine, without the leaves that Spark would rank by."""
        assert self.ranking is not None
        kept = tuple(leaf for leaf in self.leaves if leaf.spec.kind not in ("vector", "mno"))
        rank = records.Leaf(f"__l{len(self.leaves)}", records.Plain("rank"))
        return replace(self, leaves=(*kept, rank), ranking=self.ranking._replace(order=(), vector="", by_engine=True))

    def to_json(self) -> str:
        """Compact JSON without quotes, backticks and dollar signs, which are special in SQL text."""
        members = {f.name: getattr(self, f.name) for f in fields(self)}
        members = {name: plan_json.written(value) for name, value in members.items() if name not in _OMITTED or value != _OMITTED[name]}
        text = json.dumps(members, separators=(",", ":"))
        return text.replace("'", "\\u0027").replace("`", "\\u0060").replace("$", "\\u0024")

    @staticmethod
    def from_json(text: str) -> Plan:
        """Reads a plan. Raises ClauseError if ``text`` is not a plan, or has the format of another version."""
        try:
            found = json.loads(text) if len(text) <= MAX_TEXT else None
        except (ValueError, RecursionError):
            found = None
        if not isinstance(found, dict):
            raise plan_json.wrong("it cannot be read")
        found = _OMITTED | found
        plan_json.check_version(found, {f.name for f in fields(Plan)})
        try:
            members = plan_json.members(Plan, found)
            right = plan_json.is_right(members)
        except (TypeError, ValueError, KeyError, IndexError, RecursionError):  # not the shape of a plan
            right = False
        if not right:
            raise plan_json.wrong("its variables, masks or counts are impossible for a clause")
        return Plan(**members)

    @property
    def numbered(self) -> bool:
        """Whether a measure is MATCH_NUMBER(). A match is then emitted only after all earlier matches have their numbers."""
        return any(leaf.spec.kind == "mno" for leaf in self.leaves)

    def time_output(self) -> tuple[records.Computed, ...]:
        """The first measure that is FIRST or LAST of the first ORDER BY column. Over a stream it has the watermark."""
        return event_time.time_output(self.order[0].column, self.inputs, self.leaves, self.outputs, self.case_sensitive) if self.order else ()

    def without_sql(self) -> Plan:
        """The plan as the table function needs it: without the texts that Spark computes outside."""
        names, ranking, outputs = {leaf.name for leaf in self.leaves}, self.ranking, self.time_output()
        if ranking is not None and ranking.changes is not None:  # a stream that resumes compares its lists with those that it has reported
            outputs = (*self.outputs, *self.arrays, *self.over_arrays, *self.aggregates)
        elif ranking is not None:  # keep objectives that are leaves: the engine knows their types
            ranking = ranking._replace(objectives=tuple(t for t in ranking.objectives if t in names), score="", order=())
        return replace(
            self,
            inputs=tuple(column if _NAMED.fullmatch(column.text) else column._replace(text="") for column in self.inputs),  # plain names stay, for errors
            letters=tuple(letter._replace(text="") for letter in self.letters),
            ordered_inputs=tuple(column._replace(text="") for column in self.ordered_inputs),
            equal_keys=tuple(key._replace(tests=()) for key in self.equal_keys),
            outputs=outputs, words=(), prefilter=(), candidates=(), near=False, arrays=(), aggregates=(), over_arrays=(), ranking=ranking,
            arcs=self.arcs and self.arcs._replace(table="", arrival=()), changes=self.changes and self.changes._replace(came=()),
        )


def _moved(value: object, to: Callable[[int, int], tuple[int, int]]) -> object:
    """A part of a plan with the places in it moved. A record without a place has line 0."""
    if not isinstance(value, tuple):
        return value
    parts = [_moved(part, to) for part in value]
    names = getattr(value, "_fields", None)
    if names is None:
        return tuple(parts)
    record = type(value)(*parts)
    if not getattr(record, "line", 0):
        return record
    column = "column_at" if "column_at" in names else "column"
    return record._replace(**dict(zip(("line", column), to(record.line, getattr(record, column)))))
