"""Cost estimation: decides whether to read a clause's table twice, or to cut it into slices, by statistics and a bounded sample.

``spark/session/session`` and reports use it. For a clause with a necessary variable, or one whose partitions may be cut, it
analyses one more query. A job runs only over a large table, after the clause's own errors are known. The job answers both
questions, and its result is reused while the table does not change. A classic session provides its plans; a Connect session
provides only their text.
"""

from __future__ import annotations

import logging
import re
import weakref
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, TypeVar

from pyspark.errors import PySparkException

from sparkcep.settings import ALWAYS, Settings
from sparkcep.spark.connection import is_connect, where_available
from sparkcep.sql.prefilter.cost import Sample, Sampled, Share, few, worth
from sparkcep.sql.prefilter.questions import Question
from sparkcep.sql.prefilter.second_read import Choice, Filter, Near, near
from sparkcep.sql.prefilter.slices import UNKNOWN, Slices, Slicing, slices_of
from sparkcep.sql.rewrite.rewrite import needed_rows

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

log = logging.getLogger("sparkcep")

C = TypeVar("C", Choice, Slicing)
SAMPLE_ROWS = 20_000
KEPT_CHOICES = 256
MIN_ROWS = 400_000  # the least estimated rows of a table; below, the sample costs more than a filter saves
_PACKED = 4  # the ratio of values in a columnar file to values of their declared width
_WIDTH = 8 + 8 + 8 + 4  # Spark's estimate of a probed row: its own overhead, __k, __t, __h
_UNITS = {"B": 0, "KiB": 10, "MiB": 20, "GiB": 30, "TiB": 40, "PiB": 50, "EiB": 60}
_STATISTICS = re.compile(r", Statistics\(sizeInBytes=([0-9.E+]+) (\w+)(?:, rowCount=([0-9.E+]+))?\)$")
_PLAIN = frozenset(["Project", "Filter", "Union", "Relation", "LocalRelation", "Range"])  # nodes that repeat their rows
_FILES = re.compile(r"^Relation .*\] (?:parquet|orc)(?:, Statistics.*)?$")  # formats whose columns can be read one at a time
# Functions in a plan's text that are deterministic. Any other may be the user's own, or random.
_SAME = frozenset(
    """abs case cast ceil char_length coalesce concat contains date date_add date_diff date_format date_sub date_trunc day dayofmonth
    dayofweek dayofyear endswith floor greatest hour if in isnan isnotnull isnull least length like lower lpad ltrim minute mod month
    not or and when then else as date_from_unix_date nvl pmod quarter regexp_extract regexp_replace replace round rpad rtrim second
    sqrt startswith substr substring to_date trim trunc try_cast unix_date unix_micros unix_timestamp upper weekday xxhash64 year
    knownfloatingpointnormalized normalizenanandzero inset static_invoke timestamp_micros timestamp_millis timestamp_seconds""".split()
)
_cores: weakref.WeakKeyDictionary[SparkSession, int] = weakref.WeakKeyDictionary()  # a Connect server's cores
_found: dict[tuple[str, ...], Found] = {}  # by the probe and its plan


@dataclass(frozen=True)
class Found:
    """The results of one sample.

    Attributes:
        filtering: the choice of a second read; None if the clause lacks candidates.
        share: the share of the largest key.
        rows: the number of sampled rows.
    """

    filtering: Choice | None
    share: Share
    rows: int


