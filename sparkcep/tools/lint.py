"""Linter (``sparkcep lint``): finds errors in a file's statements, and legal constructs in clauses that are seldom intended.

It does not need Spark. The rules check the parsed clause; docs/tools.md explains each rule.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import lru_cache

from sparkcep.clause import nodes
from sparkcep.clause.automaton import Automaton
from sparkcep.clause.diagnose.advice import ELSEWHERE, not_begun
from sparkcep.clause.expressions import Expr
from sparkcep.clause.identifiers import backticked
from sparkcep.clause.tokens import STRING, Span, matching, statement_spans, tokenize
from sparkcep.clause.tree import PAST_LAST, TO_FIRST, MatchClause
from sparkcep.errors import ClauseError, nearest, offset, position
from sparkcep.plan.extend.approx import ALL, report
from sparkcep.plan.extend.arcs import reads_texts
from sparkcep.plan.extend.sequences import replaced
from sparkcep.plan.facts import first_variables, nullable, occurrences, tree_of
from sparkcep.plan.options import selection
from sparkcep.plan.scope import ENDINGS
from sparkcep.plan.split.conditions import conjuncts
from sparkcep.sql.rewrite.occurrences import KEYWORD
from sparkcep.sql.rewrite.rewrite import rewrite_all
from sparkcep.tools.jinja_mask import Masked, jinja_mask
from sparkcep.tools.statements import Place, clauses, comments, open_clause

ERROR, WARNING, INFO = "error", "warning", "info"
_OF_ROWS = frozenset("FIRST LAST PREV NEXT PRIOR SUM AVG MIN MAX".split())  # functions of a column's values in other rows
_MAY_BE_CLAUSE = re.compile(r"PATTERN|MATCH_RECOGNIZE", re.I)  # every clause, and the beginning of one, has such a word
_IGNORE = re.compile(r"(?:--|/\*)\s*sparkcep:\s*ignore\b[ \t]*([A-Z_]+(?:\s*,\s*[A-Z_]+)*)?")


@dataclass(frozen=True)
class Finding:
    """A finding. ``code`` is an error class (SPARKCEP....) or a rule's name. ``line`` and ``column`` are 1-based in the file."""

    code: str
    severity: str
    line: int
    column: int
    fragment: str
    message: str


@dataclass(frozen=True)
class _Rule:
    severity: str
    check: Callable[[MatchClause], Iterator[tuple[Span | None, str]]]  # a span of None: the word MATCH_RECOGNIZE


RULES: dict[str, _Rule] = {}
IGNORE = "IGNORE"  # the code of findings about comments that ignore unknown rules


def lint(text: str, double_quoted: bool = False) -> list[Finding]:
    """Returns the findings about the statements of ``text``, in order.

    A statement has either its first error, or the findings of the rules. ``text`` may hold Jinja, which is masked
    (``tools/jinja_mask``). In such a text an error outside a clause is left out, because the rendered text may be right. An error
    in a clause that holds ``{% ... %}``, or at a ``{{ ... }}``, is an info.

    ``double_quoted``: whether text in double quotes is a name.
    """
    masked = jinja_mask(text)
    read = masked.text
    if double_quoted:
        try:
            read = backticked(read)
        except ClauseError as error:
            return list(_unmasked([_of_error(error)], masked))
    ignored, wrong = _ignored(read)
    kept = [f for f in _findings(read) if f.severity == ERROR or (f.line, f.code) not in ignored]
    return sorted(_unmasked([*kept, *wrong], masked), key=lambda f: (f.line, f.column, f.code))


def _unmasked(findings: Iterable[Finding], masked: Masked) -> Iterator[Finding]:
    """Yields the findings about a masked text that hold for its source, with the source's words."""
    for found in findings:
        start = offset(masked.text, found.line, found.column)
        end = start + len(found.fragment)
        at_name = masked.any_in(start, end) or masked.restored(found.message) != found.message
        severity = found.severity
        if masked.spans and severity == ERROR:
            clause = _clause_around(masked.text, start, end)
            if clause is None:
                continue
            severity = INFO if at_name or masked.block_in(clause.start, clause.end) else ERROR
        elif at_name and found.code != IGNORE:
            continue
        yield replace(found, severity=severity, message=masked.restored(found.message), fragment=masked.restored(found.fragment))


