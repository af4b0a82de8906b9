"""The query shapes of the suite: the clause, its floor and the best plain way to the same rows."""

from __future__ import annotations

from dataclasses import dataclass

from . import loops, windows


@dataclass(frozen=True)
class Applied:
    """applyInPandas over partitions of the shape's columns; rows that do not fulfil ``where`` cannot matter."""

    loop: loops.Loop
    schema: str
    where: str = "true"


@dataclass(frozen=True)
class Shape:
    """Attributes:
    name: one word or a few.
    clause: between the parentheses of MATCH_RECOGNIZE, behind PARTITION BY and ORDER BY ts.
    columns: those the clause needs, which the floor exchanges and sorts; the keys of the partitions come first.
    plain: Spark SQL with window functions, or a loop in pandas where they cannot say it.
    source: the table, or a subquery.
    keys: how many of the columns partition.
    goal: seconds as a ratio to the floor, at most; None where none is set.
    """

    name: str
    clause: str
    columns: str
    plain: str | Applied
    source: str = "ticks"
    keys: int = 1
    goal: float | None = None

    @property
    def partition(self) -> list[str]:
        return self.columns.split(", ")[: self.keys]

    @property
    def query(self) -> str:
        return (
            f"SELECT * FROM {self.source} MATCH_RECOGNIZE (\nPARTITION BY {', '.join(self.partition)} ORDER BY ts\n{self.clause})"
        )

    @property
    def floor(self) -> str:
        keys = ", ".join(self.partition)
        return f"SELECT {self.columns} FROM {self.source} DISTRIBUTE BY {keys} SORT BY {keys}, ts"

    @property
    def way(self) -> str:
        """How the plain way is written."""
        return "windows" if isinstance(self.plain, str) else "pandas"

    @property
    def plain_goal(self) -> float:
        """Seconds of the plain way as a ratio to the clause's, at least."""
        return 1.0 if isinstance(self.plain, str) else 2.0

    def plain_frame(self, spark):
        """The plain way as a data frame, lazy."""
        if isinstance(self.plain, str):
            return spark.sql(self.plain)
        rows = spark.sql(f"SELECT {self.columns} FROM {self.source} WHERE {self.plain.where}")
        return rows.groupBy(*self.partition).applyInPandas(self.plain.loop, self.plain.schema)


_V = """MEASURES STRT.ts AS start_ts, LAST(DOWN.ts) AS bottom_ts, LAST(UP.ts) AS end_ts,
  STRT.price AS start_price, LAST(DOWN.price) AS bottom_price, LAST(UP.price) AS end_price
PATTERN (STRT DOWN+ UP+)
DEFINE DOWN AS price < PREV(price), UP AS price > PREV(price)"""
_SPAN = "MEASURES FIRST(ts) AS start_ts, LAST(ts) AS end_ts, COUNT(*) AS n\n"
_SPAN_SCHEMA = "symbol STRING, start_ts BIGINT, end_ts BIGINT, n BIGINT"
_WAYS = "DOWN AS price < PREV(price), FLAT AS price = PREV(price), UP AS price > PREV(price)"


def _steps(name: str, column: str, value: str | int, columns: str, goal: float | None = None, each: bool = False) -> Shape:
    """A row with ``value`` in ``column``, then a cart, then a buy at a higher price, whatever lies between them. ``each``: from
    each such row on."""
    first = f"{column} = {value!r}"
    clause = f"""MEASURES A.ts AS a_ts, B.ts AS b_ts, C.ts AS c_ts, C.price - A.price AS gain
{"AFTER MATCH SKIP TO NEXT ROW" if each else "AFTER MATCH SKIP PAST LAST ROW"}
EVENT SELECTION SKIP TILL NEXT MATCH
PATTERN (A B C)
WINDOW {loops.WITHIN}
DEFINE A AS {first}, B AS kind = 'cart', C AS kind = 'buy' AND price > A.price"""
    schema = "symbol STRING, a_ts BIGINT, b_ts BIGINT, c_ts BIGINT, gain DOUBLE"
    plain = Applied(loops.three_steps(column, value, each), schema, f"{first} OR kind IN ('cart', 'buy')")
    return Shape(name, clause, columns, plain, goal=goal)