@dataclass
class Sampler:
    """Chooses filters and slices (:class:`sparkcep.sql.prefilter.questions.Chooser`).

    Attributes:
        ask: runs a query of plain Spark SQL in the statement's session.
        settings: the session's settings.
        classic: whether the session provides its plans, not only their text.
        tasks: returns the number of tasks of an exchange that can run at a time.
    """

    ask: Callable[[str], DataFrame]
    settings: Settings
    classic: bool
    tasks: Callable[[], int]
    _types: dict[str, str] = field(default_factory=dict)
    _looks: dict[str, Look] = field(default_factory=dict)

    @staticmethod
    def of(session: SparkSession, settings: Settings, ask: Callable[[str], DataFrame]) -> Sampler:
        """Returns a sampler for a statement of ``session``."""
        classic = not is_connect(session)
        return Sampler(ask, settings, classic, lambda: _tasks(session, classic, ask))

    def filter(self, question: Question) -> Choice:
        """Implements ``Chooser.filter``."""
        plan, always = question.plan, self.settings.prefilter == ALWAYS
        order_type = self._order_type(question)
        if order_type == UNKNOWN:
            if always and plan.keys:
                return Choice(Filter(0), "sparkcep.prefilter is always")
            return Choice(None, "its table cannot be read by itself")
        distance = near(plan, order_type)
        if not plan.keys and distance is None:
            return Choice(None, f"without PARTITION BY, distances along an order key of {order_type} may be rounded")
        if always:
            return Choice(Filter(0, distance), "sparkcep.prefilter is always")
        return self._tried(Choice, lambda: self._by_cost(question, distance))

    def slices(self, question: Question, *, sampled: bool) -> Slicing:
        """Implements ``Chooser.slices``."""
        plan, always = question.plan, self.settings.slices == ALWAYS
        order_type = self._order_type(question)
        slices = slices_of(plan, order_type)
        if isinstance(slices, str):
            return Slicing(None, slices)
        if always:
            return Slicing(slices, "sparkcep.slices is always")
        if order_type == UNKNOWN:
            return Slicing(None, "its table cannot be read by itself")
        return self._tried(Slicing, lambda: self._by_share(question, slices, near(plan, order_type), sampled))

    def _tried(self, kind: type[C], choose: Callable[[], C]) -> C:
        """Returns the choice. If the sample fails, chooses nothing: the clause itself raises the same error, in its own words."""
        try:
            return choose()
        except _failures(self.classic) as error:
            log.info("the table of a clause could not be sampled: %s", error)
            return kind(None, f"the sample failed ({type(error).__name__})")

    def _order_type(self, question: Question) -> str:
        """Returns the SQL type of the order key; UNKNOWN if the clause's table cannot be read on its own."""
        windows = question.plan.windows
        order = dict(question.plan.inputs)[windows[0].order] if windows and windows[0].order else "NULL"
        query = question.query(f"{order} AS __o0")
        if query not in self._types:
            try:
                self._types[query] = self.ask(query).schema[0].dataType.simpleString()
            except PySparkException as error:
                log.info("the table of a clause cannot be read by itself: %s", error)
                self._types[query] = UNKNOWN
        return self._types[query]

    def _by_cost(self, question: Question, distance: Near | None) -> Choice:
        probe = _probe(question, distance)
        look = self._look(probe)
        if reason := look.small or look.unsteady(not self.classic):
            return Choice(None, reason)
        found = self._sampled(question, probe, look, distance).filtering
        assert found is not None
        return found

    def _by_share(self, question: Question, slices: Slices, distance: Near | None, sampled: bool) -> Slicing:
        probe = _probe(question, distance)
        look = self._look(probe)
        if look.small:
            return Slicing(None, look.small)
        tasks = self.tasks()
        if tasks < 2:
            return Slicing(None, "one task runs at a time")
        if not question.plan.keys:
            return Slicing(slices, f"the clause lacks PARTITION BY, and its table has about {look.rows:,} rows")
        if not sampled:
            return Slicing(None, "its table is not sampled: it holds a clause, or the statement is kept for later")
        if reason := look.dear():
            return Slicing(None, reason)
        found = self._sampled(question, probe, look, distance)
        part = "has at least" if found.share.key_by_key else "has an estimated"
        note = f"of {found.rows:,} sampled rows, the key with most {part} {found.share.largest:.0%} of all, and {tasks} tasks run at a time"
        if found.share.key_by_key:
            note += "; rows come key by key, so the sample holds few keys"
        return Slicing(slices if found.share.worth(tasks) else None, note)

    def _look(self, probe: str) -> Look:
        if probe not in self._looks:
            self._looks[probe] = self._classic_look(probe) if self.classic else self._connect_look(probe)
        return self._looks[probe]

    def _sampled(self, question: Question, probe: str, look: Look, distance: Near | None) -> Found:
        known = (probe, str(look.rows), re.sub(r"#\d+", "#", look.text))
        if known not in _found:
            _ = self.ask(question.alone).schema  # raises the clause's errors before any job runs
            sample = self._sample(probe, look.rows)
            found = Found(_choice(question, sample, distance) if question.plan.candidates else None, sample.share(), len(sample.rows))
            if len(_found) >= KEPT_CHOICES:
                _found.pop(next(iter(_found)), None)
            _found[known] = found
        return _found[known]

    def _classic_look(self, probe: str) -> Look:
        plan = self.ask(probe)._jdf.queryExecution().optimizedPlan()
        found, text = plan.stats(), plan.toString()
        # As text, because Py4J does not return all Scala numbers as numbers.
        rows = int(str(found.rowCount().get())) if found.rowCount().isDefined() else _by_width(int(str(found.sizeInBytes())), text)
        return Look(text, rows, plan.deterministic())

    def _connect_look(self, probe: str) -> Look:
        explained = self.ask(f"EXPLAIN COST {probe}").collect()[0][0]
        text = explained.partition("== Optimized Logical Plan ==\n")[2].partition("\n\n== Physical Plan ==")[0]
        found = _STATISTICS.search(text.partition("\n")[0])
        if found is None:
            return Look(text, 0)
        size = int(float(found[1]) * (1 << _UNITS.get(found[2], 0)))
        return Look(text, int(float(found[3])) if found[3] else _by_width(size, text))

    def _sample(self, probe: str, total: int) -> Sample:
        rows = self.ask(f"{probe} LIMIT {SAMPLE_ROWS}").collect()
        found = tuple(Sampled(key, at, hits >> 1, bool(hits & 1)) for key, at, hits in rows)
        return Sample(found, total if len(found) == SAMPLE_ROWS else len(found))


