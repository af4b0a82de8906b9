"""Checks that a clause over a stream may resume from a checkpoint: compares its statement with the one next to the state.

``spark/session/rewrite_service`` calls the checks for the JVM operator, and ``stream/frames`` for programs of DataFrames.
"""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import Any

from sparkcep.compiler.stream_rules import ALL_NEEDED, NEEDED, different
from sparkcep.errors import UNSUPPORTED
from sparkcep.plan.plan import Plan
from sparkcep.plan.prune import pruning
from sparkcep.spark.stream.progress import OPERATOR_NAME
from sparkcep.spark.stream.start_checks import TABLES, wrong
from sparkcep.version import __version__

_FORMATS = {1: "0.1.0 before its release", 2: "0.1.0"}  # state format -> the versions that read and write it
STATE_FORMAT = max(_FORMATS)  # this version's format, as in StreamStatement.java
FRAME_OPERATORS = "applyInPandasWithState", "transformWithStateInPandasExec"  # of DataFrame programs


def check_restarted(asked: dict[str, Any]) -> None:
    """Raises ClauseError if the statements ``now``, one per clause of a query, cannot resume from the operators' states ``before``.

    StreamStart.java gives the name of each operator, and the file and text of its statement.
    """
    statements = [json.loads(text) for text in asked["now"]]
    plan = Plan.from_json(statements[0]["plan"])
    before = [_kept_statement(plan, one) for one in asked["before"] if one["text"] is not None or one["operator"] == OPERATOR_NAME]
    if not before and any(one["operator"] in FRAME_OPERATORS for one in asked["before"]):
        raise wrong(plan, _BY_FRAMES, UNSUPPORTED)
    check_times(len(before), statements)
    for one, other in zip(before, statements, strict=True):
        check_changed(one, other)


_PARTS = re.compile(r"'(?:[^'\\]|\\.)*'|`[^`]*`|[()]| AND ")  # of a condition as Spark prints it: texts, names, and what splits it

_BY_FRAMES = (
    "the checkpoint is of a query whose clauses ran as DataFrame programs (applyInPandasWithState or transformWithStateInPandas). Now they use the operator of the JVM extension. "
    "Run the query as before (SET sparkcep.stream.route = frames), or begin with a new checkpoint"
)


def _kept_statement(plan: Plan, kept: dict[str, Any]) -> dict[str, Any]:
    """Returns the statement of a state. Raises ClauseError if its file is missing or damaged."""
    if kept["text"] is None:
        raise wrong(plan, f"the checkpoint is damaged: {kept['file']}, the statement of its state, is missing. Restore the checkpoint", UNSUPPORTED)
    try:
        statement = json.loads(kept["text"])
        json.loads(statement["plan"])
    except (ValueError, TypeError, KeyError):
        raise wrong(plan, f"the checkpoint is damaged: {kept['file']} is not a complete statement. Restore the checkpoint", UNSUPPORTED) from None
    return statement


def check_times(before: int, statements: list[dict[str, Any]]) -> None:
    """Raises ClauseError if the checkpoint's query had another number of clauses, ``before``, than there are ``statements``."""
    plan = Plan.from_json(statements[0]["plan"])
    if not before:
        raise wrong(plan, "the checkpoint is of a query without a clause (it does not contain a statement). Begin with a new checkpoint", UNSUPPORTED)
    if before != len(statements):
        raise wrong(
            plan, f"the checkpoint is of another query, which has {_number(before)}; this query has {_number(len(statements))}. Begin with a new checkpoint, or run "
            "the query as before", UNSUPPORTED,
        )


def _number(clauses: int) -> str:
    return "one clause" if clauses == 1 else f"{clauses} clauses"


def check_changed(before: dict[str, Any], now: dict[str, Any]) -> None:
    """Raises ClauseError if a statement cannot resume from the state of the statement before.

    Both statements have these items:

    - ``format``: the format of the state.
    - ``plan``: the plan as JSON.
    - ``texts``: the expressions that Spark computes per row, as JSON.
    - ``columns``: the columns of rows with their types.
    - ``tables``: the columns of the tables that are read in addition.
    - ``where``: the keys that are wanted.
    - ``buckets``: the number of key buckets; only in programs of DataFrames.
    """
    plan = Plan.from_json(now["plan"])
    made_by = json.loads(before["plan"]).get("made_by", "an unknown version")
    if (kept := before.get("format", 1)) != now["format"]:
        version = f"sparkcep {_FORMATS[kept]}" if kept in _FORMATS else made_by
        raise wrong(
            plan, f"the checkpoint's state is of format {kept}, which {version} reads and writes; this version, {__version__}, "
            f"reads format {now['format']}, of sparkcep {_FORMATS[now['format']]}. Begin with a new checkpoint, or continue with that version", UNSUPPORTED,
        )
    if before.get("buckets") != now.get("buckets"):
        raise wrong(
            plan, f"the checkpoint has {before['buckets']} buckets of keys, but sparkcep.stream.buckets is {now['buckets']}. Set it to {before['buckets']}, or begin with a new checkpoint",
            UNSUPPORTED,
        )
    texts_before = json.loads(before["texts"])
    if "buckets" in before:
        texts_before.setdefault(NEEDED, _needed_before(plan))
    found = different(json.loads(before["plan"]), json.loads(now["plan"]), texts_before, json.loads(now["texts"]))
    if _about_keys(before["where"]) != _about_keys(now["where"]):
        found.append("the keys that WHERE above the clause selects")
    if not found and before["columns"] != now["columns"]:
        found = ["the columns that are saved for each row"]
    if before.get("tables", {}) != now.get("tables", {}):
        found += [f"the columns of {TABLES[name]}" for name in now["tables"] if now["tables"][name] != before.get("tables", {}).get(name)]
    if found:
        differ = "differ" if len(found) > 1 or found[0].startswith(("values ", "the columns ", "the keys ", "the rows ")) else "differs"
        raise wrong(
            plan, f"this statement cannot resume from the checkpoint: {made_by} wrote it for another statement ({', '.join(found)} {differ}). Begin with a new checkpoint, or "
            "run the statement as before", UNSUPPORTED,
        )


def _about_keys(where: str) -> set[str]:
    """Returns the parts of a condition above the clause. Spark may have combined them with the condition of needed rows."""
    return {part for part in _conjuncts(where) if part not in ("", NEEDED, f"{NEEDED} IS NOT NULL")}


def _conjuncts(condition: str) -> list[str]:
    """Returns the parts that AND combines, without the parentheses around them."""
    parts, begin, depth, closed = [], 0, 0, 0
    for token in _PARTS.finditer(condition):
        depth += (token[0] == "(") - (token[0] == ")")
        if not depth and token[0] == " AND ":
            parts.append(condition[begin : token.start()])
            begin = token.end()
        elif not depth and token[0] == ")":
            closed = closed or token.end()
    if parts:
        return [one for part in (*parts, condition[begin:]) for one in _conjuncts(part)]
    return _conjuncts(condition[1:-1]) if condition.startswith("(") and closed == len(condition) else [condition]


def _needed_before(plan: Plan) -> str:
    """Returns the condition that an older version did not store for a program of DataFrames: "" if it may have dropped rows."""
    plan = replace(plan, leaves=tuple(leaf for leaf in plan.leaves if leaf.spec.kind not in ("nav", "cls")))
    return "" if pruning.ignorable(plan) and pruning.prefilter(plan) else ALL_NEEDED
