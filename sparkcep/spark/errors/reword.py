"""Rewords Spark's errors about a rewritten statement for the user's statement: with positions there, without plans and inner names.

``spark/errors/exceptions`` and ``spark/session/rewrite_service`` use it. It does not import pyspark at once, because the JVM
requests these texts as well.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from sparkcep.clause.diagnose.advice import ELSEWHERE, not_begun
from sparkcep.clause.tokens import QUOTED, WORD, Span, tokenize
from sparkcep.clause.tree import ONE_ROW, MatchClause
from sparkcep.errors import SEMANTIC, UNSUPPORTED, ClauseError, error_at, excerpt, nearest, offset, position, printable
from sparkcep.plan.extend.automaton import like_a_column
from sparkcep.plan.extend.budget import COLUMNS
from sparkcep.plan.extend.changes import ALL_COLUMNS
from sparkcep.plan.scope import AGGREGATES, MATCH_FUNCTIONS, NAVIGATIONS, overlooked
from sparkcep.redaction import Redaction
from sparkcep.sql.rewrite.occurrences import MAX_STATEMENT, Statement
from sparkcep.sql.rewrite.places import Places

_OURS = re.compile(
    r"Error: \[SPARKCEP\.([A-Z_]+)\] (.*?)(?: \((?:at|line (\d+), column (\d+):) '(.*?)'\))? SQLSTATE: (\w{5})", re.S
)
_LACKS = re.compile(r"ModuleNotFoundError: No module named '(\w+)")
# Spark's words if the Python of an executor lacks the daemon that the application is configured for.
_NO_DAEMON = re.compile(r"from sparkcep\.spark\.daemon's stdout|No module named '?sparkcep\.spark\.daemon|Error while finding module specification for 'sparkcep\.spark\.daemon'")
_WITHIN = re.compile(r'File "[^"\n]*[/\\]sparkcep[/\\][^"\n]*", line')  # a traceback that passes through the package
_PARSED = re.compile(r"\(line (\d+), pos (\d+)\)")  # the end of a ParseException
_AT = r"(?:; line \d+ pos \d+|; line \d+, column \d+| \(line \d+, pos \d+\))"  # as Spark writes it, or as sparkcep does
# the part of Spark's message that gives the position, and the text it received or the plan
_TAIL = re.compile(rf"{_AT}?(?:;\n|\n== SQL|\n== DataFrame|\n=== Streaming Query|\n\n).*|{_AT}$", re.S)
_STATE = re.compile(r" SQLSTATE: \w{5}")
_NAMES = re.compile(r"`((?:[^`]|``)*)`")
_KEY = re.compile(r"\b__[po]\d+\b")  # key columns, as the rewriter names them
_CALL = re.compile(r"[\w`.]+\((\w+)\)")  # a call with one column
_AGGREGATED = re.compile(r"\b__a\d+\b")  # columns of aggregates that Spark computes, as the rewriter names them
_OF_LATERAL = "NON_DETERMINISTIC_LATERAL_SUBQUERIES"
_OWN = MATCH_FUNCTIONS - AGGREGATES
# functions of pyspark.sql.functions that SQL lacks
_NO_SQL = frozenset(
    """arrow_udf arrow_udtf asc asc_nulls_first asc_nulls_last bitwise_not broadcast bucket call_function call_udf col column count_distinct create_map days desc
    desc_nulls_first desc_nulls_last expr hours listagg_distinct lit months negate pandas_udf product string_agg_distinct sum_distinct timestamp_add timestamp_diff udf
    udtf unwrap_udt when years""".split()
)


def clause_error(text: str) -> ClauseError | None:
    """Returns the error that ``text``, a traceback, ends in. Returns None if it is not a sparkcep error."""
    found = _OURS.search(text)
    if found is None:
        return _of_lack(text)
    return ClauseError(
        found[1], found[2], sqlstate=found[6], line=int(found[3] or 0), column=int(found[4] or 0), fragment=found[5] or ""
    )


def _of_lack(text: str) -> ClauseError | None:
    """Returns the error of a worker's Python that lacks the package, or a dependency of the package."""
    if _NO_DAEMON.search(text):
        return without_daemon()
    lacks = _LACKS.search(text)
    if lacks is None or (lacks[1] != "sparkcep" and not _WITHIN.search(text)):
        return None
    return lack(lacks[1])