def _clause_around(text: str, start: int, end: int) -> Span | None:
    """Returns the place of the clause that ``text[start:end]`` is in, from its keyword to its parenthesis or the text's end."""
    for at in (start, end):
        try:
            tokens = tokenize(text[:at])[:-1]
        except ClauseError:  # the position is in a literal
            continue
        word = open_clause(tokens)
        if word is not None:
            try:
                whole = tokenize(text)
            except ClauseError:  # a literal is open until the end
                return Span(tokens[word].start, len(text))
            close = matching(whole).get(word + 1, len(whole) - 1)
            return Span(tokens[word].start, whole[close].end)
    return None


def _findings(text: str) -> Iterator[Finding]:
    try:
        spans = statement_spans(text)
    except ClauseError as error:
        yield _of_error(error)
        return
    for span in spans:
        statement = span.of(text)
        if not _MAY_BE_CLAUSE.search(statement):
            continue
        line, column = position(text, span.start)
        for found in _of_statement(statement):
            yield replace(found, line=found.line + line - 1, column=found.column + (column - 1 if found.line == 1 else 0))


@lru_cache(maxsize=256)
def _of_statement(text: str) -> tuple[Finding, ...]:
    """Returns the findings about one statement. An editor asks again after each change, and most statements are then as before."""
    try:
        try:
            rewrite_all(text)
        except ClauseError as error:
            if error.error_class != "SPARKCEP.PARAMETER":  # its value is known when the statement runs
                raise
        places = clauses(text)
        if not places and (unread := not_begun(text)) is not None:
            raise unread
    except ClauseError as error:
        return (_of_error(error),)
    return tuple(found for place in places for found in _judged(text, place))


def _of_error(error: ClauseError) -> Finding:
    return Finding(error.error_class, ERROR, error.line, error.column, error.fragment, error.message)


def _judged(text: str, place: Place) -> Iterator[Finding]:
    clause = replaced(place.clause)  # the rules see the patterns of sequences
    for code, rule in RULES.items():
        for span, message in rule.check(clause):
            where = span or place.word
            fragment = where.of(text).split("\n")[0][:60]
            yield Finding(code, rule.severity, *position(text, where.start), fragment, message)


def _ignored(text: str) -> tuple[set[tuple[int, str]], list[Finding]]:
    """Returns the (line, rule) pairs to ignore, and findings about comments that name no known rule.

    A comment applies to its line. If it is alone on its line, it applies to the next line that is not such a comment.
    """
    out: set[tuple[int, str]] = set()
    wrong: list[Finding] = []
    if "sparkcep" not in text:
        return out, wrong
    try:
        tokens = tokenize(text)
    except ClauseError:
        return out, wrong
    lines = text.split("\n")
    edges = [0, *(t.end for t in tokens)]
    for comment in (c for start, t in zip(edges, tokens) for c in comments(text, start, t.start)):
        asked = _IGNORE.match(comment.of(text))
        if asked is None:
            continue
        line, column = position(text, comment.start)
        codes = re.split(r"\s*,\s*", asked[1]) if asked[1] else []
        if unknown := [c for c in codes if c not in RULES] or ([] if codes else [""]):
            what = f"unknown rule {unknown[0]}" if unknown[0] else "name the rules to ignore"
            wrong.append(Finding(IGNORE, WARNING, line, column, comment.of(text)[:60], f"{what}; the rules are {', '.join(RULES)}"))
        if not lines[line - 1][: column - 1].strip():
            behind = enumerate(lines[line:], line + 1)
            line = next((n for n, code in behind if code.strip() and not code.lstrip().startswith("--")), line)
        out |= {(line, code) for code in codes}
    return out, wrong


# -- the rules ----------------------------------------------------------------------------------------------------


def _rule(code: str, severity: str):
    def add(check: Callable[[MatchClause], Iterator[tuple[Span | None, str]]]):
        RULES[code] = _Rule(severity, check)
        return check

    return add


@_rule("NO_ORDER", WARNING)
def _no_order(clause: MatchClause) -> Iterator[tuple[Span | None, str]]:
    if not clause.order_by:
        yield None, "without ORDER BY the rows of a partition are in no particular order, so matches can differ from run to run"


