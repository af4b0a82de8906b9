"""Session settings of a clause: the Spark settings that matter here, and sparkcep's own.

``spark/configured`` and the rewrite service read them, and the planner and the rewriter use them. A sparkcep setting has two names,
such as ``sparkcep.maxSteps`` and ``spark.sparkcep.maxSteps``. The second name exists because spark-submit, spark-defaults.conf and
servers drop every key that does not begin with ``spark.``. If a session has both, the first wins. In the application's
configuration, ``spark.sparkcep.maxSteps`` is also the upper limit for every session.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields, replace

from sparkcep.errors import ClauseError, nearest, shown
from sparkcep.redaction import Redaction

EXCLUDED_RULES = "spark.sql.optimizer.excludedRules"
_NEEDED_RULE = "org.apache.spark.sql.catalyst.optimizer.OptimizeOneRowRelationSubquery"
ALWAYS = "always"
AUTO, OPERATOR, FRAMES = "auto", "operator", "frames"
ROWS, COLUMNS = "rows", "columns"
THREAD, WALL, COUNTED = "thread", "wall", "counted"
_MICROS = {
    "microsecond": 1, "millisecond": 1_000, "second": 1_000_000, "minute": 60_000_000, "hour": 3_600_000_000, "day": 86_400_000_000, "week": 604_800_000_000,
}  # fmt: skip
Reader = Callable[[str], str | None]  # returns the text of a key, or None if the key is not set
OPERATOR_HEAD = "spark."  # the prefix of a name that spark-submit passes on
MAX_COUNTED = 1_000_000_000  # the most nanoseconds of a step of the counting clock
_HEAD = "sparkcep."
_UNITS = {"": 1, "b": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}


@dataclass(frozen=True)
class Settings:
    """The settings of a session.

    Attributes:
        case_sensitive: whether column names are case-sensitive.
        ansi: whether Spark's ANSI mode is on.
        precision_loss: whether decimal results of more than 38 digits lose digits after the point.
        zone: the session's time zone.
        double_quoted: whether text in double quotes is an identifier, not a string.
        columns: names in upper case, such as CURRENT_DATE, that are input columns and not functions. Not read from the
            configuration.
        parameters: the values of a statement's parameters, by their text; a ``?`` is keyed by "?" and its offset. Not read from the
            configuration.
        prefilter: whether rows that cannot matter are kept from the search: Spark drops them, or further keys split them off. True
            allows a second read of the source only if the session finds it worthwhile, ALWAYS wherever it is possible.
        slices: whether partitions are cut into time slices. True allows it only if one partition would keep a single task busy,
            ALWAYS wherever it is possible.
        map_in_arrow: whether Spark runs the engine with the operator of mapInArrow. The JVM extension reads it.
        exchange: whether rows are exchanged as they are, or as blocks of columns. The JVM extension reads it.
        exchange_task_bytes: how many bytes of rows a task collects before it makes blocks of them. The JVM extension reads it.
        exchange_worker_bytes: how many bytes of blocks a worker holds in memory. The JVM extension reads it.
        windows: whether Spark's aggregates over several output rows of a match become window functions, because no JVM extension
            computes them. Not read from the configuration.
        stream_route: how a clause over a stream runs: OPERATOR is the JVM operator, FRAMES a program of DataFrames. AUTO
            chooses the operator if the JVM has it, else the program.
        stream_buckets: the number of key buckets of such a program.
        stream_several: whether several such programs may run in one query. It also applies if this statement has only one.
        rocksdb: whether Spark's state store is RocksDB.
        late_rows: the table to which the operator appends late rows (LateRows.java reads it).
        idle: over a stream, the microseconds without a row after which a partition ends; 0: never. Every row counts as activity, so
            the prefilter is off if this is set.
        max_state_bytes: the memory limit of one search, not counting its rows.
        max_steps: the step limit of one match attempt.
        max_matches: the match limit of a partition under an event selection.
        budget_clock: the clock of BUDGET INTERVAL: thread, wall or counted, and by how many nanoseconds the counting clock advances
            for a matching row and for a check.
        redaction: replaces parts of the texts that are shown of a statement.

    Example:
        >>> from sparkcep.settings import Settings
        >>> Settings.read({"spark.sparkcep.maxSteps": "1000"}.get).max_steps
        1000
    """

    case_sensitive: bool = False
    ansi: bool = True
    precision_loss: bool = True
    zone: str = "UTC"
    double_quoted: bool = False
    columns: frozenset[str] = frozenset()
    parameters: Mapping[str, object] = field(default_factory=dict, hash=False)
    prefilter: bool | str = True
    slices: bool | str = True
    map_in_arrow: bool = True
    exchange: str = COLUMNS
    exchange_task_bytes: int = 64 << 20
    exchange_worker_bytes: int = 256 << 20
    windows: bool = False
    stream_route: str = AUTO
    stream_buckets: int = 32
    stream_several: bool = False
    rocksdb: bool = False
    late_rows: str = ""
    idle: int = 0
    max_state_bytes: int = 1 << 30
    max_steps: int = 2_000_000_000
    max_matches: int = 1_000_000_000
    budget_clock: tuple[str, int, int] = (THREAD, 0, 0)
    redaction: Redaction = Redaction()

    @staticmethod
    def read(get: Reader, application: Reader = lambda _: None) -> Settings:
        """Reads the settings of a session.

        ``get`` reads the session's configuration. ``application`` reads the application's, which sets upper limits.
        Raises ClauseError.
        """
        excluded = get(EXCLUDED_RULES) or ""
        if _NEEDED_RULE in excluded:
            message = f"{EXCLUDED_RULES} holds {_NEEDED_RULE}, without which Spark calls a table function once per row. Keep that rule"
            raise ClauseError("SETTING", message, fragment=_NEEDED_RULE)
        given = {name: given_in(get, key) for name, (key, _) in _READERS.items()}
        found = Settings(**{name: _READERS[name][1](*pair) for name, pair in given.items() if pair is not None})
        found = replace(found, redaction=Redaction.read(get))
        found = replace(found, double_quoted=found.double_quoted and found.ansi)  # Spark ignores it without ANSI mode
        for name, most in allowed(application).items():
            value = getattr(found, name)
            if given[name] is None:
                found = replace(found, **{name: most})
            elif value > most:
                raise beyond(given[name][0], value, name, most)
        return replace(found, prefilter=False) if found.idle else found

    def bounds(self) -> tuple[tuple[str, int], ...]:
        """Returns the limits that differ from the defaults, as (name, value)."""
        named = ((f.name, getattr(self, f.name), f.default) for f in fields(self) if f.name.startswith("max_"))
        return tuple((name, value) for name, value, default in named if value != default)


def _one_of(**meanings: bool | str) -> Callable[[str, str], bool | str]:
    """Returns a reader of settings that allow only these words."""
    *others, last = meanings

    def read(key: str, text: str) -> bool | str:
        word = text.strip().lower()
        if word not in meanings:
            raise ClauseError("SETTING", f"{key} must be {', '.join(others)} or {last}, not {shown(text)!r}")
        return meanings[word]

    return read


def given_in(get: Reader, key: str) -> tuple[str, str] | None:
    """Returns the name under which a setting is given, and its text. Returns None if it is not set."""
    for name in (key, OPERATOR_HEAD + key) if key.startswith(_HEAD) else (key,):
        if (text := get(name)) is not None:
            return name, text
    return None


def allowed(application: Reader) -> dict[str, int]:
    """Returns the upper limits that the application's configuration sets, by the name of the member of Settings.

    Raises ClauseError.
    """
    keys = {f.name: OPERATOR_HEAD + _READERS[f.name][0] for f in fields(Settings) if f.name.startswith("max_")}
    return {name: _READERS[name][1](key, text) for name, key in keys.items() if (text := application(key)) is not None}


def beyond(what: str, value: int, name: str, most: int) -> ClauseError:
    """Returns the error for a limit above the application's."""
    key = OPERATOR_HEAD + _READERS[name][0]
    return ClauseError("SETTING", f"{what} is {value}, and the application allows at most {most} ({key}). Set it to at most {most}")


