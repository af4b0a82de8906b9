"""Expressions over two rows of a match, as the engine computes them and as Spark does.

The engine's side runs its bytecode in this process; Spark's is one SELECT over joined pairs of rows, in which an error
of one pair is a value (Spark's own TryEval).
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
from pyspark.errors import AnalysisException

from sparkcep.clause.parser import parse_clause
from sparkcep.columns.arrays import decimal_words
from sparkcep.columns.types import Type
from sparkcep.compiler.conditions.bytecode import ConditionCompiler
from sparkcep.engine.core import predicates
from sparkcep.errors import ClauseError
from sparkcep.kernels.vm import vm
from sparkcep.plan.build import make_plan
from sparkcep.plan.records import walk
from sparkcep.settings import Settings
from sparkcep.sql.rewrite.rewrite import _as_months

ERROR, REFUSED = "error", "refused"
I64 = 1 << 63
# type -> values as SQL; the ends of each type, and for times both changes of clocks in Berlin and New York
VALUES = {
    "TINYINT": [0, 1, -1, 7, -128, 127],
    "SMALLINT": [0, 1, -1, 7, 12345, -32768, 32767],
    "INT": [0, 1, -1, 7, 16777217, -2147483648, 2147483647],
    "BIGINT": [0, 1, -1, 7, 9007199254740993, f"{-I64 + 1} - 1", I64 - 1],
    "FLOAT": ["0", "-0.0", "0.1", "2.675", "3", "-7.5", "16777216", "1e38", "'NaN'", "'-Infinity'"],
    "DOUBLE": ["0", "-0.0", "0.1", "3", "-7.5", "9007199254740992", "-2147483647", "1e300", "'NaN'", "'Infinity'"],
    "DECIMAL(3,1)": ["0", "0.1", "-3.5", "99.9"],
    "DECIMAL(10,0)": ["0", "7", "-9999999999"],
    "DECIMAL(18,6)": ["0.000001", "-123456789012.654321", "3"],
    "DECIMAL(38,4)": ["1", "2", "-7.0001", "9999999999999999999999999999999999.9999"],
    "DECIMAL(38,38)": ["0.33333333333333333333333333333333333333", "-0.00000000000000000000000000000000000001"],
    "BOOLEAN": ["true", "false"],
    "STRING": ["'1'", "'a'", "'2024-03-31'"],
    "BINARY": ["X'01'", "X'0102'"],
    "DATE": ["'1883-11-18'", "'2024-03-10'", "'2024-03-30'", "'2024-03-31'", "'2024-10-27'", "'2450-03-28'"],
    "TIMESTAMP": [
        "'1883-11-18 12:00:00'", "'2024-03-10 01:30:00'", "'2024-03-10 12:00:00'", "'2024-03-30 02:30:00'", "'2024-03-30 12:00:00'", "'2024-03-31 12:00:00.000001'",
        "'2024-10-26 02:30:00'", "'2024-10-27 00:30:00Z'", "'2024-10-27 01:30:00Z'", "'2024-11-03 05:30:00Z'", "'2024-11-03 06:30:00Z'", "'2450-07-01 00:00:00'",
    ],
    "TIMESTAMP_NTZ": ["'2024-03-10 02:30:00'", "'2024-03-31 02:30:00'", "'2024-10-27 02:30:00'", "'2024-11-03 01:30:00.5'", "'1900-01-01 00:00:00'"],
    "INTERVAL DAY TO SECOND": ["'0 00:00:00'", "'1 00:00:00'", "'-1 02:30:00'", "'200 23:59:59.999999'", "'0 00:00:00.000001'"],
    "INTERVAL YEAR TO MONTH": ["'0-0'", "'0-1'", "'-1-5'", "'100-11'"],
    "ARRAY<INT>": ["array(1, NULL)", "array(1)"],
    "STRUCT<a: DOUBLE, b: STRING>": ["struct(1D, 'x')", "struct(double('NaN'), 'x')"],
    "MAP<STRING, INT>": ["map('a', 1)", "map('b', NULL)"],
    "VARIANT": ["parse_json('1')", "parse_json('{\"a\": 2}')"],
    "STRUCT<m: MAP<INT, INT>>": ["struct(map(1, 1))"],
}
NUMBERS = list(VALUES)[:11]
TIMES = [t for t in VALUES if t.startswith(("DATE", "TIMESTAMP", "INTERVAL"))]
BINARY = [
    "{a} + {b}", "{a} - {b}", "{a} * {b}", "{a} / {b}", "{a} % {b}", "{a} DIV {b}", "pmod({a}, {b})", "{a} = {b}", "{a} != {b}", "{a} < {b}", "{a} <= {b}", "{a} > {b}",
    "{a} >= {b}", "{a} <=> {b}", "greatest({a}, {b})", "least({a}, {b})", "coalesce({a}, {b})", "if({a} IS NULL, {a}, {b})", "nullif({a}, {b})", "{a} IN ({b})",
    "CASE WHEN {b} IS NULL THEN {b} ELSE {a} END", "{a} BETWEEN {b} AND {b}", "datediff({a}, {b})", "nvl({a}, {b})", "CASE {a} WHEN {b} THEN 1 ELSE 2 END",
]
FLOATING = ["hypot({a}, {b})", "pow({a}, {b})", "atan2({a}, {b})"]
UNARY = [
    "-{x}", "abs({x})", "sign({x})", "round({x})", "round({x}, 2)", "floor({x})", "ceil({x})", "isnan({x})", "sqrt({x})", "rint({x})", "NOT {x}", "{x} IS TRUE", "{x} + 1", "{x} * 2",
    "{x} / 2", "{x} - 1.5", "{x} > 1", "{x} <= 2.5D", "{x} IN (1, 2)", "greatest({x}, 0)", "coalesce({x}, 3)", "{x} = '1'", "{x} % 3", "2 * {x}", "1 - {x}", "{x} * 1.5", "{x} / 3D",
    "{x} + INTERVAL '1' DAY", "{x} - INTERVAL '25' HOUR", "INTERVAL '1' DAY + {x}", "{x} + INTERVAL '1' MONTH", "{x} > DATE'2024-03-30'", "{x} > TIMESTAMP'2024-03-30 12:00:00'",
    *(f"{cast}({{x}} AS {t})" for t in NUMBERS for cast in ("CAST", "TRY_CAST")),
]


def column(number: int) -> str:
    return f"c{number}"


COLUMNS = {t: column(i) for i, t in enumerate(VALUES)}


def literal(t: str, value: object) -> str:
    return f"CAST({f'INTERVAL {value} {t[9:]}' if t.startswith('INTERVAL') else value} AS {t})" if not t.startswith("BIGINT") else f"CAST({value} AS BIGINT)"


def table() -> str:
    """A query of one row for each of the most values of a type; the last row is NULL."""
    count = max(map(len, VALUES.values())) + 1
    rows = []
    for i in range(count):
        cells = [f"{literal(t, values[i]) if i < len(values) else f'CAST(NULL AS {t})'} AS {COLUMNS[t]}" for t, values in VALUES.items()]
        rows.append(f"SELECT {i} AS i, {', '.join(cells)}")
    return " UNION ALL ".join(rows)


class Rows:
    """The values of the table as the engine has them, and as Spark does."""

    def __init__(self, spark) -> None:
        self.spark = spark
        spark.sql(table()).coalesce(1).localCheckpoint().createOrReplaceTempView("arithmetic_values")
        self.months = {c for t, c in COLUMNS.items() if t.startswith("INTERVAL YEAR")}
        self.zone = spark.conf.get("spark.sql.session.timeZone")
        self.ansi = spark.conf.get("spark.sql.ansi.enabled") == "true"
        self.precision_loss = spark.conf.get("spark.sql.decimalOperations.allowPrecisionLoss") == "true"
        self.computed: dict[str, tuple[pa.Array, bool] | str] = {}
        self.pairs = spark.sql("SELECT struct(l.*) AS l, struct(r.*) AS r FROM arithmetic_values l CROSS JOIN arithmetic_values r ORDER BY l.i, r.i").coalesce(1).localCheckpoint()
        self.ones = spark.sql("SELECT * FROM arithmetic_values ORDER BY i").coalesce(1).localCheckpoint()
        self.count = self.ones.count()

    # -- Spark

    def evaluated(self, frame, texts: Iterable[str]) -> dict[str, tuple[str, list] | str]:
        """The type and the values of each expression: ERROR where one fails, (value,) otherwise; REFUSED where Spark refuses it."""
        from pyspark.sql.classic.column import Column
        from pyspark.sql.functions import expr

        jvm = self.spark._jvm
        catalyst = jvm.org.apache.spark.sql.catalyst.expressions
        found: dict[str, tuple[str, list] | str] = {}
        good: list[tuple[str, str]] = []
        columns = []
        for text in texts:
            try:
                t = frame.select(expr(text)).schema[0].dataType.simpleString()
            except AnalysisException:
                found[text] = REFUSED
                continue
            shown = f"({text}) IS NULL" if t in ("variant", "string", "binary") or t.startswith(("array", "struct", "map")) else _as_months(text) if t.startswith("interval") and ("year" in t or "month" in t) else text
            tried = jvm.org.apache.spark.sql.classic.ExpressionUtils.expression(expr(f"struct(IF(l.i < 0, NULL, {shown}) AS v)")._jc)
            columns.append(Column(jvm.org.apache.spark.sql.classic.ExpressionUtils.column(catalyst.TryEval(tried))).alias(f"v{len(good)}"))
            good.append((text, t))
        for begin in range(0, len(good), 200):
            part = frame.select(*columns[begin : begin + 200]).toArrow()
            for (text, t), values in zip(good[begin : begin + 200], part.columns):
                values = values.combine_chunks()
                plain = _plain(values.field(0))
                found[text] = (t, [(v,) if there else ERROR for v, there in zip(plain, values.is_valid().to_pylist())])
        return found

    # -- the engine

    def _input(self, text: str) -> tuple[pa.Array, bool] | str:
        """The values of an expression over one row, and whether they are months; REFUSED where Spark refuses it."""
        if text not in self.computed:
            try:
                # a variant's parts are there also where it is NULL, which Arrow does not take
                frame = self.ones.selectExpr(f"{text if text != COLUMNS['VARIANT'] else f'coalesce({text}, parse_json(0))'} AS v")
            except AnalysisException:
                self.computed[text] = REFUSED
                return REFUSED
            t = frame.schema[0].dataType.simpleString()
            months = t.startswith("interval") and ("year" in t or "month" in t)
            self.computed[text] = ((self.ones.selectExpr(f"{_as_months(text)} AS v") if months else frame).toArrow().column(0).combine_chunks(), months)
        return self.computed[text]

    def given(self, text: str) -> tuple[str, list] | str | None:
        """The same of an expression in the condition of B over rows of A and B; None where Spark computes it."""
        clause = f"ORDER BY i MEASURES 1 AS one PATTERN (A B+) DEFINE B AS {text}"  # at no fixed distance
        plan = make_plan(parse_clause(clause), settings=Settings(ansi=self.ansi, zone=self.zone))
        trees = [tree for condition in plan.conditions for tree in condition.trees]
        if plan.ordered_inputs or not trees or all(len(list(walk(tree))) == 1 for tree in trees):
            return None
        if len(trees) > 1:
            trees = [("call", "and", *trees)]
        names = [name for name, _ in plan.inputs]
        values = {name: self._input(sql) for name, sql in plan.inputs}
        if REFUSED in values.values():
            return REFUSED
        schema = pa.schema([pa.field(name, values[name][0].type) for name in names])
        compiler = ConditionCompiler(plan.variables, schema, self.ansi, True, self.zone, tuple(n for n in names if values[n][1]), precision_loss=self.precision_loss)
        try:
            t = compiler.emit(trees[0])
        except ClauseError:
            return REFUSED
        return str(t), self._run(plan, compiler, t, {n: v[0] for n, v in values.items()})

    def _run(self, plan, compiler: ConditionCompiler, t: Type, columns: dict[str, pa.Array]) -> list:
        compiler.op("RETURN")
        stack = len(compiler.code) + 8
        compiler.add_zone()
        rows = 2 * self.count  # those of A, then those of B
        data = _data(compiler, {name: pa.concat_arrays([values, values]) for name, values in columns.items()}, rows, plan.variables)
        (ints, inull, arrays, codes, code), flts, fnull = data
        slots = np.array(list(compiler.slots), dtype=np.int64).reshape(-1, 6)
        hi, hf = np.zeros((rows, len(slots)), dtype=np.int64), np.zeros((rows, len(slots)))
        labels = np.zeros(rows, dtype=np.uint8)
        si, sf, sn = np.zeros(2 * stack, dtype=np.int64), np.zeros(stack), np.zeros(stack, dtype=np.uint8)
        floats = np.array(compiler.floats or [0.0])
        lettered = np.full(rows, 3, dtype=np.int64)
        a, b = plan.variables.index("A"), plan.variables.index("B")

        def scan(variable: int, entry: int, row: int, prior: int, begin: int) -> int:
            return vm.scan(
                vm.MAP, variable, variable, entry, 1, row, prior, 0, rows, rows, begin, 1, lettered, code, floats, slots, hi, hf, labels, codes,
                ints, flts, inull, fnull, *arrays, si, sf, sn,
            )[1]

        def value() -> object:
            if sn[0]:
                return (None,)
            if t.is_float:
                return (_float(sf[0]),)
            if t.is_ranked or t.kind == "opaque":
                return (True,)
            return (_whole(si[0], si[stack]) if t.is_wide else int(si[0]),)

        found = []
        for first in range(self.count):
            scan(a, -1, first, first - 1, first)
            found += [ERROR if scan(b, 0, self.count + second, first, first) < 0 else value() for second in range(self.count)]
        return found


def _whole(low: int, high: int) -> int:
    return int(low) % (1 << 64) + (int(high) << 64)


def _data(compiler: ConditionCompiler, columns: dict[str, pa.Array], rows: int, names: tuple[str, ...]):
    class Conditions:
        int_columns, float_columns, pairs = tuple(compiler.ints), tuple(compiler.flts), tuple(compiler.pairs)
        ranked, strings, string_patches, classifier_read = tuple(compiler.ranked.items()), tuple(compiler.strings), tuple(compiler.patches), False
        code = np.array(compiler.code, dtype=np.int64).reshape(-1, 5)

    class Planned:
        plan = type("Plan", (), {"variables": names})
        conditions = Conditions

    flts = np.empty((len(compiler.flts), rows))
    fnull = np.empty((len(compiler.flts), rows), dtype=np.uint8)
    for i, (name, part) in enumerate(compiler.flts):
        values = columns[name].cast(pa.float64()) if part else columns[name]
        flts[i], fnull[i] = predicates.words(values), predicates.null_marks(values)
    return predicates._int_columns(Planned, SimpleNamespace(columns=columns), rows, np.zeros(0, dtype=np.int64)), flts, fnull


def _float(x: float) -> object:
    return "NaN" if math.isnan(x) else float(x)


def _plain(values: pa.Array) -> list:
    """Spark's values as the engine's words."""
    t = values.type
    if pa.types.is_decimal(t):
        return [_whole(low, high) if there else None for low, high, there in zip(*decimal_words(values), values.is_valid().to_pylist())]
    if pa.types.is_floating(t):
        return [None if v is None else _float(v) for v in values.to_pylist()]
    if pa.types.is_timestamp(t) or pa.types.is_duration(t):
        return values.view(pa.int64()).to_pylist()
    if pa.types.is_date(t):
        return values.cast(pa.int32()).to_pylist()
    if pa.types.is_boolean(t):
        return [None if v is None else int(v) for v in values.to_pylist()]
    return values.to_pylist() if pa.types.is_integer(t) else [None if v is None else True for v in values.to_pylist()]


def type_name(t: str) -> str:
    """Spark's name of a type as the engine has it."""
    return "interval" if t.startswith("interval") and "year" not in t and "month" not in t else "interval year to month" if t.startswith("interval") else t


