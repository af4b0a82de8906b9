"""Prints the trees of conditions as SQL. EXPLAIN AUTOMATON and the clauses of stored views use it."""

from __future__ import annotations

from collections.abc import Sequence

from sparkcep.plan.records import SUMS, TOTAL


def call_text(name: str, texts: Sequence[str]) -> str:
    """The text of an operator or function that the engine computes itself, given the texts of its operands."""
    name = "+" if name == TOTAL else name
    match name:
        case "if":
            branches = " ".join(f"WHEN {when} THEN {then}" for when, then in zip(texts[:-1:2], texts[1::2], strict=False))
            return f"CASE {branches} ELSE {texts[-1]} END"
        case "and" | "or":
            return "(" + f" {name.upper()} ".join(texts) + ")"
        case "not":
            return f"(NOT {texts[0]})"
        case "neg":
            return f"(- {texts[0]})"
        case "isnull":
            return f"({texts[0]} IS NULL)"
        case "istrue" | "isfalse":
            return f"({texts[0]} IS {name[2:].upper()})"
        case "in":
            return f"({texts[0]} IN ({', '.join(texts[1:])}))"
        case "cast" | "try_cast":
            return f"{name}({texts[0]} AS {texts[1]})"
        case _ if name == SUMS:
            total = " + ".join(f"coalesce({text}, 0)" for text in texts)
            return f"CASE WHEN coalesce({', '.join(texts)}) IS NULL THEN NULL ELSE {total} END"
    if len(texts) == 2 and (not name[0].isalpha() or name == "div"):
        return f"({texts[0]} {name} {texts[1]})"
    return f"{name}({', '.join(texts)})"


def literal_text(kind: str, text: str) -> str:
    """A literal of a tree."""
    if kind == "string":
        escaped = text.replace("\\", "\\\\").replace("'", "\\'")
        return f"'{escaped}'"
    if kind == "double":
        return f"{text}D"
    if kind == "date":
        return f"date_from_unix_date({text})"
    if kind == "days":
        return f"INTERVAL '{text}' DAY"
    return f"({text})" if text.startswith("-") else text