@_rule("TWO_OF_A_NAME", WARNING)
def _two_of_a_name(clause: MatchClause) -> Iterator[tuple[Span | None, str]]:
    keys = {e.span.of(clause.text).strip("`").lower() for e in clause.partition_by}
    for measure in clause.measures:
        if measure.name.lower() in keys:
            yield measure.name_span, f"the measure {measure.name} has the name of a column of PARTITION BY, so the result has two columns of that name. Give the measure another name"


@_rule("NO_WINDOW", WARNING)
def _no_window(clause: MatchClause) -> Iterator[tuple[Span | None, str]]:
    if clause.window is not None or not _skips_rows(clause):
        return
    bounded = {id(n) for group in nodes.walk(clause.pattern) if isinstance(group, nodes.Within) for n in nodes.walk(group)}
    for node in _unbounded(clause):
        if id(node) not in bounded:
            why = "rows are skipped without a WINDOW: every run stays open to the end of its partition"
            yield node.span, f"{node.span.of(clause.text)} is unbounded, {why}"
            return


@_rule("ENDLESS_AUTOMATON", WARNING)
def _endless(clause: MatchClause) -> Iterator[tuple[Span | None, str]]:
    """A loop without WINDOW keeps its computations, and their rows, indefinitely."""
    automaton = clause.automaton
    if automaton is None or clause.window is not None or clause.lifetime is not None:
        return
    leads = _leads(automaton)
    for arc in automaton.arcs:
        if arc.ends[0].lower() in _reached(leads, arc.ends[1].lower()):
            yield arc.span, "arcs form a cycle without WINDOW or LIFETIME TO: a computation may stay open to the end of its partition"
            return


@_rule("UNREACHABLE_STATE", WARNING)
def _unreachable(clause: MatchClause) -> Iterator[tuple[Span | None, str]]:
    automaton = clause.automaton
    # A table of arcs may add arcs that lead there.
    if automaton is None or not automaton.arcs or (automaton.tables and reads_texts(clause)):
        return
    leads = _leads(automaton)
    reached = _reached(leads, _start(automaton))
    for arc in automaton.arcs:
        if arc.ends[0].lower() not in reached:
            yield arc.source[1], f"no arc leads from the START state to {arc.ends[0]}, so this arc is never taken"


def _start(automaton: Automaton) -> str:
    """Returns the START state of an automaton with arcs."""
    starts = [state.name for state in automaton.states if state.start]
    sources = {arc.ends[0].lower() for arc in automaton.arcs} | {arc.ends[1].lower() for arc in automaton.arcs}
    return (starts[0] if starts else "q0" if "q0" in sources else automaton.arcs[0].ends[0]).lower()


def _leads(automaton: Automaton) -> dict[str, set[str]]:
    """Returns state -> the states that its arcs lead to."""
    leads: dict[str, set[str]] = {}
    for arc in automaton.arcs:
        leads.setdefault(arc.ends[0].lower(), set()).add(arc.ends[1].lower())
    return leads


def _reached(leads: dict[str, set[str]], start: str) -> set[str]:
    """Returns the states reachable from ``start``, including ``start``."""
    found, todo = {start}, [start]
    while todo:
        fresh = leads.get(todo.pop(), set()) - found
        found |= fresh
        todo += fresh
    return found


@_rule("RELUCTANT_END", WARNING)
def _reluctant_end(clause: MatchClause) -> Iterator[tuple[Span | None, str]]:
    if _reports_all(clause):
        return  # every length is a match of its own
    for node, free, _ in _followed(clause.pattern):
        if isinstance(node, nodes.Repeat) and not node.greedy and free and node.max != node.min:
            text = node.span.of(clause.text)
            instead = f"write {{{node.min}}}" if node.min else "leave it out"
            why = f"nothing has to follow {text}, so it always takes the fewest rows, {node.min}"
            yield node.span, f"{why}; {instead}, or make it greedy"


@_rule("ANY_ROW", INFO)
def _any_row(clause: MatchClause) -> Iterator[tuple[Span | None, str]]:
    seen = set()
    for node in nodes.walk(clause.pattern):
        if isinstance(node, nodes.Var) and _is_any(clause, node) and node.name.lower() not in seen:
            seen.add(node.name.lower())
            yield node.span, f"{node.name} is not in DEFINE, so any row matches it"


