"""Texts of a plan without what sparkcep/plan/split/fallible.py puts around expressions that may fail, for tests in which none
fails."""

from __future__ import annotations

import re
from dataclasses import replace

from sparkcep.plan.plan import Plan
from sparkcep.plan.split.fallible import unshielded

_BEGIN = re.compile(r"CASE WHEN (?:(?:NOT )?\((?:(?!CASE WHEN).)*?\) (?:AND|OR) )?try_add\(")
_TOKEN = re.compile(r"'(?:[^'\\]|\\.|'')*'|`[^`]*`|\bCASE\b|\bEND\b|[()]")
_AGAIN = re.compile(r"CASE WHEN size\(__l\d+\) = 0 THEN (__l\d+) WHEN size\(array_repeat\(.*?, 1\)\) = 1 THEN NULL END")


def without_catching(plan: Plan) -> Plan:
    """The plan whose expressions do not catch errors: sqlite has none, and not the functions of Spark's that catch them."""

    def plain(items):
        return tuple(item._replace(text=plainly(item.text)) for item in items)

    return replace(
        plan, inputs=plain(plan.inputs), ordered_inputs=plain(plan.ordered_inputs), letters=plain(plan.letters), outputs=plain(plan.outputs), arrays=plain(plan.arrays),
        prefilter=tuple(map(plainly, plan.prefilter)), candidates=plain(plan.candidates), aggregates=plain(plan.aggregates),
    )


def plainly(text: str) -> str:
    """``text`` with each guarded value as the expression, and with NULL for each mark of a failure."""
    text = _AGAIN.sub(r"\1", text)
    while begin := _BEGIN.search(text):
        close = _close(text, begin.end(), "(", ")")
        then = re.compile(r" IS (NOT )?NULL THEN ").match(text, close)
        end = _close(text, then.end(), "CASE", "END")
        inside = text[then.end() : end - len("END")].strip() if then[1] else "NULL"
        text = text[: begin.start()] + inside + text[end:]
    return unshielded(text)


def _close(text: str, at: int, opening: str, closing: str) -> int:
    """The offset after the token that closes what was opened before ``at``."""
    depth = 1
    for token in _TOKEN.finditer(text, at):
        depth += (token[0] == opening) - (token[0] == closing)
        if not depth:
            return token.end()
    raise ValueError(text)
