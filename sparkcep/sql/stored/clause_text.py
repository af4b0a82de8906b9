"""Prints a clause from its plan.

A view stores the rewritten text of its statement, without the clause. :func:`clause_text` prints a clause with the meaning of the
plan: pattern, options and conditions. Its measures are left out. The caller plans the printed clause again and compares both plans
(:func:`same_search`), so a clause of another meaning is never used.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields
from itertools import accumulate, chain, count

from sparkcep.clause import nodes
from sparkcep.clause.expressions import Expr, render
from sparkcep.clause.parser import parse_clause
from sparkcep.clause.printer import STRATEGIES, skip_text, to_text, variable_text
from sparkcep.clause.tokens import Span, matching, tokenize
from sparkcep.errors import ClauseError
from sparkcep.plan.options import MICROS, NO_WINDOW, ROWS
from sparkcep.plan.plan import Plan
from sparkcep.plan.records import ALL_ROWS, Repeat, Window, Within
from sparkcep.plan.split.conditions import conjuncts
from sparkcep.plan.split.fallible import FAILS, spoken
from sparkcep.sql.trees import call_text, literal_text

_PATTERN = "PATTERN (A) DEFINE A AS "
_MANY = {"cat": nodes.Concat, "alt": nodes.Alternate, "and": nodes.Conjunct, "permute": nodes.Permute}
_ALONE = {"empty": nodes.Empty, "start": nodes.Start, "end": nodes.End}
_KEPT = re.compile(r"COALESCE\((.*), false\)", re.DOTALL)  # the column of a FILTER
_GUARD = re.compile(r"COALESCE\(CASE WHEN .*try_add\(", re.DOTALL)  # a condition over a row that may fail
_GUARDED = re.compile(r"CASE WHEN COALESCE\(.*, false\) THEN (.*) END", re.DOTALL)  # an argument beside a FILTER that may fail
_TIME = re.compile(r"CAST\(date_add\((.*), 0\) AS DATE\)|timestampadd\(MICROSECOND, 0, (.*)\)", re.DOTALL)  # an operand of datediff or timestampdiff
_COMPARISONS = ("=", "!=", "<", "<=", ">", ">=", "<=>")
_MEASURE = "MEASURES 1 AS __one"
# Parts of a plan that do not change which rows match.
_BESIDE = frozenset(
    """rows partition inputs leaves outputs places leaf_places failing arrays aggregates over_arrays prefilter bounds place slide ranking equal_keys candidates near
    slice words idle stepwise format made_by given months""".split()
)


class Unprintable(Exception):
    """A plan has a part that a clause cannot say. The argument names it."""


def clause_text(plan: Plan, texts: Mapping[str, str]) -> str:
    """A clause with the meaning of a plan.

    Args:
        plan: the plan.
        texts: the SQL text of each input column; of a bit of the letters under ``__b`` and its number.

    Raises:
        Unprintable: the plan has an option, or an expression, that is not printed.
    """
    for there, what in (
        (plan.approximate is not None, "APPROX"), (plan.ranking is not None, "PREF or TOP"), (plan.changes is not None, "CHANGES IN"),
        (plan.automaton is not None, "an AUTOMATON"), (plan.unfinished is not None, "SHOW UNFINISHED MATCHES"), (bool(plan.months), "an INTERVAL of months"),
        (plan.counting, "MATCH_COUNT()"), (plan.graphing, "MATCH_GRAPH()"),
    ):  # fmt: skip
        if there:
            raise Unprintable(what)
    return _Printer(plan, texts).text()


class _Printer:
    def __init__(self, plan: Plan, texts: Mapping[str, str]) -> None:
        self.plan = plan
        self.texts = {name: _without_conversion(_plain(text)) for name, text in texts.items()}
        self.equal = {f"{self.texts[key.column]} IS NOT NULL": self.texts[key.column] for key in plan.equal_keys}
        self.subsets: dict[int, str] = {}

    def text(self) -> str:
        plan = self.plan
        keys = [self.texts[key.column] for key in plan.partition]
        order = [item.over(self.texts[item.column]) for item in plan.order]
        defines = list(self.defines())
        skip = self.skip()
        parts = [f"PARTITION BY {', '.join(keys)}"] if keys else []
        parts += [f"ORDER BY {', '.join(order)}"] if order else []
        parts += [_MEASURE, skip]
        if plan.selection is not None:
            parts.append(f"EVENT SELECTION {STRATEGIES[plan.selection.strategy]} {plan.selection.report} {'MATCHES' if plan.selection.report == 'ALL' else 'MATCH'}")
        if plan.windows and plan.windows[0].kind != NO_WINDOW:
            parts.append(f"WINDOW {_size(plan.windows[0])}{' ROWS' if plan.windows[0].kind == ROWS else ''}")
        parts.append(f"PATTERN ({self.pattern()})")
        if self.subsets:
            parts.append("SUBSET " + ", ".join(f"{name} = ({', '.join(self.members(mask))})" for mask, name in self.subsets.items()))
        if defines:
            parts.append("DEFINE " + ", ".join(defines))
        return " ".join(parts)

    def name(self, variable: int) -> str:
        return variable_text(self.plan.variables[variable])

    def members(self, mask: int) -> Iterator[str]:
        return (self.name(variable) for variable in range(len(self.plan.variables)) if mask >> variable & 1)

    def of(self, mask: int) -> str:
        """The name of a set of variables: a variable's, or that of a subset."""
        members = list(self.members(mask))
        if len(members) == 1:
            return members[0]
        if mask not in self.subsets:
            taken = {name.lower() for name in (*self.plan.variables, *self.subsets.values())}
            base = "_or_".join(re.sub(r"\W", "", name) for name in members)
            self.subsets[mask] = next(name for name in chain([base], (f"{base}_{i}" for i in count(2))) if name.lower() not in taken)
        return self.subsets[mask]

    def skip(self) -> str:
        mode, mask = self.plan.skip.mode, self.plan.skip.targets
        return f"AFTER MATCH SKIP {skip_text(mode, self.of(mask) if mask else '')}"

    # -- the pattern ----------------------------------------------------------------------------------------

    def pattern(self) -> str:
        sizes: list[str] = []
        node = self.node(self.plan.pattern, sizes)
        return to_text(node, "".join(sizes))

    def node(self, tree: tuple, sizes: list[str]) -> nodes.Node:
        """The pattern as a user writes it. ``sizes``: gets the sizes of windows, whose spans are places in the joined texts."""
        match tree:
            case Repeat(_, item, low, high, greedy):
                return nodes.Repeat(self.node(item, sizes), low, high, greedy)
            case Within(_, item, number):
                window = self.plan.windows[number]
                begin = sum(map(len, sizes))
                sizes.append(_size(window))
                size = Expr("lit", span=Span(begin, begin + len(sizes[-1])))
                return nodes.Within(self.node(item, sizes), size, window.kind == ROWS)
            case "var", variable:
                return nodes.Var(self.plan.variables[variable])
            case "not", variable:
                group = next((group.pattern for group in self.plan.without if group.variable == variable), ("var", variable))
                return nodes.Not(self.node(group, sizes))
            case "exclude", item:
                return nodes.Exclude(self.node(item, sizes))
        if tree[0] in _ALONE:
            return _ALONE[tree[0]]()
        return _MANY[tree[0]](tuple(self.node(part, sizes) for part in tree[1:]))

    # -- conditions -----------------------------------------------------------------------------------------

    def defines(self) -> Iterator[str]:
        """The condition of each variable that has one."""
        for variable, name in enumerate(self.plan.variables):
            parts = [part for letter in self.plan.letters if letter.variable == variable for part in self.row_parts(self.texts[f"__b{letter.bit}"])]
            parts += [self.conjunct(tree) for condition in self.plan.conditions if condition.variable == variable for tree in condition.trees]
            if len(parts) > 1:
                parts = [f"({part})" if _is_weak(part) else part for part in parts]
            if parts:
                yield f"{variable_text(name)} AS {' AND '.join(parts)}"

    def row_parts(self, text: str) -> Iterator[str]:
        """The conjuncts of a condition over a row. A test that further keys replace is written as a test again."""
        whole = _PATTERN + text
        for part in conjuncts(_read(text)):
            bare = _bare(part.span.of(whole))
            if bare in self.equal:
                yield f"{self.equal[bare]} = FIRST({self.equal[bare]})"
            elif not _GUARD.match(bare):  # its tree is among those that read other rows
                yield bare

    def conjunct(self, tree: tuple) -> str:
        if tree[:2] == ("call", "or") and tree[3][:2] == ("call", "and") and tree[3][2][0] == "isfirst":
            tree = tree[2]  # the first iteration of PRIOR
        return _bare(self.tree(tree))

    def tree(self, tree: tuple) -> str:
        """The text of a condition tree."""
        match tree[0]:
            case "checked":
                return self.tree(tree.tree)
            case "lit":
                return tree.text if tree.type == "type" else literal_text(tree.type, tree.text)
            case "mno":
                return "MATCH_NUMBER()"
            case "prior":
                return f"PRIOR({self.tree(tree.tree)})"
            case "col":
                return f"({self.texts[tree.column]})"
            case "off" | "nav" if tree.absent is not None:
                return f"({_elsewhere(self.texts[tree.absent], lambda text: self.at(tree, text))})"
            case "off" | "nav":
                return self.at(tree, f"({self.texts[tree.column]})")
            case "cls":
                return self.navigated(tree, lambda of: f"CLASSIFIER({of})")
            case "agg":
                inside = "*" if tree.column is None and tree.mask == ALL_ROWS else f"{self.of(tree.mask)}.*" if tree.column is None else ""
                inside = inside or self.argument(tree, tree.column)
                return f"{tree.function}({'DISTINCT ' if tree.distinct else ''}{inside}){self.kept(tree)}"
            case "by":
                value = f"CLASSIFIER({self.over(tree.mask)})" if tree.column is None else self.argument(tree, tree.column)
                return f"{tree.which}_by({value}, {self.argument(tree, tree.key)}){self.kept(tree)}"
            case "call":
                return self.call(tree)
        raise Unprintable("a function over several rows")

    def call(self, tree: tuple) -> str:
        if tree[1] == "and" and len(tree) == 4 and tree[2][:2] == ("call", ">=") and tree[3][:2] == ("call", "<=") and tree[2][2] == tree[3][2]:
            value, low, high = (_loosened("=", self.tree(part)) for part in (tree[2][2], tree[2][3], tree[3][3]))
            return f"({value} BETWEEN {low} AND {high})"
        return call_text(tree[1], [_loosened(tree[1], text) for text in map(self.tree, tree[2:])])

    def over(self, mask: int) -> str:
        return "" if mask == ALL_ROWS else self.of(mask)

    def argument(self, tree: tuple, column: str) -> str:
        """An argument of an aggregate."""
        text = self.texts[column]
        guarded = _GUARDED.fullmatch(text) if tree.keep is not None else None
        return self.qualified(text if guarded is None else guarded[1], self.over(tree.mask))

    def kept(self, tree: tuple) -> str:
        """The FILTER of an aggregate."""
        if tree.keep is None:
            return ""
        text = self.texts[tree.keep]
        while (found := _KEPT.fullmatch(text)) is not None:
            text = _plain(found[1])
        return f" FILTER (WHERE {self.qualified(_bare(text), self.over(tree.mask))})"

    def at(self, tree: tuple, text: str) -> str:
        """The value of an expression over a row, at another row."""
        return self.away(text, tree.physical) if tree[0] == "off" else self.navigated(tree, lambda of: self.qualified(text, of))

    def navigated(self, tree: tuple, inner: Callable[[str], str]) -> str:
        """A value at the first or last row of some variables."""
        of = self.over(tree.mask)
        if tree.which == "cur" or (tree.which == "L" and not tree.logical and of):
            return self.away(inner(of), tree.physical)
        logical = f", {tree.logical}" if tree.logical else ""
        return self.away(f"{'FIRST' if tree.which == 'F' else 'LAST'}({inner(of)}{logical})", tree.physical)

    def away(self, text: str, physical: int) -> str:
        """The value some rows before or after."""
        if not physical:
            return text
        distance = f", {abs(physical)}" if abs(physical) > 1 else ""
        return f"{'PREV' if physical < 0 else 'NEXT'}({_bare(text)}{distance})"

    def qualified(self, text: str, of: str) -> str:
        """An expression over a row with the name of some variables before each column."""
        text = _bare(text)
        if not of:
            return text
        whole, condition = _PATTERN + text, _read(text)
        swaps = {node.span: f"{of}.{node.span.of(whole)}" for node in condition.walk() if node.op == "col"}
        return render(whole, condition, swaps)