@_rule("SWALLOWS_PARTITION", WARNING)
def _swallows(clause: MatchClause) -> Iterator[tuple[Span | None, str]]:
    if _skips_rows(clause) or _reports_all(clause):
        return
    for node, _, rows_follow in _followed(clause.pattern):
        if isinstance(node, nodes.Repeat) and node.greedy and node.max is None and rows_follow and _is_any(clause, node.item):
            text = node.span.of(clause.text)
            end = "partition" if clause.window is None else "window"
            what = f"takes all rows to the end of the {end}, then backtracks to the last row where the rest matches"
            yield node.span, f"{text} {what}; {text}? stops at the first one"


@_rule("MANY_MATCHES", WARNING)
def _many_matches(clause: MatchClause) -> Iterator[tuple[Span | None, str]]:
    if not _reports_all(clause) or (clause.skip is not None and clause.skip.mode == PAST_LAST) or _counts(clause):
        return
    if clause.approx is not None and report(clause) != ALL:
        return
    repeats = list(_unbounded(clause))
    if len(repeats) > 1:
        what = "ALL MATCHES lists every choice of rows for each of the unbounded quantifiers"
        instead = "PROXY MATCHES or MATCH BUNDLES" if clause.approx is not None else "MATCH_COUNT() or MATCH_GRAPH()"
        yield repeats[1].span, f"{what}; bound them, or take {instead}"


@_rule("UNUSED_SUBSET", WARNING)
def _unused_subset(clause: MatchClause) -> Iterator[tuple[Span | None, str]]:
    used = {clause.skip.target.lower()} if clause.skip is not None and clause.skip.target else set()
    for expression in _expressions(clause):
        used |= {str(node.value[0]).lower() for node in expression.walk() if node.op in ("col", "star") and node.value}
    for subset in clause.subsets:
        if subset.name.lower() not in used:
            yield subset.span, f"nothing refers to the subset {subset.name}"


@_rule("MISSPELLED_VARIABLE", WARNING)
def _misspelled(clause: MatchClause) -> Iterator[tuple[Span | None, str]]:
    known = [*(n.name for n in nodes.walk(clause.pattern) if isinstance(n, nodes.Var)), *(s.name for s in (*clause.subsets, *clause.sequences))]
    variables = {k.lower() for k in known}
    # The table's name or alias, which also qualifies columns, precedes the clause.
    ahead = set(re.findall(r"\w+", clause.text[: clause.span.start].lower()))
    for node in (n for e in _expressions(clause) for n in e.walk() if n.op == "col" and len(n.value) > 1):
        name = node.value[0]
        near = nearest(name, known)
        if near is not None and name.lower() not in variables | ahead:
            yield node.span, f"PATTERN does not have a variable {name}; did you mean {near}?"


@_rule("NEVER_FIRST", WARNING)
def _never_first(clause: MatchClause) -> Iterator[tuple[Span | None, str]]:
    for definition in clause.defines:
        for conjunct in conjuncts(definition.condition):
            earlier = _null_first(conjunct, definition.variable.lower())
            if earlier is not None:
                text = earlier.span.of(clause.text)
                yield (
                    conjunct.span,
                    f"{text} is NULL on the first row of {definition.variable}, so this is never true there and {definition.variable} takes no row; "
                    f"PRIOR(LAST(...)) is the row before, and a comparison that is NULL because of it counts as true on the first row",
                )


@_rule("SELECTION_IN_PATTERN", WARNING)
def _selection_in_pattern(clause: MatchClause) -> Iterator[tuple[Span | None, str]]:
    for node in nodes.walk(clause.pattern):
        if isinstance(node, nodes.Var) and node.name.upper() in ("SKIP", "TILL", "NEXT", "MATCH") and _is_any(clause, node):
            yield node.span, f"{node.name} is a variable here, and any row matches it; write EVENT SELECTION SKIP TILL NEXT MATCH outside of PATTERN"
            return


@_rule("OTHER_ENGINE", WARNING)
def _other_engine(clause: MatchClause) -> Iterator[tuple[Span | None, str]]:
    for node in (n for e in _expressions(clause) for n in e.walk() if n.op == "call" and n.value in ELSEWHERE):
        yield node.span, f"Spark does not have the function {node.value}; {ELSEWHERE[str(node.value)]}"