def _number(most: int, units: bool = True) -> Callable[[str, str], int]:
    """Returns a reader of whole numbers from 1 to ``most``. With ``units``, it also reads k, m, g and t."""
    pattern = re.compile(r"\s*(\d{1,19})\s*([bkmgt]?)b?\s*" if units else r"\s*(\d{1,19})()\s*")
    such = "1000000 or 512m" if units else "64"

    def read(key: str, text: str) -> int:
        found = pattern.fullmatch(text.lower())
        value = int(found[1]) * _UNITS[found[2]] if found else 0
        if not 0 < value <= most:
            raise ClauseError("SETTING", f"{key} must be a number from 1 to {most}, such as {such}, not {shown(text)!r}")
        return value

    return read


def _duration(key: str, text: str) -> int:
    """Reads a duration and returns microseconds."""
    found = re.fullmatch(r"\s*(?:interval\s+)?'?(\d{1,19})'?\s*([a-z]+?)s?'?\s*", text.lower())
    micros = int(found[1]) * _MICROS[found[2]] if found and found[2] in _MICROS else 0
    if not 0 < micros < 1 << 62:
        raise ClauseError("SETTING", f"{key} must be a time above 0, a whole number with {', '.join(f'{unit}s' for unit in list(_MICROS)[:-1])} or weeks, such as 10 minutes, not {shown(text)!r}")
    return micros


