"""``python -m tests.property.plan.made_up_plans [--plans N] [--each N] [--seed TEXT] [--compiled]``: plans that somebody made up.

Plans of the case corpus, and of the generators of the other property tests, are changed in one place each and run over a few rows.
An error of ours is right, and so are rows; another exception, an index outside an array and a run that does not end are faults.
Kernels are interpreted, where numpy checks every index. ``--compiled`` takes compiled ones, which are to have NUMBA_BOUNDSCHECK=1
and a cache of their own.
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import json
import os
import random
import re
import signal
import sys
import time
import traceback
import typing
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from types import NoneType, UnionType

import numpy as np
import pyarrow as pa
import pytest

from sparkcep.clause.parser import parse_clause
from sparkcep.engine.factory import engine_for, match_batches, prepare
from sparkcep.errors import ClauseError, MatchRuntimeError
from sparkcep.kernels.jit.cache import KEY
from sparkcep.plan import json as plan_json
from sparkcep.plan import limits, records
from sparkcep.plan.build import make_plan
from sparkcep.plan.plan import LETTERS, Plan
from sparkcep.sql.rewrite.rewrite import rewrite
from tests.cases.sql_case_files import read_case_file
from tests.property.kernels.test_interpreted import all_interpreted
from tests.property.stream import statements, stream_cases, test_stream_changes, top_k
from tests.support.caught import without_catching

CASES = Path(__file__).parents[2] / "cases"
SECONDS = 600 if os.environ.get("NUMBA_BOUNDSCHECK") == "1" else 60  # of processor time for a run, which may compile kernels
ROWS = 14
BOUNDS = tuple(records.Bound(*bound) for bound in (("max_steps", 3_000), ("max_matches", 200), ("max_state_bytes", 1 << 24)))
OURS = (ClauseError, MatchRuntimeError)
TYPES = [pa.int64(), pa.string(), pa.timestamp("us", tz="UTC"), pa.float64(), pa.int32(), pa.date32(), pa.bool_(), pa.decimal128(12, 2), pa.duration("us"), pa.list_(pa.int64())]
HISTORY = pa.list_(pa.struct([
    ("pattern", pa.string()), ("place", pa.int32()), ("errors", pa.float64()), ("remaining", pa.int32()), ("idle", pa.int32()), ("visits", pa.int64()),
    ("points", pa.int64()), ("bundles", pa.list_(pa.int32())),
]))  # fmt: skip
OF_KIND = {"boolean": [pa.bool_()], "whole": [pa.int64(), pa.int32()], "list": [pa.list_(pa.int64()), pa.list_(pa.bool_()), pa.list_(pa.float64())], "history": [HISTORY]}
LINE = limits.Range(0, 1 << 31)
INFINITE = "@1e400"  # a number that JSON can say
Path_ = tuple[typing.Any, ...]


# -- plans ------------------------------------------------------------------------------------------------------------


def of_cases(files: list[Path] | None = None) -> Iterator[Plan]:
    """The plans of the case corpus, or of those files of it."""
    for path in sorted(CASES.glob("**/*.test")) if files is None else files:
        for case in read_case_file(path).cases:
            if case.read is None and not case.params:
                yield from planned(case.statements[-1])


def planned(statement: str) -> Iterator[Plan]:
    """The plans that the rewriter makes of a statement."""
    made: list[Plan] = []
    kept = Plan.to_json

    def written(plan: Plan) -> str:
        made.append(plan)
        return kept(plan)

    Plan.to_json = written
    try:
        with contextlib.suppress(ClauseError):
            rewrite(statement)
    finally:
        Plan.to_json = kept
    yield from made


def drawn(rng: random.Random) -> Plan:
    """A plan of a clause that another test's generator draws."""
    while True:
        make = rng.choice([
            statements.adjacent_rows, statements.event_selection, statements.told_at_once, statements.numbers_and_graphs, top_k.random_late, stream_cases._of_kinds,
            test_stream_changes.random_automaton, test_stream_changes.random_pattern,
        ])  # fmt: skip
        with contextlib.suppress(ClauseError):
            return without_catching(make_plan(parse_clause(make(rng)))).without_sql()


def shape(plan: Plan) -> str:
    """A text that two plans have in common if they differ in names, numbers and texts alone."""
    return re.sub(r"-?\d+|\"(?:[^\"\\]|\\.)*\"(?!:)", lambda found: found[0] if found[0].count("_") or len(found[0]) < 9 and found[0][0] == '"' else "0", plan.to_json())