@_rule("QUOTED_NAME", WARNING)
def _quoted_name(clause: MatchClause) -> Iterator[tuple[Span | None, str]]:
    """Double quotes enclose a string in Spark SQL, but a name in the standard."""
    alone = [*clause.partition_by, *(item.expr for item in clause.order_by)]
    for node in (n for e in _expressions(clause) for n in e.walk()):
        of = [a.bare() for a in node.args]
        if node.op == "field" or (node.op == "call" and node.value in _OF_ROWS):
            alone += of[:1]
        elif node.op == "bin" and all(a.op == "lit" for a in of):
            alone += of
    for literal in (e.bare() for e in alone):
        text = literal.span.of(clause.text)
        if literal.op == "lit" and text.startswith('"'):
            yield literal.span, f"{text} is a string in Spark SQL. Quote a name as `{text[1:-1]}`"


@_rule("SKIP_TO_ITSELF", WARNING)
def _skip_to_itself(clause: MatchClause) -> Iterator[tuple[Span | None, str]]:
    """The standard (ISO/IEC 19075-5) makes a skip to the first row of its own match an error, which is raised at run time."""
    skip = clause.skip
    if skip is None or skip.target is None:
        return
    target = skip.target.lower()
    members = {m.name.lower() for s in clause.subsets if s.name.lower() == target for m in s.members} or {target}
    names, pattern = tree_of(clause.pattern)
    wanted = sum(1 << v for v, name in enumerate(names) if name.lower() in members)
    most = sum(high for v, (_, high) in occurrences(pattern).items() if wanted >> v & 1)
    if not nullable(pattern) and not first_variables(pattern) & ~wanted and (skip.mode == TO_FIRST or most == 1):
        why = f"every match begins with {skip.target}, so the next match would begin at the same row, which is an error at the first match"
        yield skip.span, f"{why}. Skip to a later variable, PAST LAST ROW or TO NEXT ROW"


@_rule("UNFINISHED_EVERYWHERE", WARNING)
def _unfinished_everywhere(clause: MatchClause) -> Iterator[tuple[Span | None, str]]:
    """A first variable without a condition begins a run at each row outside of matches."""
    if clause.unfinished is None or clause.automaton is not None:
        return
    names, pattern = tree_of(clause.pattern)
    first = {name.lower() for v, name in enumerate(names) if first_variables(pattern) >> v & 1}
    for node in nodes.walk(clause.pattern):
        if not nullable(pattern) and isinstance(node, nodes.Var) and _is_any(clause, node) and node.name.lower() in first:
            yield node.span, f"any row can be {node.name}, so every row outside of matches begins an unfinished match; add a condition for {node.name} to DEFINE"
            return


@_rule("UNFINISHED_UNMARKED", WARNING)
def _unfinished_unmarked(clause: MatchClause) -> Iterator[tuple[Span | None, str]]:
    shown = clause.unfinished
    if shown is not None and not any(n.op == "call" and n.value == "MATCH_STATUS" for m in clause.measures for n in m.expr.walk()):
        yield shown.span, "without MATCH_STATUS() in MEASURES an unfinished match looks like a match; add MATCH_STATUS() AS status"


@_rule("NEVER_UNFINISHED", WARNING)
def _never_unfinished(clause: MatchClause) -> Iterator[tuple[Span | None, str]]:
    shown = clause.unfinished
    if shown is not None and clause.automaton is None and nullable(tree_of(clause.pattern)[1]):
        yield shown.span, "the pattern matches the empty sequence, so no match is ever unfinished; let it take at least one row"


@_rule("OPEN_OVER_STREAM", WARNING)
def _open_over_stream(clause: MatchClause) -> Iterator[tuple[Span | None, str]]:
    """A statement that reads FROM STREAM and compares with the status OPEN, which a stream never returns."""
    if clause.unfinished is None:
        return
    tokens = tokenize(clause.text)
    at = next(i for i, token in enumerate(tokens) if token.start >= clause.span.start)
    source = next((i for i in range(at, -1, -1) if tokens[i].upper in ("FROM", "JOIN")), at)
    if tokens[source + 1].upper != "STREAM" or tokens[source + 2].upper in (KEYWORD, "AS", "("):
        return
    for token in tokens:
        if token.kind == STRING and token.text[1:-1] == "OPEN":
            yield Span(token.start, token.end), "over a stream no match has the status OPEN: an unfinished match is returned once its end is known; leave OPEN out, or ask about a table"
            return


