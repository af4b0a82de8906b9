"""Interpreted kernels compute as compiled ones: each operator, function and aggregate of conditions, over the ends of all types.

The machine of conditions runs twice over the same rows, compiled and interpreted. After each row the value on its stack and the
slots of the match so far are compared, bit by bit. The clauses that are compiled ahead, one for each way through the engines, and
the whole case corpus give equal rows.
"""

from __future__ import annotations

import ast
import builtins
import contextlib
import functools
import importlib
import inspect
import itertools
import math
import os
import pkgutil
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from datetime import timedelta
from decimal import Context, Decimal
from pathlib import Path
from types import ModuleType

import numpy as np
import pyarrow as pa
import pytest

import sparkcep.engine
import sparkcep.kernels
from sparkcep.clause.parser import parse_clause
from sparkcep.engine.core.chunk import Chunk
from sparkcep.engine.core.predicates import kernel_data
from sparkcep.engine.factory import prepare
from sparkcep.errors import ClauseError
from sparkcep.kernels.jit import fallback, fallback_arithmetic
from sparkcep.kernels.jit.cache import kernel
from sparkcep.kernels.vm.vm import MAP, scan
from sparkcep.plan.build import make_plan
from sparkcep.plan.split.conditions import MATH_CALLS
from sparkcep.settings import Settings
from tests.selection import first
from tests.unit.kernels.test_kernel_cache import answers, kernel_files

PARTS = 240  # of all expressions; the default run takes one