def _size(window: Window) -> str:
    """The size of a window, as the user wrote it if the plan has all of it."""
    if len(window.text) < 40:
        return window.text
    return f"INTERVAL '{window.size}' MICROSECOND" if window.kind == MICROS else window.size


def _read(text: str) -> Expr:
    """An expression. Raises Unprintable if it is not one."""
    try:
        return parse_clause(_PATTERN + text).defines[0].condition
    except ClauseError:
        raise Unprintable("an expression of Spark's") from None


def _bare(text: str) -> str:
    """A text without parentheses around the whole of it."""
    while text.startswith("("):
        tokens = tokenize(text)
        if matching(tokens).get(0) != len(tokens) - 2:
            break
        text = text[1:-1].strip()
    return text


def _loosened(operator: str, text: str) -> str:
    """An operand without the parentheses that it does not need."""
    inner = _read(text).bare()
    if operator in ("and", "or"):
        needed = inner.op in ("and", "or")
    elif operator in _COMPARISONS:
        needed = inner.op not in ("col", "lit", "call", "cast") and not (inner.op == "bin" and inner.value not in _COMPARISONS)
    else:
        needed = inner.op not in ("col", "lit", "call", "cast") and not (operator.isalpha() and operator not in ("not", "neg", "div", "isnull", "in"))
    return text if needed else _bare(text)