def without_daemon() -> ClauseError:
    """Returns the error of an application whose executors lack the package, and so the daemon that starts all their workers."""
    advice = "; or leave out spark.python.daemon.module, so that Python functions other than the clause run"
    error = lack("sparkcep")
    return ClauseError("NOT_INSTALLED", error.message + advice, sqlstate=error.sqlstate)


def lack(name: str) -> ClauseError:
    """Returns the error of a worker's Python that lacks a package."""
    message = (
        f"the Python of Spark's workers does not have {name}. Install sparkcep there, or send it along: spark.addArtifacts or spark.archives with the archive of "
        "`sparkcep pack` (docs/cluster.md)"
    )
    return ClauseError("NOT_INSTALLED", message, sqlstate=UNSUPPORTED)


# names that sql/rewrite/rewrite.py gives to columns in addition to the input's own
_COMPUTED = re.compile(r"__(?:[acglopqw]\d+|letters|matched|rn|row_id|e|rank|score|place|slice|away|own)")


# Spark's errors about the field that the rewriter reads from a word. The user's text never reads such a field.
_NO_FIELD = ("INVALID_EXTRACT", "FIELD_NOT_FOUND", "AMBIGUOUS_REFERENCE_TO_FIELDS")


@dataclass(frozen=True)
class Failure:
    """An error as Spark raised it.

    ``contexts`` are those of the query: places in the text that Spark received, each as (fragment, offset).
    """

    condition: str
    message: str
    parameters: Mapping[str, str] = field(default_factory=dict)
    contexts: tuple[tuple[str, int], ...] = ()

    def spots(self, text: str) -> list[tuple[str, int]]:
        """Returns the places that the error names in ``text``, which Spark received, each as (fragment, offset).

        The message of a syntax error has a line of this text and a position in the line instead of a query context.
        """
        found = [(fragment, start) for fragment, start in self.contexts if fragment and start >= 0]
        parsed, fragment = _PARSED.search(self.message), self.parameters.get("error", "")[1:-1]  # in quotes
        return [*found, (fragment, offset(text, int(parsed[1]), int(parsed[2]) + 1))] if parsed and fragment else found


@dataclass(frozen=True)
class ErrorText:
    """The text of an error for the author of ``statement``.

    Attributes:
        statement: the user's statement.
        message: the message without its position.
        span: the position in ``statement``; None if it is unknown.
        redact: applied to the text that is shown.
    """

    statement: str
    message: str
    span: Span | None = None
    redact: Redaction = Redaction()

    @property
    def line(self) -> int:
        return position(self.statement, self.span.start)[0] if self.span else 0

    @property
    def column(self) -> int:
        return position(self.statement, self.span.start)[1] if self.span else 0

    @property
    def fragment(self) -> str:
        return self.redact(self.span.of(self.statement).split("\n")[0]) if self.span else ""

    def __str__(self) -> str:
        message = printable(self.message)
        if self.span is None:
            return self.redact(message)
        place = f"; line {self.line}, column {self.column}"
        fragment = self.span.of(self.statement).split("\n")[0]
        return self.redact.of_error(message + place + excerpt(self.statement, self.line, self.column, fragment))