def decimals(precision: int, scale: int) -> list[Decimal | None]:
    exact = Context(prec=precision)
    most = 10**precision - 1
    return [Decimal(whole).scaleb(-scale, exact) for whole in (most, -most, 0, -1, 15, most // 2)] + [None]


def integers(bits: int) -> list[int | None]:
    return [-(1 << bits - 1), (1 << bits - 1) - 1, 0, -1, 7, None]


DOUBLES = [math.nan, math.inf, -math.inf, -0.0, 0.0, 1.7976931348623157e308, -5e-324, 1000.0, -1.5, None]
ENDS = {
    "boolean": (pa.bool_(), [True, False, None]),
    "tinyint": (pa.int8(), integers(8)),
    "smallint": (pa.int16(), integers(16)),
    "int": (pa.int32(), integers(32)),
    "bigint": (pa.int64(), integers(64)),
    "float": (pa.float32(), [math.nan, math.inf, -math.inf, -0.0, 0.0, 3.4028234663852886e38, -1e-45, 1000.0, -1.5, None]),
    "double": (pa.float64(), DOUBLES),
    "decimal(5,2)": (pa.decimal128(5, 2), decimals(5, 2)),
    "decimal(18,0)": (pa.decimal128(18, 0), decimals(18, 0)),
    "decimal(18,18)": (pa.decimal128(18, 18), decimals(18, 18)),
    "decimal(19,4)": (pa.decimal128(19, 4), decimals(19, 4)),
    "decimal(38,0)": (pa.decimal128(38, 0), decimals(38, 0)),
    "decimal(38,10)": (pa.decimal128(38, 10), decimals(38, 10)),
    "decimal(38,38)": (pa.decimal128(38, 38), decimals(38, 38)),
    "date": (pa.date32(), [-(2**31), 2**31 - 1, 0, -1, 19000, None]),
    "timestamp": (pa.timestamp("us", "UTC"), integers(64)),
    "timestamp_ntz": (pa.timestamp("us"), integers(64)),
    "interval": (pa.duration("us"), [*integers(64), timedelta(days=1)]),
    "string": (pa.string(), ["", "a", "A", "\uffff", "a ", None]),
    "binary": (pa.binary(), [b"", b"\x00", b"\xff", b"a", None]),
}

UNARY = [
    "max(A.x)", "-max(A.x)", "abs(max(A.x))", "sign(max(A.x))", "sqrt(max(A.x))", "exp(max(A.x))", "ln(max(A.x))", "log(max(A.x))", "log10(max(A.x))",
    *(f"{name}(max(A.x))" for name in MATH_CALLS), "round(max(A.x))", "round(max(A.x), 2)", "round(max(A.x), 30)", "floor(max(A.x))", "ceil(max(A.x))",
    "isnan(max(A.x))", "max(A.x) IS NULL", "NOT max(A.x)", "max(A.x) IS TRUE", "max(A.x) IS FALSE",
    *(f"{cast}(max(A.x) AS {to})" for cast in ("CAST", "TRY_CAST") for to in (
        "TINYINT", "SMALLINT", "INT", "BIGINT", "FLOAT", "DOUBLE", "DECIMAL(5, 2)", "DECIMAL(18, 9)", "DECIMAL(38, 18)", "DECIMAL(38, 38)")),
]  # fmt: skip
BINARY = [
    *(f"max(A.x) {op} z" for op in ("+", "-", "*", "/", "%", "DIV", "=", "<>", "<", "<=", ">", ">=", "<=>")),
    *(f"{name}(max(A.x), z)" for name in ("pmod", "pow", "atan2", "hypot", "greatest", "least", "coalesce", "datediff")),
    "z - max(A.x)", "if(z > max(A.x), z, max(A.x))", "max(A.x) IN (z, max(A.z))", "z BETWEEN max(A.x) AND max(A.z)", "max(A.x) = z AND z < max(A.z)",
    "max(A.x) = z OR z < max(A.z)",
]  # fmt: skip
AGGREGATES = [
    *(f"{name}({of}x)" for of in ("", "B.") for name in
      "count sum avg min max stddev stddev_samp stddev_pop variance var_samp var_pop bool_and bool_or".split()),
    *(f"{name}(DISTINCT x)" for name in ("count", "sum", "avg", "stddev", "var_pop")), *(f"{name}(x) FILTER (WHERE f)" for name in ("count", "sum", "avg", "min", "stddev")),
    "max_by(x, z)", "min_by(z, x)", "max_by(B.z, B.x)", "LAST(x, 1)", "FIRST(x, 1)", "LAST(B.x, 1)", "FIRST(B.x, 2)", "PREV(LAST(x), 1)", "NEXT(FIRST(B.x), 2)",
    "sum(x) + sum(z)", "avg(x) - min(z)", "max(x) - LAST(x, 1)", "PRIOR(sum(B.x))", "PRIOR(max(B.x)) <=> x", "MATCH_NUMBER()", "count(*)",
    "CLASSIFIER(B)", "LAST(CLASSIFIER(), 1)", "sum(x) / count(x)", "avg(x) * 2",
]  # fmt: skip


def expressions() -> list[tuple[str, str, str]]:
    """(expression, type of x, type of z): functions over each type, operators over each pair, aggregates over each type."""
    found = [(text, kind, kind) for kind in ENDS for text in UNARY + AGGREGATES]
    return found + [(text, x, z) for x in ENDS for z in ENDS for text in BINARY]


@kernel
def evaluated(entry, rows, conditions, hi, hf, labels, si, sf, sn, words, values, marks):
    """Takes the first row of each partition for A and the others for B, and writes what the machine has beside a NULL after each:
    ``words`` int64 (rows, 2), ``values`` float64 (rows), ``marks`` int64 (rows, 2): NULL, error."""
    up = si.shape[0] // 2
    for part in range(rows.offsets.shape[0] - 1):
        low = rows.offsets[part]
        high = rows.offsets[part + 1]
        for q in range(low, high):
            variable = np.int64(0) if q == low else np.int64(1)
            si[:] = 0
            sf[:] = 0.0
            sn[:] = 0
            _, bad = scan(
                MAP, variable, variable, entry[variable], 1, q, q - 1, low, high, high, low, 1, rows.letters, conditions.code, conditions.floats,
                conditions.slots, hi, hf, labels, conditions.label_codes, rows.ints, rows.flts, rows.inull, rows.fnull, rows.pair_starts, rows.pair_ints,
                rows.pair_flts, rows.pair_null, si, sf, sn,
            )
            words[q, 0], words[q, 1], values[q], marks[q, 0], marks[q, 1] = si[1], si[up + 1], sf[1], sn[1], bad
            if bad < 0:
                break


def inputs(plan, table: dict[str, pa.Array]) -> pa.Table | None:
    """The columns that the plan wants, if these are all columns of the table."""
    wanted = {name: sql.rpartition(".")[2].strip("`") for name, sql in plan.inputs}
    if plan.letters or plan.ordered_inputs or not set(wanted.values()) <= set(table):
        return None
    return pa.table({name: table[column] for name, column in wanted.items()})


def rows_of(kind: str, other: str, pairs: bool) -> dict[str, pa.Array]:
    """Partitions of two rows for each pair of ends, or a few of all ends in different orders."""
    (x_type, x_ends), (z_type, z_ends) = ENDS[kind], ENDS[other]
    if pairs:
        lines = [(part, t, x, z) for part, (x, z) in enumerate(itertools.product(x_ends, z_ends)) for t in range(2)]
    else:
        orders = [list(range(len(x_ends)))[::step] * 2 for step in (1, -1)] + [[at] * 3 for at in range(len(x_ends))]
        orders += [[at, other, at] for at in range(len(x_ends)) for other in range(len(x_ends))]
        lines = [(part, t, x_ends[at], z_ends[(at * 2 + 1) % len(z_ends)]) for part, order in enumerate(orders) for t, at in enumerate(order)]
    k, t, x, z = zip(*lines, strict=True)
    f = [bool((i * 5 + 1) % 3) for i in range(len(lines))]
    return {"k": pa.array(k, pa.int64()), "t": pa.array(t, pa.int64()), "x": pa.array(x, x_type), "z": pa.array(z, z_type), "f": pa.array(f)}


def both(text: str, kind: str, other: str, ansi: bool):
    """What compiled and interpreted kernels leave: None where Spark computes the expression or its types are refused."""
    clause = f"PARTITION BY k ORDER BY t MEASURES FIRST(t) AS o PATTERN (A B+) DEFINE B AS (NULL <=> ({text}))"
    try:
        plan = make_plan(parse_clause(clause), settings=Settings(ansi=ansi))
        table = inputs(plan, rows_of(kind, other, text in BINARY or text in UNARY))
        if table is None:
            return None
        prepared = prepare(plan, table.schema)
    except ClauseError:
        return None
    c = prepared.conditions
    if c.entry[1] < 0:
        return None
    keys = table[plan.keys[0]].to_numpy()
    offsets = np.flatnonzero(np.concatenate([[True], keys[1:] != keys[:-1], [True]])).astype(np.int64)
    data = kernel_data(prepared, Chunk.whole(table, table.column_names, offsets))
    found = []
    for run in (evaluated, lambda *args: fallback.call(evaluated, *args)):
        n, slots, stack = table.num_rows, max(len(c.slots), 1), max(c.stack, 8)
        left = {
            "hi": np.zeros((n, slots), dtype=np.int64), "hf": np.zeros((n, slots)), "labels": np.zeros(n + 1, dtype=np.uint8),
            "si": np.zeros(2 * stack, dtype=np.int64), "sf": np.zeros(stack), "sn": np.zeros(stack, dtype=np.uint8),
            "words": np.zeros((n, 2), dtype=np.int64), "values": np.zeros(n), "marks": np.zeros((n, 2), dtype=np.int64),
        }  # fmt: skip
        run(c.entry, data.rows, data.conditions, *left.values())
        found.append(left)
    return found


def same_bits(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Where arrays are equal: of floating numbers each bit, but a NaN is a NaN."""
    if a.dtype == np.float64:
        return (a.view(np.int64) == b.view(np.int64)) | (np.isnan(a) & np.isnan(b))
    return a == b


def differences(some) -> tuple[int, list]:
    compared, wrong = 0, []
    for text, kind, other in some:
        for ansi in (True, False):
            found = both(text, kind, other, ansi)
            if found is None:
                continue
            compared += 1
            for name in found[0]:
                there, here = (run[name] for run in found)
                equal = same_bits(there, here)
                if not equal.all():
                    at = tuple(int(i[0]) for i in np.nonzero(~equal))
                    wrong.append((text, kind, other, ansi, name, at, there[at], here[at]))
                    break
    return compared, wrong


@pytest.mark.parametrize("part", first(range(PARTS), wider=3))
def test_expressions_over_the_ends_of_types(part):
    compared, wrong = differences(expressions()[part::PARTS])
    assert wrong == []
    assert compared > 15


def test_kernels_call_what_has_a_twin():
    """Each builtin and each function of math and numpy in a kernel's source is one that
    :mod:`sparkcep.kernels.jit.fallback_arithmetic` has."""
    called, kernels = set(), 0
    for package in (sparkcep.kernels, sparkcep.engine):
        for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            for value in vars(importlib.import_module(module.name)).values():
                if getattr(getattr(value, "py_func", None), "__module__", "") != module.name:
                    continue
                kernels += 1
                for node in ast.walk(ast.parse(textwrap.dedent(inspect.getsource(value.py_func)))):
                    if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in ("math", "np"):
                        called.add((node.value.id, node.attr))
                called |= {(None, name) for name in value.py_func.__code__.co_names if hasattr(builtins, name) and name not in value.py_func.__globals__}
    # attributes of arrays and records may be called as a builtin function is
    missing = {name for name in called if name[0] is None and name[1] not in fallback_arithmetic.BUILTINS and name[1] not in ("next", "type", "open", "id", "map")}
    missing |= {(module, name) for module, name in called if module and not hasattr(fallback_arithmetic.MODULES[module], name)}
    assert kernels > 300 and len(called) > 25
    assert missing == set()


class Interpreted:
    """A module whose kernels are interpreted."""

    def __init__(self, module: ModuleType, called: set[str]) -> None:
        self.module, self.called = module, called

    def __getattr__(self, name: str):
        return twin(getattr(self.module, name), self.called)


def twin(value, called: set[str]):
    if not (hasattr(value, "py_func") and hasattr(value, "_compile_for_args")):
        return value

    @functools.wraps(value.py_func)
    def interpreted_kernel(*args):
        called.add(value.py_func.__qualname__)
        return fallback.call(value, *args)

    interpreted_kernel.py_func = value.py_func  # by which a twin that calls it finds its own twin
    return interpreted_kernel


@contextlib.contextmanager
def all_interpreted() -> Iterator[set[str]]:
    """Inside, engines call no compiled kernel. Gives the names of those that they call."""
    called: set[str] = set()
    with pytest.MonkeyPatch.context() as patch:
        for found in pkgutil.walk_packages(sparkcep.engine.__path__, "sparkcep.engine."):
            module = importlib.import_module(found.name)
            for name, value in list(vars(module).items()):
                if isinstance(value, ModuleType) and value.__name__.startswith("sparkcep.kernels."):
                    patch.setattr(module, name, Interpreted(value, called))
                elif twin(value, called) is not value:
                    patch.setattr(module, name, twin(value, called))
        yield called


@pytest.mark.further
def test_clauses_of_all_engines():
    with all_interpreted() as called:
        here = list(answers())
    assert len(called) > 20
    assert here == list(answers())


@pytest.mark.slow
def test_the_case_corpus(tmp_path):
    """All cases that start a job give what they say they give; and no kernel is compiled for that."""
    root = Path(__file__).resolve().parents[3]
    environment = os.environ | {"SPARKCEP_INTERPRET": "always", "SPARKCEP_CACHE_DIR": str(tmp_path)}
    command = [sys.executable, "-m", "pytest", "-n", "0", "-m", "", "-p", "no:cacheprovider", "tests/cases/test_sql_cases.py"]
    done = subprocess.run(command, cwd=root, env=environment, capture_output=True, text=True, timeout=7200)
    assert done.returncode == 0, done.stdout[-5000:]
    assert kernel_files(tmp_path) == []