# -- inputs -----------------------------------------------------------------------------------------------------------


def columns_of(plan: Plan) -> dict[str, str]:
    """The input columns that a plan names, by the kind that their type is to be of."""
    found: dict[str, str] = {}
    own = {records.register_column(i) for i in range(70)} | {records.parameter_column(i) for i in range(70)} | {records.letter_column(i) for i in range(70)}
    for name, column in plan_json.marked(limits.Column, plan):
        if name is not None and name not in column.also and not (column.own and name in own):
            found[name] = found.get(name) or column.kinds
    found |= {name: found.get(name, "") for name in (*(key.column for key in plan.order),)}
    return found


def fitting(plan: Plan, rng: random.Random, trials: int) -> pa.Schema | None:
    """A schema that the plan can be prepared for; None where none was found."""
    columns = columns_of(plan)
    types = {name: rng.choice(OF_KIND[kind]) if kind in OF_KIND else pa.int64() for name, kind in columns.items()}
    free = [name for name, kind in columns.items() if kind not in ("boolean", "history")]
    for _ in range(trials):
        schema = pa.schema([*types.items(), *([(LETTERS, pa.int64())] if plan.letters else [])])
        try:
            prepare(plan, schema)
            return schema
        except ClauseError as error:
            if not free or error.error_class not in ("SPARKCEP.DATATYPE_MISMATCH", "SPARKCEP.PREF", "SPARKCEP.WINDOW_SIZE", "SPARKCEP.SLIDE"):
                return None
        for name in rng.sample(free, min(len(free), rng.choice([1, 1, 2, 3]))):
            types[name] = rng.choice(OF_KIND.get(columns[name], TYPES))
    return None


def rows_of(plan: Plan, schema: pa.Schema, rng: random.Random) -> pa.Table:
    """Some rows in two partitions, most of them in order."""
    half = ROWS // 2
    part = [0] * half + [1] * (ROWS - half)
    numbers = {pair.number: pair for pair in pairs_of(plan)}
    lists = {pair.column: pair for pair in pairs_of(plan)}
    orders, out = {key.column for key in plan.order} | {window.order for window in plan.windows}, {}
    for field in schema:
        name, own = field.name, field.type
        if name == LETTERS:
            values = [sum(1 << letter.bit for letter in plan.letters if rng.random() < 0.7) for _ in part]
        elif name in plan.keys:
            values = [value(own, p, None) for p in part]
        elif name in numbers:
            values = [i % half + 1 for i in range(ROWS)]
        elif name in lists:
            pair = lists[name]
            ahead = max(0, *(row.physical for row in pair.rows))
            sizes = [min(i % half + 1 + ahead, half) + 1 for i in range(ROWS)]
            values = [[value(own.value_type, rng.randrange(4), None) for _ in range(size ** len(pair.rows))] for size in sizes]
        elif name in orders:
            steps = np.cumsum([rng.choice([0, 1, 1, 2]) for _ in part]).tolist() if rng.random() < 0.9 else [rng.randrange(9) for _ in part]
            values = [value(own, step, None) for step in steps]
        else:
            values = [None if rng.random() < 0.1 else value(own, rng.randrange(5), rng) for _ in part]
        out[name] = pa.array(values, own)
    return pa.table(out) if out else pa.table({"__row": pa.array([0] * ROWS)})


def pairs_of(plan: Plan) -> list[records.Pair]:
    return [part for condition in plan.conditions for tree in condition.trees for part in records.walk(tree) if isinstance(part, records.Pair)]


def value(kind: pa.DataType, number: int, rng: random.Random | None):
    if pa.types.is_boolean(kind):
        return number % 2 == 1
    if pa.types.is_string(kind):
        return rng.choice(["insert", None, "a", "b"]) if rng is not None else "abcdefghijklmnopqrstuvwxyz"[number % 26]
    if pa.types.is_list(kind):
        return None if pa.types.is_struct(kind.value_type) else [value(kind.value_type, number, rng)] * (number % 3)
    return number


# -- changes ----------------------------------------------------------------------------------------------------------