def reworded(failure: Failure, statement: str, places: Places | None = None) -> ErrorText | ClauseError:
    """Returns the text of ``failure`` for the user's ``statement``.

    ``places`` maps the text that Spark saw to the statement; None if it is unknown. The result is a ClauseError if the clause, not
    Spark, should have found the error.
    """
    message = _TAIL.sub("", failure.message).strip()
    spots = failure.spots(statement if places is None else places.rewritten)
    if places is None:
        return ErrorText(statement, message, next((found for spot in spots if (found := _standing(*spot, statement)) is not None), None))
    message = places.named(message)
    if failure.condition == "INVALID_TEMP_OBJ_REFERENCE" and "match_recognize" in str(failure.parameters):
        return _of_view(statement)
    if not spots:
        return _unplaced(failure, statement, message, places)
    fragment, start = spots[0]
    stop = start + len(fragment)
    span = Span(start, stop) if places.restored else places.find(start, stop)
    span = next((key for name in _KEY.findall(str(failure.parameters)) if (key := places.key_at(span, name)) is not None), span)
    own = _of_same_names(failure, places, span, statement) or _of_outer(failure, places, span, statement) or _of_history(failure, places, span, statement) or _of_register(places, span, statement) or _of_word(failure, places, span, statement) or _of_condition(failure, places, span, statement) or _of_clock(failure, places, span, statement) or _of_name(failure, span, statement) or _of_key(failure, places, span, statement) or _of_lateral(failure, statement)
    if own is not None:
        return own
    clause = places.clause_at(span)
    if clause is not None:
        message = _hinted(message, _about_subquery(failure, clause, span, statement) or _hint(failure, clause, span.of(statement)) or _about_rows(failure, places, span))
    elif failure.condition.startswith("UNRESOLVED_COLUMN"):
        message = _hinted(message, _about_output(failure, places))
    elif failure.condition == "AMBIGUOUS_REFERENCE":
        message = _hinted(message, _about_measure(failure, places))
    if failure.condition.startswith("UNRESOLVED_COLUMN"):
        message = _hinted(message, _about_outer(places, span, statement))
    if failure.condition.endswith(_OF_LATERAL):  # with a plan, and the state after it
        message = message.partition(":\n")[0] + "." + "".join(_STATE.findall(message))
    if failure.condition == "AMBIGUOUS_REFERENCE" and clause is not None:
        message = _hinted(message, _about_two(failure))
    return ErrorText(statement, message, span)


def in_words_of(error: ClauseError, places: Places, sql: str) -> ClauseError:
    """Returns the error with the user's words instead of the rewriter's column names, at its position in the user's text.

    Returns ``error`` itself if it names no such column.
    """
    message = places.named(error.message)
    name = error.error_class.removeprefix("SPARKCEP.")
    if message == error.message or name == "COLUMN_NAME":  # COLUMN_NAME is about the user's own name
        return error
    span = places.column_at(error.fragment)
    if span is None:
        return ClauseError(name, message, sqlstate=error.sqlstate, line=error.line, column=error.column, fragment=places.named(error.fragment))
    return error_at(sql, span.start, span.end, name, message, error.sqlstate)


def is_in(error: ClauseError, sql: str) -> bool:
    """Whether the error's position lies in this statement, and not in a statement inside it."""
    line = (sql.split("\n")[error.line - 1 : error.line] or [""])[0] if error.line else ""
    return bool(error.fragment) and line[error.column - 1 :].startswith(error.fragment)


def without_clause(sql: str) -> ClauseError | None:
    """Returns the error of a statement that Spark cannot parse if it was meant to have a clause.

    Returns None for any other statement, and if the statement is too long.
    """
    if len(sql) > MAX_STATEMENT:
        return None
    try:
        if next(Statement(sql).clauses(), None) is not None:  # its clause was left to a platform
            return None
        return not_begun(sql)
    except ClauseError:  # an open literal or comment, which Spark has reported
        return None


def immediate(sql: str) -> ClauseError | None:
    """Returns the error of EXECUTE IMMEDIATE with a clause in its text, if Spark's JVM does not know the clause; else None."""
    first, second, text = tokenize(sql)[:3]
    if (first.upper, second.upper) != ("EXECUTE", "IMMEDIATE") or "MATCH_RECOGNIZE" not in sql.upper():
        return None
    message = (
        "EXECUTE IMMEDIATE parses its text in Spark's JVM, where sparkcep is not enabled. Run the text itself by spark.sql(text, args=...), or start Spark with the settings that "
        "`sparkcep jar` prints"
    )
    return error_at(sql, first.start, second.end, "EXECUTE_IMMEDIATE", message, UNSUPPORTED)


def _standing(fragment: str, start: int, statement: str) -> Span | None:
    """Finds a fragment in a statement: at its offset, or at the only token that begins with it.

    Spark may have counted the offset in another text. Returns None if no token, or more than one, begins with the fragment.
    """
    if statement[start : start + len(fragment)] == fragment:
        return Span(start, start + len(fragment))
    begins = {t.start for t in tokenize(statement)}
    found = [m.start() for m in re.finditer(re.escape(fragment), statement) if m.start() in begins]
    return Span(found[0], found[0] + len(fragment)) if len(found) == 1 else None