def _tasks(session: SparkSession, classic: bool, ask: Callable[[str], DataFrame]) -> int:
    """Returns the number of tasks of an exchange that can run at a time.

    Connect does not report its cores, but it splits a ``range`` into at least as many parts.
    """
    partitions = ""
    with where_available():
        partitions = session.conf.get("spark.sql.shuffle.partitions", "200") or ""
    if classic:
        cores = session.sparkContext.defaultParallelism
    else:
        if session not in _cores:
            _cores[session] = len(ask("SELECT DISTINCT spark_partition_id() FROM range(10000)").collect())
        cores = _cores[session]
    return min(cores, int(partitions)) if partitions.isdigit() else cores  # Databricks allows "auto"


def _failures(classic: bool) -> tuple[type[Exception], ...]:
    """Returns the exceptions that a Spark statement may raise."""
    if not classic:
        return (PySparkException,)
    from py4j.protocol import Py4JJavaError

    return (PySparkException, Py4JJavaError)


def _probe(question: Question, distance: Near | None) -> str:
    """Returns the query of the probe: for each row its key hash, its position, and the bit set of the candidates it satisfies."""
    plan = question.plan
    columns = dict(plan.inputs)
    keys = f"xxhash64({', '.join(columns[k] for k in plan.keys)})" if plan.keys else "0L"
    bits = [needed_rows(plan), *(text for _, text in plan.candidates)]
    hits = " + ".join(f"CASE WHEN {text} THEN {1 << i} ELSE 0 END" for i, text in enumerate(bits))
    order = f", {columns['__o0']} AS __o0" if distance else ""
    inner = question.query(f"{keys} AS __k{order}, {hits} AS __h")
    at = f"CAST({distance.text} AS BIGINT)" if distance else "CAST(NULL AS BIGINT)"
    return f"{question.names}SELECT __k, {at} AS __t, __h FROM ({inner.removeprefix(question.names)})"


def _choice(question: Question, sample: Sample, distance: Near | None) -> Choice:
    """Chooses the filter that keeps the fewest rows, if it is worth its read."""
    plan = question.plan
    ways: list[Near | None] = [*([None] if plan.keys else []), *([distance] if distance else [])]
    tried = [(sample.estimate(i, d.width if d else None), Filter(i, d)) for i in range(len(plan.candidates)) for d in ways]
    kept, chosen = min(tried, key=lambda t: t[0])
    hits, best = sample.hits(chosen.candidate), plan.candidates[chosen.candidate].variables
    seen = f"{hits:,} of {len(sample.rows):,} sampled rows hold it, of about {sample.total:,}; an estimated {kept:.0%} of the rows stay"
    if worth(sample.sent, kept):
        return Choice(replace(chosen, few=few(sample, chosen.candidate)), seen)
    sent = "" if sample.sent > 0.99 else f", and {sample.sent:.0%} would be exchanged without it"
    names = " or ".join(plan.variables[v] for v in best)
    return Choice(None, f"a second read costs more than it saves: the best condition is of {names}; {seen}{sent}")


@dataclass(frozen=True)
class Look:
    """The session's knowledge of a probe.

    Attributes:
        text: the optimised plan.
        rows: the estimated number of rows.
        deterministic: whether the plan is deterministic, as far as the session knows.
    """

    text: str
    rows: int
    deterministic: bool = True

    @property
    def small(self) -> str:
        """Says why a sample would not pay; "" if it may."""
        return f"its table is small, about {self.rows:,} rows" if self.rows < MIN_ROWS else ""

    def dear(self) -> str:
        """Says why a sample may cost more than reading a few rows; "" if it does not."""
        for node in _nodes(self.text):
            name = _name(node)
            if name not in _PLAIN or "subquery" in node:
                return f"its table is more than a scan ({'subquery' if name in _PLAIN else name}), which a sample might compute in full"
        return ""

    def unsteady(self, by_name: bool) -> str:
        """Says why a second read may return other rows or cost much; "" if it does not.

        ``by_name``: judges functions by their names.
        """
        for node in _nodes(self.text):
            name = _name(node)
            if name not in _PLAIN:
                return f"its table is more than a scan ({name}), which a second read would compute again, perhaps otherwise"
            if name == "Relation" and not _FILES.search(node):
                return "its table is not in files that are read by columns"
            if "subquery" in node:
                return "its table's condition holds a query, which a second read would run again"
            if by_name and name in ("Project", "Filter"):
                if "more fields" in node:
                    return "its table's expressions are too many to be judged"
                called = {m.lower() for m in re.findall(r"([\w.]+)\(", _STATISTICS.sub("", node))}
                if other := sorted(called - _SAME):
                    return f"its table calls {other[0]}, which may give another value when it is read again"
        return "" if self.deterministic else "its table's rows are not the same at each read"


def _name(node: str) -> str:
    return re.split(r"[ (\[]", node, maxsplit=1)[0]


def _by_width(size: int, text: str) -> int:
    """Estimates the rows of a probe from its size in bytes."""
    return size // _WIDTH * (_PACKED if any(_FILES.search(node) for node in _nodes(text)) else 1)


def _nodes(text: str) -> list[str]:
    """Returns the nodes of a plan, root first, without the lines that draw the tree."""
    return [re.sub(r"^[ :+-]*", "", line) for line in text.splitlines() if line]