def places(hint, given, path: Path_ = (), around: tuple[dict, ...] = ()) -> Iterator[tuple[Path_, object, tuple[dict, ...]]]:
    """Each value of a plan's JSON by its path, with the hint of its field and the records around it, as ``checked.read`` goes."""
    origin, inner = typing.get_origin(hint), typing.get_args(hint)
    if origin is typing.Annotated:
        mark = inner[1]
        yield path, mark, around
        if isinstance(mark, limits.Tree):
            yield from places_of_tree(mark, given, path, around)
    elif origin in (UnionType, typing.Union):
        if given is not None:
            sorts = [sort for sort in inner if sort is not NoneType]
            yield from places(sorts[0] if len(sorts) == 1 else plan_json._of_kind(hint, given["kind"]), given, path, around)
    elif origin is tuple:
        yield path, list, around
        for i, item in enumerate(given):
            yield from places(inner[0], item, (*path, i), around)
    elif hasattr(hint, "_fields") or hasattr(hint, "__dataclass_fields__"):
        yield path, dict, around
        for name, own in plan_json._hints(hint).items():
            if name in given:  # defaults may be left out
                yield from places(own, given[name], (*path, name), (given, *around))
    else:
        yield path, hint, around


def places_of_tree(mark: limits.Tree, given, path: Path_, around: tuple[dict, ...]) -> Iterator[tuple[Path_, object, tuple[dict, ...]]]:
    if isinstance(given, dict):
        union = {"pattern": records.Repeat | records.Within, "condition": records.ConditionTree}[mark.sort]
        yield from places(plan_json._of_kind(union, given["kind"]), given, path, around)
        return
    yield path, list, around
    for i, part in enumerate(given):
        if isinstance(part, list | dict):
            yield from places_of_tree(mark, part, (*path, i), around)
        elif i and type(part) in (int, float):
            below = mark.leaves if mark.sort == "score" and given[0] == "leaf" else 1 << 53 if mark.sort == "score" else "variables"
            yield (*path, i), limits.Range(0, below), around


def numbers_for(mark: limits.Range, around: tuple[dict, ...]) -> list[object]:
    """The values that a number is set to."""
    below = plan_json._below(mark.below, around) if isinstance(mark.below, str) else mark.below
    return [*dict.fromkeys([-1, 0, 1, mark.low - 1, mark.low, below - 1, below, below + 1, 1 << 31, -(1 << 31), 1 << 63, -(1 << 63), (1 << 63) - 1, 62, 63, 64])] + [True, 1.5, "1", None, INFINITE]


TEXTS = ["1e999999999", "1e5", "", "-1", "0", "0.0", "1", "2", "1.5", ".5", "9" * 100, "9" * 101, "9" * 5000, "1/0", "1/3", "NaN", "Infinity", "٣", "4611686018427387904", "9223372036854775807",
         "-9223372036854775808", "-2147483648", "2147483648"]  # fmt: skip
SHAPES = [None, [], {}, "x", 0, -1, True, [[]], [None], {"kind": "lit"}, ["var", 0], ["empty"], ["call", "not", ["mno"]], {"kind": "agg", "function": "count", "mask": -1, "column": None, "keep": None, "distinct": False},
          {"kind": "isfirst", "mask": 1}, {"kind": "cls", "which": "F", "mask": -1, "logical": 0, "physical": 0}]  # fmt: skip


def changes_of(plan: Plan) -> Iterator[tuple[Path_, list[object]]]:
    """The places of a plan's numbers, texts and names, with what each is set to."""
    whole = json.loads(plan.to_json())
    columns = [*columns_of(plan), "no_such", "", LETTERS, "__r0", "__b0", "__k0", "cls", "__a_base"]
    for path, mark, around in places(Plan, whole):
        if mark == LINE:
            yield path, [-1, 1 << 31, True]
        elif isinstance(mark, limits.Range):
            yield path, numbers_for(mark, around)
        elif isinstance(mark, limits.Text):
            yield path, TEXTS
        elif isinstance(mark, limits.Column):
            yield path, columns
        elif mark is str:
            yield path, ["", "x", "mno", "UTC", "../../etc/passwd", "+99:99", TEXTS[0], "9" * 5000]
        elif typing.get_origin(mark) is typing.Literal:
            yield path, [*typing.get_args(mark), "", "x", 0, True]
        elif mark is bool:
            yield path, [True, False, 1, None]