def _unplaced(failure: Failure, statement: str, message: str, places: Places) -> ErrorText:
    """Returns the text of a failure for which Spark gives no position.

    The position is that of the only token that its parameters name, outside the clauses or anywhere.
    """
    tokens = [(t, Span(t.start, t.end)) for t in tokenize(statement)]
    said = {value.strip("`\"'").lower() for value in failure.parameters.values()} - {""}
    if failure.condition == "INVALID_EXTRACT_BASE_FIELD_TYPE":
        quoted = [span for (t, span), (dot, _) in zip(tokens, tokens[1:]) if t.text[:1] in ("'", '"') and dot.text == "." and t.text[1:-1].lower() in said]
        if len(quoted) == 1:
            name = quoted[0].of(statement)[1:-1]
            return ErrorText(statement, _hinted(message, f"{quoted[0].of(statement)} is a string in Spark; quote a name with backticks, as in `{name}`"), quoted[0])
    named = [span for t, span in tokens if t.kind in (WORD, QUOTED) and t.text.strip("`").lower() in said]
    outside = [span for span in named if places.clause_at(span) is None]
    found = next((spans[0] for spans in (outside, named) if len(spans) == 1), None)
    return ErrorText(statement, message, found)


def _of_condition(failure: Failure, places: Places, span: Span, statement: str) -> ClauseError | None:
    """Returns the clause's own error for a DEFINE that is not BOOLEAN. Spark's error names a CASE that the user did not write."""
    asked = '"CASE WHEN' in failure.parameters.get("sqlExpr", "") and not span.of(statement).upper().startswith("CASE")
    define = places.condition_at(span) if failure.condition == "DATATYPE_MISMATCH.UNEXPECTED_INPUT_TYPE" and asked else None
    if define is None:
        return None
    found = failure.parameters.get("inputType", "").strip('"').lower()
    message = f"the condition of {define.variable} is of type {found}, not BOOLEAN. Write a comparison"
    return error_at(statement, span.start, span.end, "DATATYPE_MISMATCH", message, SEMANTIC)


def _of_clock(failure: Failure, places: Places, span: Span, statement: str) -> ClauseError | None:
    """Returns the clause's own error for an AS OF of another type than the order. Spark's error names an IF or a comparison."""
    found = places.clock_at(span) if failure.condition.startswith("DATATYPE_MISMATCH") else None
    if found is None:
        return None
    at, order = found
    types = re.findall(r'"([^"]+)"', failure.parameters.get("dataType", "")) or [failure.parameters.get(side, "").strip('"') for side in ("right", "left")]
    message = f"AS OF is of type {types[0]}, but {order}, the first expression of ORDER BY, is of type {types[-1]}. Write a value of that type"
    return error_at(statement, at.start, at.end, "UNFINISHED", message, SEMANTIC)


_BY_ROW = frozenset("ARITHMETIC_OVERFLOW CAST_INVALID_INPUT CAST_OVERFLOW DIVIDE_BY_ZERO INVALID_ARRAY_INDEX INVALID_ARRAY_INDEX_IN_ELEMENT_AT REMAINDER_BY_ZERO".split())


def _about_rows(failure: Failure, places: Places, span: Span) -> str:
    """Says why a condition fails on a row where no match begins. Returns "" for other errors."""
    if failure.condition not in _BY_ROW or not places.within_condition(span):
        return ""
    return "Spark evaluates conditions on one row for every input row, so test the row to the left of AND, or use try_divide, try_cast or another try_ function"


def _of_word(failure: Failure, places: Places, span: Span, statement: str) -> ClauseError | None:
    """Returns the clause's own error for a word that was not read as a column, although the table has a column of that name."""
    word = places.word_at(span) if failure.condition.startswith(_NO_FIELD) else None
    return None if word is None else error_at(statement, span.start, span.end, *overlooked(*word), SEMANTIC)


def _of_register(places: Places, span: Span, statement: str) -> ClauseError | None:
    """Returns the clause's own error for a register with the name of a column. No other error points at a declaration."""
    name = places.register_at(span)
    return None if name is None else error_at(statement, span.start, span.end, "AUTOMATON", like_a_column(name), SEMANTIC)


