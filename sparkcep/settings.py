"""The session's settings for a clause: Spark's own that matter here, and sparkcep's."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, fields, replace

from sparkcep.errors import ClauseError, nearest

EXCLUDED_RULES = "spark.sql.optimizer.excludedRules"
_NEEDED_RULE = "org.apache.spark.sql.catalyst.optimizer.OptimizeOneRowRelationSubquery"
NEVER, PREFER = "never", "prefer"
ALWAYS = "always"
AUTO, OPERATOR, FRAMES = "auto", "operator", "frames"
_MICROS = {
    "microsecond": 1, "millisecond": 1_000, "second": 1_000_000, "minute": 60_000_000, "hour": 3_600_000_000, "day": 86_400_000_000, "week": 604_800_000_000,
}  # fmt: skip
_UNITS = {"": 1, "b": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}


@dataclass(frozen=True)
class Settings:
    """The settings of a session.

    ``double_quoted``: whether text in double quotes is a name, not a string. ``columns``: names in upper case, such as
    CURRENT_DATE, that are columns of a clause's input and not functions; the configuration does not say it.

    ``prefilter``: whether rows that cannot matter are kept from the search, dropped by Spark or parted by further keys. True allows
    a second read of the source only where a session finds that worth it, ALWAYS wherever that is possible.

    ``slices``: whether partitions are cut into slices of time. True allows it only where one partition would keep a single task
    busy, ALWAYS wherever that is possible.

    ``map_in_arrow``: whether Spark runs the engine by its operator of mapInArrow. The JVM's extension reads it.

    ``native``: whether clauses that the platform's own MATCH_RECOGNIZE understands are left to it (PREFER) or not (NEVER).

    ``stream_route``: what runs a clause over a stream: the JVM's operator (OPERATOR), a program of data frames (FRAMES), or that
    where the operator is missing (AUTO). ``stream_buckets``: how many buckets of keys such a program has. ``stream_several``:
    whether each such program may stand in a query with others, also where a statement has one alone. ``rocksdb``: whether states
    are there. ``late_rows``: the table to which the operator appends late rows (LateRows.java reads it).
    ``idle``: over a stream, after how many microseconds without a row a partition ends; 0: never. Rows that cannot matter count,
    too, so that none is kept from the search then.

    ``max_state_bytes``: the memory of one search beyond its rows. ``max_steps``: the steps of one attempt at a match.
    ``max_matches``: the matches of a partition under an event selection.
    """

    case_sensitive: bool = False
    ansi: bool = True
    zone: str = "UTC"
    double_quoted: bool = False
    columns: frozenset[str] = frozenset()
    prefilter: bool | str = True
    slices: bool | str = True
    native: str = NEVER
    map_in_arrow: bool = True
    stream_route: str = AUTO
    stream_buckets: int = 32
    stream_several: bool = False
    rocksdb: bool = False
    late_rows: str = ""
    idle: int = 0
    max_state_bytes: int = 1 << 30
    max_steps: int = 2_000_000_000
    max_matches: int = 1_000_000_000

    @staticmethod
    def read(get: Callable[[str], str | None]) -> Settings:
        """Reads the settings from a session's configuration. ``get`` gives None for a key that is not set. Raises ClauseError."""
        excluded = get(EXCLUDED_RULES) or ""
        if _NEEDED_RULE in excluded:
            message = f"{EXCLUDED_RULES} holds {_NEEDED_RULE}, without which Spark calls a table function for each row by itself; leave that rule in"
            raise ClauseError("SETTING", message, fragment=_NEEDED_RULE)
        texts = {name: get(key) for name, (key, _) in _READERS.items()}
        found = Settings(**{name: read(key, texts[name]) for name, (key, read) in _READERS.items() if texts[name] is not None})
        found = replace(found, double_quoted=found.double_quoted and found.ansi)  # Spark heeds it under ANSI alone
        return replace(found, prefilter=False) if found.idle else found

    def bounds(self) -> tuple[tuple[str, int], ...]:
        """The bounds that are not the default ones, as (name, value)."""
        named = ((f.name, getattr(self, f.name), f.default) for f in fields(self) if f.name.startswith("max_"))
        return tuple((name, value) for name, value, default in named if value != default)


def _one_of(**meanings: bool | str) -> Callable[[str, str], bool | str]:
    """A reader of settings that may have only these words."""
    *others, last = meanings

    def read(key: str, text: str) -> bool | str:
        word = text.strip().lower()
        if word not in meanings:
            raise ClauseError("SETTING", f"{key} must be {', '.join(others)} or {last}, not {text!r}")
        return meanings[word]

    return read


def _number(key: str, text: str) -> int:
    found = re.fullmatch(r"\s*(\d+)\s*([bkmgt]?)b?\s*", text.lower())
    if not found or int(found[1]) == 0:
        raise ClauseError("SETTING", f"{key} must be a number above 0, such as 1000000 or 512m, not {text!r}")
    return int(found[1]) * _UNITS[found[2]]


def _duration(key: str, text: str) -> int:
    """Microseconds."""
    found = re.fullmatch(r"\s*(?:interval\s+)?'?(\d+)'?\s*([a-z]+?)s?'?\s*", text.lower())
    micros = int(found[1]) * _MICROS[found[2]] if found and found[2] in _MICROS else 0
    if not 0 < micros < 1 << 62:
        raise ClauseError("SETTING", f"{key} must be a time above 0, a whole number with {', '.join(f'{unit}s' for unit in list(_MICROS)[:-1])} or weeks, such as 10 minutes, not {text!r}")
    return micros


_flag, _wanted = _one_of(true=True, false=False), _one_of(true=True, false=False, always=ALWAYS)
_READERS = {  # member -> its key, how its text is read
    "case_sensitive": ("spark.sql.caseSensitive", _flag),
    "ansi": ("spark.sql.ansi.enabled", _flag),
    "zone": ("spark.sql.session.timeZone", lambda _, text: text.strip()),
    "double_quoted": ("spark.sql.ansi.doubleQuotedIdentifiers", _flag),
    "prefilter": ("sparkcep.prefilter", _wanted),
    "slices": ("sparkcep.slices", _wanted),
    "native": ("sparkcep.native", _one_of(never=NEVER, prefer=PREFER)),
    "map_in_arrow": ("sparkcep.mapInArrow", _flag),
    "stream_route": ("sparkcep.stream.route", _one_of(auto=AUTO, operator=OPERATOR, frames=FRAMES)),
    "late_rows": ("sparkcep.stream.lateRows", lambda _, text: text.strip()),
    "stream_buckets": ("sparkcep.stream.buckets", _number),
    "stream_several": ("sparkcep.stream.several", _flag),
    "rocksdb": ("spark.sql.streaming.stateStore.providerClass", lambda _, text: "RocksDB" in text),
    "idle": ("sparkcep.stream.idleTimeout", _duration),
    "max_state_bytes": ("sparkcep.maxStateBytes", _number),
    "max_steps": ("sparkcep.maxSteps", _number),
    "max_matches": ("sparkcep.maxMatchesPerPartition", _number),
}
DEFAULT = Settings()
_OTHERS = ("sparkcep.warm",)  # read by spark/warming.py


def unknown(key: str) -> str | None:
    """What is wrong with the name of a setting that nobody reads; None for one that somebody may."""
    known = [*(k for k, _ in _READERS.values() if k.startswith("sparkcep.")), *_OTHERS]
    if not key.startswith("sparkcep.") or key in known:
        return None
    near = nearest(key, known)
    return f"{key} is no setting of sparkcep's, and has no effect; " + (f"did you mean {near}?" if near is not None else f"the settings are {', '.join(known)}")