def reshaped(whole: dict, rng: random.Random) -> tuple[str, str]:
    """A plan's JSON with a part that has another shape, and what was done."""
    found = [(path, mark) for path, mark, _ in places(Plan, whole) if path]
    path, _ = rng.choice(found)
    holder = at(whole, path[:-1])
    part = holder[path[-1]]
    how = rng.choice(["out", "twice", "swap", "shape", "deep", "long", "more", "elsewhere"])
    if how == "out":
        del holder[path[-1]]
    elif how == "twice" and isinstance(holder, dict):
        return json.dumps(whole).replace(f'"{path[-1]}":', f'"{path[-1]}": {json.dumps(rng.choice(SHAPES))}, "{path[-1]}":', 1), f"{how} {path}"
    elif how == "swap":
        holder[path[-1]] = json.loads(json.dumps(at(whole, rng.choice(found)[0])))
    elif how == "deep":
        depth = rng.choice([100, 240, 300, 2000])
        around = rng.choice([
            lambda inner: ["call", "not", inner], lambda inner: ["call", "+", inner, inner] if depth < 0 else ["call", "neg", inner], lambda inner: ["cat", inner], lambda inner: [inner],
            lambda inner: {"kind": "repeat", "item": inner, "low": 0, "high": None, "greedy": True}, lambda inner: {"kind": "prior", "mask": 1, "tree": inner},
            lambda inner: {"kind": "repeat", "item": inner, "low": 2, "high": 3, "greedy": True}, lambda inner: ["call", "+", {"kind": "lit", "type": "int", "text": "1"}, inner],
            lambda inner: ["call", "and", inner, inner] if depth < 0 else ["call", "and", ["call", "=", inner, inner] if depth < 0 else inner], lambda inner: ["permute", inner],
            lambda inner: ["neg", inner], lambda inner: {"kind": "checked", "tree": inner, "failed": ["mno"], "number": 0},
        ])  # fmt: skip
        for _ in range(depth):
            part = around(part)
        holder[path[-1]] = part
    elif how == "long" and isinstance(part, list):
        holder[path[-1]] = part * rng.choice([2, 70, 3000])
    elif how == "more" and isinstance(part, dict):
        part["more"] = 1
    elif how == "elsewhere":
        other = rng.choice(found)[0]
        at(whole, other[:-1])[other[-1]] = json.loads(json.dumps(part))
    else:
        holder[path[-1]] = rng.choice(SHAPES)
    return json.dumps(whole), f"{how} {path}"


def at(whole, path: Path_):
    for key in path:
        whole = whole[key]
    return whole


def text_of(whole: dict) -> str:
    return json.dumps(whole).replace(f'"{INFINITE}"', INFINITE[1:])


# -- runs -------------------------------------------------------------------------------------------------------------


class TooLong(BaseException):
    """A run did not end."""


def _alarm(*_):
    raise TooLong


@dataclass
class Tried:
    """A plan with an input that fits it."""

    plan: Plan
    schema: pa.Schema
    table: pa.Table

    @staticmethod
    def of(plan: Plan, rng: random.Random, trials: int = 300) -> Tried | None:
        plan = replace(plan, bounds=BOUNDS)
        schema = fitting(plan, rng, trials)
        return None if schema is None else Tried(plan, schema, rows_of(plan, schema, rng))

    def run(self, text: str) -> str:
        """The kind of what a changed plan gives: "rows", the class of an error of ours, or what is wrong."""
        signal.signal(signal.SIGVTALRM, _alarm)
        signal.setitimer(signal.ITIMER_VIRTUAL, SECONDS)
        try:
            plan = Plan.from_json(text)
            prepared = prepare(plan, self.table.schema)
            for _ in match_batches(engine_for(prepared), self.table.to_batches(max_chunksize=5)):
                pass
            return "rows"
        except OURS as error:
            return error.error_class
        except TooLong:
            return f"! does not end: {_where(sys.exc_info()[2])}"
        except Exception as error:
            return f"! {type(error).__name__}: {str(error)[:100]}: {_where(error.__traceback__)}"
        finally:
            signal.setitimer(signal.ITIMER_VIRTUAL, 0)


def _where(trace) -> str:
    return " < ".join(f"{Path(frame.filename).name}:{frame.lineno}" for frame in reversed(traceback.extract_tb(trace)[-4:]))


def corpus(seed: str, count: int | None = None, of_generators: int = 400) -> list[Plan]:
    """Plans of different shapes, the case corpus' and as many that generators draw."""
    rng = random.Random(f"made-up plans {seed}")
    found: dict[str, Plan] = {}
    for plan in of_cases():
        found.setdefault(shape(plan), plan)
    cases = list(found.values())
    for _ in range(of_generators):
        plan = drawn(rng)
        found.setdefault(shape(plan), plan)
    plans = [*cases, *list(found.values())[len(cases) :]]
    return plans if count is None else rng.sample(plans, min(count, len(plans)))