def _near(a: object, b: object) -> bool:
    """Whether two results are one but for the last bits of a DOUBLE."""
    return a == b or (isinstance(a, tuple) and isinstance(b, tuple) and isinstance(a[0], float) and isinstance(b[0], float) and math.isclose(a[0], b[0], rel_tol=1e-15))


def difference(ours: tuple[str, list] | str | None, sparks: tuple[str, list] | str, nearly: bool = False) -> str:
    """What of two results differs; empty for nothing. ``nearly``: the last bits of a DOUBLE may differ."""
    if ours is None or REFUSED in (ours, sparks):
        return "" if ours is None or ours == sparks else f"{'refused' if ours == REFUSED else ours[0]} where Spark has {'a refusal' if sparks == REFUSED else sparks[0]}"
    if sparks[0] in ("variant", "string", "binary") or sparks[0].startswith(("array", "struct", "map")):
        # such values are ranks in the engine
        ours = ours[0], [v if v == ERROR else (int(v == (None,)),) for v in ours[1]]
    elif ours[0] not in ("null", type_name(sparks[0])):
        return f"type {ours[0]} where Spark has {sparks[0]}"
    wrong = [(i, a, b) for i, (a, b) in enumerate(zip(ours[1], sparks[1], strict=True)) if not (_near(a, b) if nearly else a == b)]
    return f"{len(wrong)} of {len(ours[1])} values, such as number {wrong[0][0]}: {wrong[0][1]} where Spark has {wrong[0][2]}" if wrong else ""