def _of_name(failure: Failure, span: Span, statement: str) -> ClauseError | None:
    """Returns the clause's own error for an input column with the name of a column that the rewriter computes."""
    kind = failure.condition.partition(".")[0]
    # SORT BY reports two columns of one name as unresolved
    said = failure.parameters.get({"AMBIGUOUS_REFERENCE": "name", "UNRESOLVED_COLUMN": "objectName"}.get(kind, ""), "")
    name = said.replace("`", "").rpartition(".")[2]
    written = span.of(statement).replace("`", "").rpartition(".")[2]
    if not _COMPUTED.fullmatch(name) or (name == written and kind != "AMBIGUOUS_REFERENCE"):  # one of the two is the rewriter's
        return None
    message = f"the name {name} is reserved for a column of sparkcep, but ALL ROWS PER MATCH would return an input column of that name. Rename it in the input"
    return error_at(statement, span.start, span.end, "COLUMN_NAME", message, SEMANTIC)


def _of_view(statement: str) -> ClauseError:
    """Returns the clause's own error for a permanent view if match_recognize is a function of this session only."""
    message = (
        "a permanent view needs the function match_recognize in every session. Write CREATE TEMPORARY VIEW, or start Spark with the settings that `sparkcep jar` prints"
    )
    words = next((t for t in tokenize(statement) if t.upper == "MATCH_RECOGNIZE"), None)
    span = Span(words.start, words.end) if words is not None else Span(0, 0)
    return error_at(statement, span.start, span.end, "VIEW", message, UNSUPPORTED)


# what to write instead of a key whose type Spark cannot order; {0} is the key
_PART = "a part of {0} that can be ordered"
_ORDERED = {
    "MAP": f"to_json({{0}}), or {_PART}", "GEOMETRY": f"st_asbinary({{0}}), or {_PART}", "GEOGRAPHY": f"st_asbinary({{0}}), or {_PART}",
    "VARIANT": "to_json({0}), or a part of it, as in variant_get({0}, '$.id', 'string')",
}  # fmt: skip


def _of_key(failure: Failure, places: Places, span: Span, statement: str) -> ClauseError | None:
    """Returns the clause's own error for a key whose type Spark cannot order. Spark's error names the operator that sorts."""
    clause = places.clause_at(span)
    if clause is None or not failure.condition.endswith(("INVALID_ORDERING_TYPE", "PARTITION_BY_VARIANT")):
        return None
    key = span.of(statement)
    part = next((part for part, keys in (("PARTITION BY", clause.partition_by), ("ORDER BY", [item.expr for item in clause.order_by])) if key in [e.span.of(clause.text) for e in keys]), None)
    if part is None:
        return None
    found = failure.parameters.get("dataType", "VARIANT").strip('"')
    advice = _ORDERED.get(re.match(r"\w*", found)[0], _PART).format(key)
    return error_at(statement, span.start, span.end, "DATATYPE_MISMATCH", f"a key of {part} cannot be of type {found}, because Spark does not order its values. Write {advice}", SEMANTIC)


def _of_lateral(failure: Failure, statement: str) -> ClauseError | None:
    """Returns the clause's own error for LATERAL over a clause whose measures Spark aggregates, which is a join there."""
    if not failure.condition.endswith(_OF_LATERAL) or not _AGGREGATED.search(failure.message):
        return None
    words = tokenize(statement)
    lateral = next((n for n, word in enumerate(words) if word.upper == "LATERAL"), None)
    if lateral is None:  # in a view that the statement reads
        return None
    at = next((word for word in words[lateral:] if word.upper == "MATCH_RECOGNIZE"), words[lateral])
    message = "a clause whose MEASURES have aggregates that Spark computes, such as percentile, cannot be in LATERAL over several rows. Join it, as in FROM a JOIN (SELECT * FROM t MATCH_RECOGNIZE (...)) AS m ON m.k = a.k"
    return error_at(statement, at.start, at.end, "LATERAL", message, UNSUPPORTED)