def _selective(name: str, first: int, low: int, high: int) -> Shape:
    clause = f"{_SPAN}PATTERN (A B+)\nDEFINE A AS volume <= {first}, B AS volume BETWEEN {low} AND {high}"
    return Shape(name, clause, "symbol, ts, volume", windows.after(first, low, high))


SHAPES = (
    Shape("V pattern", _V, "symbol, ts, price", windows.vs("ticks"), goal=1.35),
    Shape(
        "rare scan",
        """MEASURES A.ts AS start_ts, C.ts AS end_ts, A.price AS start_price, C.price AS end_price
AFTER MATCH SKIP TO NEXT ROW
PATTERN (A B C)
DEFINE A AS volume = 10000, B AS price < PREV(price), C AS price > PREV(price)""",
        "symbol, ts, price, volume",
        windows.RARE,
    ),
    _steps("rare row", "volume", 10000, "symbol, ts, price, volume, kind", 0.6),
    _steps("rare partition", "kind", "halt", "symbol, ts, price, kind", 0.6),
    Shape(
        "rare neighbours",
        """MEASURES A.ts AS start_ts, C.ts AS end_ts, A.price AS start_price, C.price AS end_price
AFTER MATCH SKIP TO NEXT ROW
PATTERN (A B C)
DEFINE A AS kind = 'halt', B AS price < PREV(price), C AS price > PREV(price)""",
        "symbol, ts, price, kind",
        windows.RARE.replace("volume = 10000", "kind = 'halt'").replace("volume", "kind"),
        goal=0.6,
    ),
    Shape(
        "many partitions",
        _V,
        "symbol, bucket, ts, price",
        windows.vs("(SELECT symbol, ts DIV 100 AS bucket, ts, price FROM ticks)", "symbol, bucket"),
        source="(SELECT symbol, ts DIV 100 AS bucket, ts, price FROM ticks)",
        keys=2,
    ),
    Shape(
        "quantifiers",
        _SPAN
        + f"PATTERN (UP{{2,4}} DOWN{{1,2}} RISE{{2,}})\nDEFINE {_WAYS.replace('FLAT AS price = PREV(price), ', '')}, RISE AS price > PREV(price)",
        "symbol, ts, price",
        Applied(loops.searched(loops.ways, b"U{2,4}D{1,2}U{2,}"), _SPAN_SCHEMA),
    ),
    Shape(
        "navigation",
        """MEASURES PEAK.ts AS peak_ts, PREV(PEAK.price) AS before, PEAK.price AS peak, NEXT(FALL.price) AS behind
AFTER MATCH SKIP TO NEXT ROW
PATTERN (PEAK FALL)
DEFINE PEAK AS price > PREV(price) AND price > PREV(price, 3), FALL AS price < PREV(price) AND price > NEXT(price)""",
        "symbol, ts, price",
        windows.PEAKS,
    ),
    Shape(
        "no match",
        """MEASURES FIRST(ts) AS start_ts, LAST(ts) AS end_ts
PATTERN (UP+ JUMP)
DEFINE UP AS price >= PREV(price), JUMP AS price > PREV(price) + 100""",
        "symbol, ts, price",
        windows.JUMPS,
    ),
    Shape(
        "optional prefix",
        _SPAN + "PATTERN (BIG? DOWN UP+)\nDEFINE BIG AS volume > 9000, DOWN AS price < PREV(price), UP AS price > PREV(price)",
        "symbol, ts, price, volume",
        Applied(loops.searched(loops.ways_and_size, b"[NDFU]?[Dd][Uu]+"), _SPAN_SCHEMA),
    ),
    Shape(
        "nested quantifiers",
        _SPAN + f"PATTERN ((UP+ DOWN+){{2,}} FLAT)\nDEFINE {_WAYS}",
        "symbol, ts, price",
        Applied(loops.searched(loops.ways, b"(?:U+D+){2,}F"), _SPAN_SCHEMA),
    ),
    _steps("funnel", "kind", "view", "symbol, ts, price, kind", 1.35),
    _steps("window next row", "kind", "view", "symbol, ts, price, kind", each=True),
    Shape(
        "sessionize",
        """MEASURES FIRST(ts) AS start_ts, LAST(ts) AS end_ts, COUNT(*) AS events, SUM(volume) AS volume
PATTERN (FIRST_ONE SOON*)
DEFINE SOON AS ts - PREV(ts) <= 30""",
        "symbol, ts, volume",
        windows.SESSIONS,
    ),
    Shape(
        "merge ranges",
        """MEASURES FIRST(ts) AS start_ts, MAX(ends) AS end_ts, COUNT(*) AS ranges
PATTERN (A* B)
DEFINE A AS MAX(A.ends) >= NEXT(ts)""",
        "symbol, ts, ends",
        windows.RANGES,
        source="(SELECT symbol, ts, ts + volume % 5 AS ends FROM ticks)",
    ),
    Shape(
        "streaks",
        """MEASURES FIRST(ts) AS start_ts, LAST(ts) AS end_ts, COUNT(*) AS n, LAST(price) - FIRST(price) AS gain
PATTERN (UP{5,})
DEFINE UP AS price > PREV(price)""",
        "symbol, ts, price",
        windows.STREAKS,
    ),
    Shape(
        "head and shoulders",
        """MEASURES STRT.ts AS start_ts, LAST(UP2.ts) AS head_ts, LAST(DOWN3.ts) AS end_ts, LAST(UP2.price) AS head
PATTERN (STRT UP1+ DOWN1+ UP2+ DOWN2+ UP3+ DOWN3+)
DEFINE UP1 AS price > PREV(price), DOWN1 AS price < PREV(price),
  UP2 AS price > PREV(price), DOWN2 AS price < PREV(price) AND LAST(UP2.price) > LAST(UP1.price),
  UP3 AS price > PREV(price), DOWN3 AS price < PREV(price) AND LAST(UP3.price) < LAST(UP2.price)""",
        "symbol, ts, price",
        Applied(loops.head_and_shoulders, "symbol STRING, start_ts BIGINT, head_ts BIGINT, end_ts BIGINT, head DOUBLE"),
    ),
    Shape(
        "running average",
        """MEASURES A.ts AS start_ts, LAST(B.ts) AS end_ts, AVG(B.price) AS average
PATTERN (A B+)
DEFINE A AS volume > 5000, B AS price >= AVG(B.price)""",
        "symbol, ts, price, volume",
        Applied(loops.running_average, "symbol STRING, start_ts BIGINT, end_ts BIGINT, average DOUBLE"),
        goal=1.35,
    ),
    _selective("low selectivity", 100, 101, 5100),
    _selective("middle selectivity", 2000, 2001, 6000),
    _selective("high selectivity", 5000, 5001, 10000),
    Shape(
        "ALL ROWS",
        """MEASURES MATCH_NUMBER() AS n, CLASSIFIER() AS label
ALL ROWS PER MATCH
PATTERN (STRT DOWN+ UP+)
DEFINE DOWN AS price < PREV(price), UP AS price > PREV(price)""",
        "symbol, ts, price",
        Applied(loops.v_rows, "symbol STRING, ts BIGINT, n BIGINT, label STRING, price DOUBLE"),
        source="(SELECT symbol, ts, price FROM ticks)",
        goal=1.6,
    ),
    Shape("wide rows", _V, "symbol, ts, price", windows.vs("wide"), source="wide"),
)


def chosen(names: str | None) -> list[Shape]:
    """The shapes whose names are listed with commas between them; all of them for None. Raises ValueError for an unknown name."""
    if names is None:
        return list(SHAPES)
    by_name = {shape.name.lower(): shape for shape in SHAPES}
    wanted = [name.strip() for name in names.split(",")]
    if unknown := [name for name in wanted if name.lower() not in by_name]:
        raise ValueError(f"no shape {', '.join(map(repr, unknown))}; there are {', '.join(shape.name for shape in SHAPES)}")
    return [by_name[name.lower()] for name in wanted]