# -- helpers of the rules -----------------------------------------------------------------------------------------


def _skips_rows(clause: MatchClause) -> bool:
    return clause.selection is not None and clause.selection.strategy != "STRICT"


def _reports_all(clause: MatchClause) -> bool:
    found = selection(clause)
    return found is not None and found.report == "ALL"


def _counts(clause: MatchClause) -> bool:
    return any(node.op == "call" and node.value in ENDINGS for m in clause.measures for node in m.expr.walk())


def _expressions(clause: MatchClause) -> Iterator[Expr]:
    yield from (m.expr for m in clause.measures)
    yield from (d.condition for d in clause.defines)
    yield from clause.automaton.expressions() if clause.automaton is not None else ()
    yield from (e for pref in clause.preferences() for _, e in pref.objectives)


def _null_first(expr: Expr, variable: str, sure: bool = False) -> Expr | None:
    """Returns the reference to an earlier row of the variable that makes ``expr`` NULL on its first row.

    Without ``sure``, ``expr`` may also be false there. Returns None without such a reference, or if that is hard to decide.
    """
    expr = expr.bare()
    if expr.op == "call" and expr.value in ("FIRST", "LAST") and len(expr.args) == 2:
        offset, own = expr.args[1].bare(), {str(n.value[0]).lower() for n in expr.args[0].walk() if n.op == "col" and len(n.value) > 1}
        return expr if own == {variable} and offset.op == "lit" and str(offset.value).isdigit() and str(offset.value).strip("0") else None
    if expr.op == "or":
        found = [_null_first(a, variable, sure) for a in expr.args]
        return found[0] if all(found) else None
    found = [_null_first(a, variable, True) for a in expr.args]
    if (expr.op == "bin" and expr.value != "<=>") or expr.op in ("un", "cast") or (expr.op == "between" and not expr.flags and not sure):
        return next((f for f in found if f is not None), None)
    return found[0] if expr.op in ("between", "in", "like") else None


def _unbounded(clause: MatchClause) -> Iterator[nodes.Repeat]:
    """Yields the unbounded quantifiers of rows that a match takes."""
    negated = {id(n) for group in nodes.walk(clause.pattern) if isinstance(group, nodes.Not) for n in nodes.walk(group)}
    return (n for n in nodes.walk(clause.pattern) if isinstance(n, nodes.Repeat) and n.max is None and id(n) not in negated)


def _is_any(clause: MatchClause, node: nodes.Node) -> bool:
    """Whether any row matches a pattern of one row."""
    match node:
        case nodes.Var(name):
            return name.lower() not in {d.variable.lower() for d in clause.defines}
        case nodes.Alternate(items):
            return any(_is_any(clause, i) for i in items)
        case nodes.Exclude(item):
            return _is_any(clause, item)
    return False


def _takes_rows(node: nodes.Node) -> bool:
    """Whether each match of a pattern has a row."""
    return not nullable(tree_of(node)[1])


def _is_free(node: nodes.Node) -> bool:
    """Whether a pattern can match without a row and without a condition."""
    return not _takes_rows(node) and not nodes.contains(node, nodes.Start, nodes.End, nodes.Not)


def _followed(node: nodes.Node, free: bool = True, rows: bool = False) -> Iterator[tuple[nodes.Node, bool, bool]]:
    """Yields each node with two flags: whether the pattern may end right after it, and whether rows must follow.

    The first flag is False if that is hard to decide.
    """
    yield node, free, rows
    match node:
        case nodes.Concat(items):
            for i, item in enumerate(items):
                rest = items[i + 1 :]
                yield from _followed(item, free and all(map(_is_free, rest)), rows or any(map(_takes_rows, rest)))
        case nodes.Alternate(items):
            for item in items:
                yield from _followed(item, free, rows)
        case nodes.Repeat(item, low):
            yield from _followed(item, free and low <= 1, rows)
        case nodes.Exclude(item) | nodes.Within(item):
            yield from _followed(item, free, rows)
        case nodes.Permute(items) | nodes.Conjunct(items):
            for item in items:
                yield from _followed(item, False, rows)