def sweep(plans: list[Plan], seed: str, *, each: int | None, structures: int, seconds: float = 1e9) -> tuple[collections.Counter, dict[str, list]]:
    """Counts what changed plans give, and collects what is wrong with examples. ``each``: how many values of how many places are
    tried of a plan; None: all."""
    counts: collections.Counter = collections.Counter()
    wrong: dict[str, list] = {}
    until = time.monotonic() + seconds
    for number, plan in enumerate(plans):
        rng = random.Random(f"{seed} {number}")
        tried = Tried.of(plan, rng)
        if tried is None:
            counts["without an input"] += 1
            continue
        if time.monotonic() > until:
            break
        whole = json.loads(tried.plan.to_json())
        before = tried.run(text_of(whole))
        counts["plans"] += 1
        if before.startswith("!"):
            wrong.setdefault(f"unchanged {before}", []).append(text_of(whole))
            continue
        changes = [(path, value) for path, values in changes_of(tried.plan) for value in values]
        if each is not None:
            changes = rng.sample(changes, min(each, len(changes)))
        for path, changed in changes:
            one = json.loads(json.dumps(whole))
            at(one, path[:-1])[path[-1]] = changed
            _count(tried, text_of(one), f"{path} = {changed!r}"[:200], counts, wrong)
        for _ in range(structures):
            with contextlib.suppress(RecursionError, IndexError, KeyError, TypeError):
                text, how = reshaped(json.loads(json.dumps(whole)), rng)
                _count(tried, text, how, counts, wrong)
    return counts, wrong


def _count(tried: Tried, text: str, how: str, counts: collections.Counter, wrong: dict[str, list]) -> None:
    found = tried.run(text)
    counts["changes"] += 1
    counts[found if not found.startswith("!") else "wrong"] += 1
    if found.startswith("!"):
        wrong.setdefault(found, []).append((how, text, str(tried.schema).split("\n")))


@contextlib.contextmanager
def interpreted_only() -> Iterator[None]:
    """Inside, no kernel is compiled or called as machine code, and no index that nobody wrote is inside an array by chance."""
    with pytest.MonkeyPatch.context() as patch, all_interpreted():
        patch.setenv(KEY, "always")
        patch.setattr(np, "empty", _poisoned)
        yield


def _poisoned(shape, dtype=float, **more) -> np.ndarray:
    """An array as ``np.empty`` makes it, full of numbers that are outside of each array."""
    made = _EMPTY(shape, dtype, **more)
    if made.dtype.kind in "iu":
        made.fill(np.iinfo(made.dtype).max // 3)
    elif made.dtype.kind == "f":
        made.fill(np.nan)
    return made


_EMPTY = np.empty


@contextlib.contextmanager
def compiled_only() -> Iterator[None]:
    """Inside, no call is interpreted while its kernel is compiled."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(KEY, "false")
        yield


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--plans", type=int)
    parser.add_argument("--seed", default="")
    parser.add_argument("--each", type=int)
    parser.add_argument("--structures", type=int, default=40)
    parser.add_argument("--generators", type=int, default=400)
    parser.add_argument("--share", default="0/1", help="one of so many parts of the plans")
    parser.add_argument("--seconds", type=float, default=1e9)
    parser.add_argument("--compiled", action="store_true")
    asked = parser.parse_args(arguments)
    if asked.compiled and os.environ.get("NUMBA_BOUNDSCHECK") != "1":
        parser.error("set NUMBA_BOUNDSCHECK=1 and SPARKCEP_CACHE_DIR to a folder of its own")
    part, parts = map(int, asked.share.split("/"))
    plans = corpus(asked.seed, asked.plans, asked.generators)[part::parts]
    with compiled_only() if asked.compiled else interpreted_only():
        counts, wrong = sweep(plans, asked.seed, each=asked.each, structures=asked.structures, seconds=asked.seconds)
    for kind, number in counts.most_common():
        print(f"{number:8d}  {kind}")
    print(f"{len(plans)} plans of different shapes")
    for what, examples in sorted(wrong.items(), key=lambda item: -len(item[1])):
        print(f"\n{len(examples):6d}  {what}")
        for example in examples[:3]:
            print("        ", example[0] if isinstance(example, tuple) else example[:3000])
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