def _clock(key: str, text: str) -> tuple[str, int, int]:
    """Reads the clock of BUDGET INTERVAL."""
    found = re.fullmatch(rf"({THREAD}|{WALL})()()|({COUNTED})\s*:\s*(\d{{1,10}})\s*,\s*(\d{{1,10}})", text.strip().lower())
    row, check = (int(found[5]), int(found[6])) if found and found[4] else (0, 0)
    if not found or max(row, check) > MAX_COUNTED:
        example = f"{COUNTED}:200,400 (200 ns for each matching row and 400 ns for each check)"
        raise ClauseError("SETTING", f"{key} must be {THREAD}, {WALL}, or {COUNTED} with two numbers up to {MAX_COUNTED}, such as {example}, not {shown(text)!r}")
    return found[1] or found[4], row, check


_flag, _wanted = _one_of(true=True, false=False), _one_of(true=True, false=False, always=ALWAYS)
_READERS = {  # member -> its key, and the reader of its text
    "case_sensitive": ("spark.sql.caseSensitive", _flag),
    "ansi": ("spark.sql.ansi.enabled", _flag),
    "precision_loss": ("spark.sql.decimalOperations.allowPrecisionLoss", _flag),
    "zone": ("spark.sql.session.timeZone", lambda _, text: text.strip()),
    "double_quoted": ("spark.sql.ansi.doubleQuotedIdentifiers", _flag),
    "prefilter": ("sparkcep.prefilter", _wanted),
    "slices": ("sparkcep.slices", _wanted),
    "map_in_arrow": ("sparkcep.mapInArrow", _flag),
    "exchange": ("sparkcep.exchange", _one_of(rows=ROWS, columns=COLUMNS)),
    "exchange_task_bytes": ("sparkcep.exchange.taskBytes", _number(1 << 40)),
    "exchange_worker_bytes": ("sparkcep.exchange.workerBytes", _number(1 << 40)),
    "stream_route": ("sparkcep.stream.route", _one_of(auto=AUTO, operator=OPERATOR, frames=FRAMES)),
    "late_rows": ("sparkcep.stream.lateRows", lambda _, text: text.strip()),
    "stream_buckets": ("sparkcep.stream.buckets", _number(10_000, units=False)),
    "stream_several": ("sparkcep.stream.several", _flag),
    "rocksdb": ("spark.sql.streaming.stateStore.providerClass", lambda _, text: "RocksDB" in text),
    "idle": ("sparkcep.stream.idleTimeout", _duration),
    "budget_clock": ("sparkcep.budget.clock", _clock),
    "max_state_bytes": ("sparkcep.maxStateBytes", _number(1 << 40)),
    "max_steps": ("sparkcep.maxSteps", _number(1 << 53)),
    "max_matches": ("sparkcep.maxMatchesPerPartition", _number(1 << 53)),
}
DEFAULT = Settings()
_OTHERS = ("sparkcep.warm", "sparkcep.why.redact", "sparkcep.why.maxSteps")  # read by spark/session/warm_up.py and spark/why/ask.py
# Helpers.java reads these settings.
_OPERATORS = ("spark.sparkcep.python", "spark.sparkcep.rewriter.processes", "spark.sparkcep.rewriter.timeout", "spark.sparkcep.rewriter.memory")


def unknown(key: str) -> str | None:
    """Says why the name of a setting is wrong. Returns None if some part of sparkcep or Spark may read the setting."""
    known = [*(k for k, _ in _READERS.values() if k.startswith(_HEAD)), *_OTHERS]
    if not key.startswith((_HEAD, OPERATOR_HEAD + _HEAD)) or key.removeprefix(OPERATOR_HEAD) in known or key in _OPERATORS:
        return None
    head = OPERATOR_HEAD if key.startswith(OPERATOR_HEAD) else ""
    if OPERATOR_HEAD + key in _OPERATORS:
        return f"{key} cannot be set in a session. The operator sets {OPERATOR_HEAD}{key} when the application starts"
    names = {k.removeprefix(OPERATOR_HEAD).removeprefix(_HEAD): k for k in (*(head + k for k in known), *(_OPERATORS if head else ()))}
    name = key.removeprefix(OPERATOR_HEAD).removeprefix(_HEAD)
    longer = [k for k in names if name and k.lower().startswith(name.lower())]
    near = names.get(longer[0] if len(longer) == 1 else nearest(name, names) or "")  # without the head, which all of them have
    return f"{key} is not a setting of sparkcep and is ignored; " + (f"did you mean {near}?" if near is not None else f"the settings are {', '.join(known)}")


def all_unknown(keys: Iterable[str]) -> Iterator[str]:
    """Yields a message for each key that looks like a sparkcep setting but is not one."""
    return filter(None, map(unknown, sorted(keys)))