def _around(places: Places, span: Span) -> list[MatchClause]:
    """Returns the clause around a position. Returns all outermost clauses if the position is in none."""
    clause = places.clause_at(span)
    return places.outermost() if clause is None else [clause]


def _of_same_names(failure: Failure, places: Places, span: Span, statement: str) -> ClauseError | None:
    """Returns the clause's own error for two input columns with one name; ALL ROWS PER MATCH cannot return both."""
    if failure.condition != "AMBIGUOUS_REFERENCE" or "__auto_generated_subquery_name" not in failure.parameters.get("referenceNames", ""):
        return None
    name = failure.parameters.get("name", "").replace("`", "").rpartition(".")[2]
    for clause in _around(places, span):
        keys = [*clause.partition_by, *(item.expr for item in clause.order_by)]
        key = next((e for e in keys if e.op == "col" and e.value[-1].lower() == name.lower()), None)
        if clause.rows != ONE_ROW and key is not None:
            at = key.span if clause.text == statement else Span(0, 0)
            message = f"two columns of the input are called {name}, and ALL ROWS PER MATCH would return both. Rename one in a subquery below the clause"
            return error_at(statement, at.start, at.end, "COLUMN_NAME", message, SEMANTIC)
    return None


_QUALIFIED = re.compile(r"(`[^`]+`|\w+)\s*\.\s*(`[^`]+`|\w+)")  # a column with the name of its table or variable


def _of_outer(failure: Failure, places: Places, span: Span, statement: str) -> ClauseError | None:
    """Returns the clause's own error for a column of an outer query, which neither the table nor the clause can read."""
    around = places.around(span) if failure.condition.startswith("UNRESOLVED_COLUMN") else None
    written = _QUALIFIED.fullmatch(span.of(statement))
    if around is None or written is None:
        return None
    whole, table = around
    name, clause = written[1].strip("`").lower(), places.clause_at(span)
    if clause is not None and _is_variable(name, clause):
        return None
    tokens = tokenize(statement)
    named = [t for t, behind in zip(tokens, tokens[1:]) if t.kind in (WORD, QUOTED) and t.text.strip("`").lower() == name and behind.text != "."]
    if any(table.start <= t.start < table.end for t in named) or all(whole.start <= t.start < whole.end for t in named):
        return None
    message = f"{span.of(statement)} is a column of an outer query, which a clause and its table cannot read. Name the column it is compared with in PARTITION BY, and write the condition after the clause, in WHERE"
    return error_at(statement, span.start, span.end, "OUTER_COLUMN", message, UNSUPPORTED)


def _about_outer(places: Places, span: Span, statement: str) -> str:
    """Says what to write for a name of the clause, or of its table, if the query around the clause's subquery has the name too."""
    around, name = places.around(span), span.of(statement).strip("`").lower()
    if around is None or not re.fullmatch(r"\w+", name):
        return ""
    tokens, whole, opened, subqueries = tokenize(statement), around[0], [], []
    for token, after in zip(tokens, tokens[1:]):
        if token.text == "(":
            opened.append((token.start, after.upper in ("SELECT", "WITH", "FROM")))
        elif token.text == ")" and opened:
            start, is_query = opened.pop()
            if is_query and start < whole.start and whole.end <= token.start:
                subqueries.append(Span(start, token.end))
    inner = min(subqueries, key=lambda found: found.end - found.start, default=None)
    written = [t for t in tokens if t.kind in (WORD, QUOTED) and t.text.strip("`").lower() == name]
    if inner is None or all(inner.start <= t.start < inner.end for t in written):
        return ""
    return f"a clause and its table cannot read {span.of(statement)} of an outer query; compare it after the clause, in WHERE, with a column of PARTITION BY"


def _of_history(failure: Failure, places: Places, span: Span, statement: str) -> ClauseError | None:
    """Returns the clause's own error for a table after USING HISTORY that lacks columns of a history."""
    name = failure.parameters.get("objectName", "").replace("`", "")
    if not failure.condition.startswith("UNRESOLVED_COLUMN") or not name.startswith("history."):
        return None
    for clause in _around(places, span):
        used = clause.approx.budget.history if clause.approx is not None and clause.approx.budget is not None else None
        if used is not None and clause.text == statement:
            message = f"{used.text} is not a history: it lacks the column {name.removeprefix('history.')}. Write a table that a clause with MATCH HISTORY made, with the columns {', '.join(COLUMNS)}"
            return error_at(statement, used.table.start, used.table.end, "BUDGET", message, SEMANTIC)
    return None