def _is_weak(text: str) -> bool:
    """Whether a condition needs parentheses beside AND."""
    return _read(text).op == "or"


def _plain(text: str) -> str:
    """The SQL of a column with PREV and NEXT for lag and lead, and without the SQL that catches errors."""
    return _neighbours(spoken(text))


def _without_conversion(text: str) -> str:
    """The operand of datediff or timestampdiff in the SQL that converts it; other SQL as it is."""
    time = _TIME.fullmatch(text)
    operand = "" if time is None else time[1] or time[2]
    depths = accumulate({"(": 1, ")": -1}.get(token.text, 0) for token in tokenize(operand))
    return operand if operand and min(depths) >= 0 else text


def _elsewhere(text: str, at: Callable[[str], str]) -> str:
    """An expression whose parts are read at another row. In ``text`` these parts are ``IF(false, part, NULL)``."""
    tokens = tokenize(text)
    close, out, end = matching(tokens), list[str](), 0
    for i, token in enumerate(tokens):
        if token.start >= end and token.upper == "IF" and i + 1 in close and tokens[i + 2].upper == "FALSE":
            last = close[i + 1]
            out += [text[end : token.start], at(text[tokens[i + 4].start : tokens[last - 3].end])]
            end = tokens[last].end
    return "".join([*out, text[end:]])


