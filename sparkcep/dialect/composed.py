"""Parses statements around their clauses: sqlglot reads a placeholder table for each clause, which the clause then replaces.

The dialect ``sparkcep`` and ``transpile`` use it, because sqlglot's own parser does not know the whole clause.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator

from sqlglot import exp
from sqlglot.dialects.dialect import Dialect
from sqlglot.errors import ParseError
from sqlglot.tokens import Token, TokenType

from sparkcep.clause.tokens import Token as Word
from sparkcep.sql.rewrite.occurrences import Statement

_STANDS_FOR = "__sparkcep_clause_"
_BESIDE = ("joins", "laterals", "pivots", "sample")  # sqlglot attaches these to the table that they follow

Trees = list[exp.Expr | None]
Match = Callable[[int, int], exp.MatchRecognize]  # from the indexes of a clause's word and its closing parenthesis


def read_around(statement: Statement, dialect: Dialect, tokens: list[Token], match: Match, read: Callable[[list[Token]], Trees]) -> Trees:
    """Returns the trees that ``read`` makes of a statement's tokens, with the clauses in them. Raises ClauseError and ParseError.

    A clause becomes a subquery: ``SELECT * FROM`` its table, with ``match`` of the clause as the query's ``match``.
    """
    tokens, queries = list(tokens), {}
    for start, word, close in statement.clauses():
        first, behind, last = (statement.tokens[i] for i in (start, word - 1, close))
        at = _between(tokens, first, last)
        if not at or tokens[at.start].start != first.start:
            continue  # in the text of a command, which sqlglot does not parse
        query = _over(statement.text, dialect, [tokens[i] for i in _between(tokens, first, behind)])
        query = _put_back(query, queries)
        query.set("match", match(word, close))
        name = f"{_STANDS_FOR}{len(queries)}"
        queries[name] = query
        begin = tokens[at.start]
        tokens[at.start : at.stop] = [Token(TokenType.VAR, name, begin.line, begin.col, first.start, last.end - 1, begin.comments)]
    return [_put_back(tree, queries) if tree is not None else None for tree in read(tokens)]


def _over(sql: str, dialect: Dialect, table: list[Token]) -> exp.Select:
    """Returns the tree of ``SELECT * FROM`` a table."""
    head = [Token(TokenType.SELECT, "SELECT"), Token(TokenType.STAR, "*"), Token(TokenType.FROM, "FROM")]
    found = dialect.parser().parse([*head, *table], sql)
    if len(found) != 1 or not isinstance(found[0], exp.Select):
        begin = table[0]
        raise ParseError.new("expected a table before MATCH_RECOGNIZE", line=begin.line, col=begin.col, highlight=begin.text)
    return found[0]


def _between(tokens: list[Token], first: Word, last: Word) -> range:
    """Returns the indexes of the tokens from one word to another."""
    start = bisect_left(tokens, first.start, key=lambda token: token.start)
    return range(start, bisect_left(tokens, last.end, lo=start, key=lambda token: token.start))


def _put_back(tree: exp.Expr, queries: dict[str, exp.Select]) -> exp.Expr:
    for table in list(tree.find_all(exp.Table, exp.Lateral)):
        query = queries.get(table.name)
        if query is not None and isinstance(table, exp.Lateral):
            table.set("this", exp.Subquery(this=query))  # the alias stays with LATERAL
        elif query is not None:
            found = beside(exp.Subquery(this=query, alias=table.args.get("alias")), table)
            if table is tree:
                tree = found
            else:
                table.replace(found)
    return tree


def beside(new: exp.Expr, old: exp.Expr) -> exp.Expr:
    """Returns the new table, with everything that sqlglot attached to the old one."""
    for key in _BESIDE:
        if old.args.get(key):
            new.set(key, old.args[key])
    return new


def clauses_in(tree: exp.Expr) -> Iterator[exp.Subquery]:
    """Yields the subqueries of a tree that are clauses."""
    for found in tree.find_all(exp.Subquery):
        if isinstance(found.this, exp.Select) and isinstance(found.this.args.get("match"), exp.MatchRecognize):
            yield found


def innermost(tree: exp.Expr) -> Iterator[exp.Subquery]:
    """Yields the clauses that contain no other clause."""
    return (found for found in clauses_in(tree) if not any(inner is not found for inner in clauses_in(found)))


def print_around(tree: exp.Expr, text: Callable[[exp.Expr], str], clause: Callable[[exp.MatchRecognize], str]) -> str:
    """Returns the text of a tree with clauses.

    ``text`` prints trees without clauses. ``clause`` prints the text in a clause's parentheses.
    """
    root = exp.Paren(this=tree.copy())  # a root, so that a clause at the top can be replaced
    while (found := next(innermost(root), None)) is not None:
        over = found.this.copy()
        match = over.args["match"]
        over.set("match", None)
        table = text(over)
        whole = f"{table[table.index('FROM') + 4 :].strip()} MATCH_RECOGNIZE (\n{clause(match)}\n)"
        found.replace(beside(exp.Table(this=exp.Var(this=whole), alias=found.args.get("alias")), found))
    return text(root.this)