def _hinted(message: str, hint: str) -> str:
    """Returns Spark's message with the hint before Spark's own words."""
    if not hint or hint in message:
        return message
    condition, words = re.fullmatch(r"(\[[\w.]+\] )?(.*)", message, re.S).groups("")
    return f"{condition}{hint}{'' if hint.endswith('?') else '.'} {words}"


def _hint(failure: Failure, clause: MatchClause, fragment: str) -> str:
    """Says what to write instead if the clause knows more than Spark."""
    kind, parameters = failure.condition.partition(".")[0], failure.parameters
    if kind in ("UNRESOLVED_COLUMN", "UNRESOLVED_FIELD"):
        names = _NAMES.findall(parameters.get("objectName", ""))
        if names and fragment in [e.span.of(clause.text) for e in (*clause.partition_by, *(item.expr for item in clause.order_by))] and _is_variable(names[0], clause):
            return f"rows are partitioned and ordered before the search, so a key cannot name a variable; write {names[-1]}"
        return _about_variable(names[0], clause) if len(names) > 1 else _about_name("".join(names), clause)
    if kind == "UNRESOLVED_ROUTINE":
        return _about_function(_NAMES.findall(parameters.get("routineName", "``")), fragment)
    if failure.condition.endswith("LAMBDA_FUNCTION_WITH_PYTHON_UDF"):
        return "a Python UDF in the clause can read only one row; call it in a column below the clause, or use Spark's own functions"
    if failure.condition.endswith("LAMBDA_FUNCTION_WITH_SQL_UDF"):
        return "a SQL function in DEFINE can read its row and rows at a fixed distance; write the function's expression instead of the call"
    if failure.condition.endswith("INVALID_ORDERING_TYPE") and ALL_COLUMNS in parameters.get("dataType", ""):
        return "CHANGES IN compares a retraction with rows in every column; remove columns of unordered types in a subquery"
    return ""


def _about_subquery(failure: Failure, clause: MatchClause, span: Span, statement: str) -> str:
    """Says how a subquery in DEFINE or MEASURES reads a column of the input.

    Without a call around it, a subquery in MEASURES is computed above the engine.
    """
    if not failure.condition.startswith("UNRESOLVED_COLUMN") or clause.text != statement:
        return ""
    written = _QUALIFIED.fullmatch(span.of(statement))
    for define in clause.defines if written is not None and _is_variable(written[1].strip("`"), clause) else ():
        if any(node.op == "subquery" and node.span.holds(span) for node in define.condition.walk()):
            if written[1].strip("`").lower() == define.variable.lower():
                return f"a subquery in DEFINE reads the row of its condition without a variable; write {written[2]}, a name that its own table must not have"
            return f"a subquery in DEFINE reads the row of its own condition, not that of {written[1]}; join its table below the clause"
    nodes = [node for measure in clause.measures for node in measure.expr.walk() if node.span.holds(span)]
    called = any(node.op == "call" and node.value in MATCH_FUNCTIONS for node in nodes)
    if called or not any(node.op == "subquery" for node in nodes):
        return ""
    return f"a subquery in MEASURES reads columns of the input only inside LAST, FIRST or an aggregate; if {span.of(statement)} is one, write LAST((SELECT ...))"


def _about_two(failure: Failure) -> str:
    """Says what to write for a column that two tables of a join have."""
    found = [name.replace("`", "") for name in re.findall(r"(?:`[^`]*`\.?)+", failure.parameters.get("referenceNames", ""))]
    if len(set(found)) > 1:
        return f"write {' or '.join(found[:8])}"
    return "two columns of the input have this name; rename one in a subquery below the clause"


def _about_name(name: str, clause: MatchClause) -> str:
    """Says what the user may have meant by a name that is not a column."""
    if name.upper() in ("CLASSIFIER", "MATCH_NUMBER"):
        return f"the function is written {name}()"
    if _is_variable(name, clause):
        return f"{name} is a row pattern variable; write it with a column, as in LAST({name}.x), or write count({name}.*) for the number of its rows"
    if name.lower() in (m.name.lower() for m in clause.measures):
        return f"{name} is a measure, and a measure cannot use another; repeat its expression, or compute this one in SELECT"
    return ""