def _neighbours(text: str) -> str:
    """An expression with PREV and NEXT for lag and lead over the clause's order."""
    while True:
        tokens = tokenize(text)
        close = matching(tokens)
        for i, token in enumerate(tokens):
            if token.upper in ("LAG", "LEAD") and i + 1 in close and tokens[close[i + 1] + 1].upper == "OVER":
                end = tokens[close[close[i + 1] + 2]].end
                inside = text[tokens[i + 1].end : tokens[close[i + 1]].start]
                text = f"{text[: token.start]}{'PREV' if token.upper == 'LAG' else 'NEXT'}({inside}){text[end:]}"
                break
        else:
            return text


# -- comparing plans ----------------------------------------------------------------------------------------------------


def same_search(one: Plan, other: Plan, texts: Mapping[str, str], others: Mapping[str, str]) -> bool:
    """Whether two plans find the same matches in the same rows, as far as their records show.

    ``texts`` and ``others`` are the SQL texts of their columns, as in :func:`clause_text`.
    """
    return _meaning(one, texts) == _meaning(other, others)


def _meaning(plan: Plan, texts: Mapping[str, str]) -> dict[str, object]:
    """The parts of a plan that decide the matches. They name a column by its text."""
    known = {name: _canonical(text) for name, text in texts.items()}

    def named(value: object) -> object:
        if isinstance(value, str):
            return known.get(value, value)
        return tuple(map(named, value)) if isinstance(value, tuple) else value

    found = {field.name: getattr(plan, field.name) for field in fields(plan) if field.name not in _BESIDE}
    found["keys"] = {known[key.column] for key in (*plan.partition, *plan.equal_keys)}
    found["order"] = [(known[item.column], item.descending, item.nulls_first) for item in plan.order]
    found["skip"] = plan.skip[:2]
    found["windows"] = [window[:3] for window in plan.windows]
    found["without"] = [group[:2] for group in plan.without]
    found["letters"] = {letter.variable: known[f"__b{letter.bit}"] for letter in plan.letters}
    found["conditions"] = {condition.variable: sorted(map(repr, map(named, map(_unnumbered, condition.trees)))) for condition in plan.conditions}
    found["ordered_inputs"] = sorted(repr(known[column.name]) for column in plan.ordered_inputs)
    return found


def _unnumbered(tree: tuple) -> tuple:
    """A tree without the numbers of expressions that may fail, which follow their order in the text."""
    parts = [_unnumbered(part) if isinstance(part, tuple) else part for part in tree]
    if tree[0] == "checked":
        return (tree[0], *parts[1:-1])
    return tuple(parts)


def _canonical(text: str) -> object:
    """An expression without its parentheses, spaces and case of words."""
    text = _plain(text)
    if text.startswith(FAILS):
        return ("fails", _canonical(text.removeprefix(FAILS)))
    if (kept := _KEPT.fullmatch(text)) is not None:
        return ("kept", _canonical(kept[1]))
    try:
        return _shape(_read(text), _PATTERN + text)
    except Unprintable:
        return tuple(token.upper for token in tokenize(text))


def _shape(expr: Expr, text: str) -> object:
    expr = expr.bare()
    value = tuple(part.lower() for part in expr.value) if expr.op == "col" else expr.value
    if expr.op in ("lambda", "subquery", "special", "interval") or not expr.args and expr.op not in ("col", "lit"):
        return tuple(token.text for token in tokenize(expr.span.of(text)))
    parts: list[object] = []
    for part in expr.args:  # parentheses in a chain of AND mean nothing
        shape = _shape(part, text)
        parts += shape[3] if expr.op in ("and", "or") and isinstance(shape, tuple) and shape[:1] == (expr.op,) else [shape]
    return (expr.op, value, expr.flags, tuple(parts))