def _is_variable(name: str, clause: MatchClause) -> bool:
    return name.lower() in (v.lower() for v in _variables(clause))


def _about_function(names: list[str], fragment: str) -> str:
    """Says what the user may have meant by an unknown function. ``fragment`` is its call."""
    name = names[-1]
    if name.upper() in NAVIGATIONS:
        column = _CALL.fullmatch(fragment)
        return f"write {name.upper()}({names[0]}{'.' + column[1] if column else ''})" if len(names) > 1 else ""
    if name.upper() in ("FINAL", "RUNNING"):
        return f"{name.upper()} goes before FIRST, LAST and aggregates; write {name.upper()} LAST{fragment[len(name) :].strip()}"
    if name.upper() in ELSEWHERE:
        return ELSEWHERE[name.upper()]
    if name.lower() in _NO_SQL and name.lower().endswith("_distinct"):
        return f"write {name.lower().removesuffix('_distinct')}(DISTINCT {fragment.partition('(')[2]}"
    own = nearest(name, sorted(_OWN), 0.8)
    if own is not None:
        return f"did you mean {own}?"
    from pyspark.sql import functions  # only for the names

    known = [f for f in functions.__all__ if f.islower() and f not in _NO_SQL]
    near = nearest(name, known, 0.75)
    return f"did you mean {near}?" if near is not None else ""


def _about_output(failure: Failure, places: Places) -> str:
    """Names the columns of a clause's output if the missing column's error offers just those."""
    offered = {name.rpartition("`.`")[2].lower() for name in _NAMES.findall(failure.parameters.get("proposal", "").replace("`.`", "."))}
    offered = {name.rpartition(".")[2] for name in offered}
    for clause in places.outermost():
        given = {m.name.lower() for m in clause.measures} | _keys(clause)
        if clause.rows == ONE_ROW and offered and offered <= given:
            names = _NAMES.findall(failure.parameters.get("objectName", "``"))
            name = names[-1]
            proposed = [p for p in re.findall(r"(?:`[^`]*`\.?)+", failure.parameters.get("proposal", "")) if _NAMES.findall(p)[-1].lower() == name.lower()]
            if len(names) > 1 and proposed:
                return f"after the clause the name of its table is hidden; write {proposed[0].replace('`', '')}"
            return f"with ONE ROW PER MATCH the clause returns the columns of PARTITION BY and the measures; add one, such as LAST({name}) AS {name}, or write ALL ROWS PER MATCH"
    return ""


def _about_measure(failure: Failure, places: Places) -> str:
    """Returns advice for a measure that has the name of another column of the clause's output."""
    name = _NAMES.findall(failure.parameters.get("name", "``"))[-1]
    references = re.findall(r"(?:`[^`]*`\.?)+", failure.parameters.get("referenceNames", ""))
    if len(references) < 2 or len(set(references)) > 1:  # otherwise each column can be qualified by its table
        return ""
    for clause in places.outermost():
        if name.lower() not in {m.name.lower() for m in clause.measures}:
            continue
        if clause.rows != ONE_ROW:
            return f"{name} is a measure and a column of the input, and ALL ROWS PER MATCH returns both; give the measure another name"
        if name.lower() in _keys(clause):
            return f"{name} is a measure and a column of PARTITION BY, and the clause returns both; leave the measure out"
    return ""


def _keys(clause: MatchClause) -> set[str]:
    """Returns the names of the columns of PARTITION BY, in lower case."""
    return {e.span.of(clause.text).strip("`").rpartition(".")[2].lower() for e in clause.partition_by}


def _variables(clause: MatchClause) -> list[str]:
    return [*(node.name for node in clause.variables()), *(s.name for s in clause.subsets)]


def _about_variable(name: str, clause: MatchClause) -> str:
    known = _variables(clause)
    if name.upper() in (k.upper() for k in known):
        return ""
    near = nearest(name, known)
    return f"PATTERN does not have a variable {name}" + (f"; did you mean {near}?" if near else "")
