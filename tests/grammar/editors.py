"""Files for editors, made from the grammar and the reference: ``python -m tests.grammar.editors --write``.

``grammar/vscode`` is an extension for Visual Studio Code; editors that read TextMate grammars (Sublime Text, JetBrains' bundles,
``bat``) take its ``syntaxes`` alone. The words come from the grammar's terminals; a rule says what kind of word each is.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path

from lark.grammar import NonTerminal
from lark.lexer import PatternStr

from tests.grammar.generate import GRAMMAR_FILE, grammar

FOLDER = GRAMMAR_FILE.parent / "vscode"
EDITOR = GRAMMAR_FILE.parents[1] / "sparkcep" / "editor"
SCOPE = "meta.match-recognize.sql"
_EXPRESSION = "expression"  # the rule below which words are those of expressions
_NAMES = {"any_name", "variable", "arc_name", "table_alias", "target", "name"}  # rules of names, in which every word may stand


def words() -> tuple[set[str], set[str]]:
    """The words of the clause's own rules, and those that stand in expressions only."""
    own, inside = (_below(start, skipped) for start, skipped in (("match_recognize", {_EXPRESSION}), (_EXPRESSION, set())))
    return own, inside - own


def _below(start: str, skipped: set[str]) -> set[str]:
    """The words of all rules that are reached from ``start``."""
    rules: dict[str, list] = {}
    for rule in grammar().rules:
        rules.setdefault(_rule(rule.origin.name), []).append(rule)
    texts = {t.name: t.pattern.value.upper() for t in grammar().terminals if isinstance(t.pattern, PatternStr) and t.pattern.value[0].isalpha()}
    found, seen, waiting = set(), {*skipped, *_NAMES}, [start]
    while waiting:
        name = waiting.pop()
        if name in seen:
            continue
        seen.add(name)
        for rule in rules[name]:
            for symbol in rule.expansion:
                if isinstance(symbol, NonTerminal):
                    waiting.append(_rule(symbol.name))
                elif symbol.name in texts:
                    found.add(texts[symbol.name])
    return found


def _rule(name: str) -> str:
    return str(getattr(name, "value", name))


def _any(found: set[str]) -> str:
    return r"\b(?i:" + "|".join(sorted(found, key=lambda word: (-len(word), word))) + r")\b"


def textmate() -> dict:
    """A grammar that is injected into SQL: it colours what stands between the parentheses of a clause."""
    own, inside = words()
    parts = {"PATTERN"}
    everywhere = [{"include": f"#{name}"} for name in ("comments", "strings", "names", "numbers")]
    rest = [{"include": f"#{name}"} for name in ("pattern", "automaton", "parentheses", "functions", "words", "operators")]
    group = {"begin": r"\(", "end": r"\)", "patterns": [*everywhere, {"include": "#group"}, {"include": "#rowpattern"}]}
    return {
        "name": "MATCH_RECOGNIZE",
        "scopeName": "source.sql.match-recognize",
        "injectionSelector": f"L:source.sql -comment -string -{SCOPE}",
        "patterns": [{"include": "#clause"}],
        "repository": {
            "clause": {
                "name": SCOPE, "begin": r"\b(?i:(MATCH_RECOGNIZE))\s*\(", "end": r"\)", "beginCaptures": {"1": {"name": "keyword.other.clause.sql"}},
                "patterns": [*everywhere, *rest],
            },
            "comments": {"patterns": [
                {"name": "comment.line.double-dash.sql", "match": "--.*$"}, {"name": "comment.block.sql", "begin": r"/\*", "end": r"\*/", "patterns": [{"include": "#comments"}]},
            ]},
            "strings": {"patterns": [
                {"name": f"string.quoted.{kind}.sql", "begin": sign, "end": sign, "patterns": [{"name": "constant.character.escape.sql", "match": r"\\."}]}
                for kind, sign in (("single", "'"), ("double", '"'))
            ]},
            "names": {"name": "variable.other.quoted.sql", "match": "`(?:[^`]|``)+`"},
            "numbers": {"name": "constant.numeric.sql", "match": r"(?<![\w.])(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?(?:BD|[DFLSY])?\b"},
            "pattern": {
                "name": "meta.row-pattern.sql", "begin": rf"\b(?i:({'|'.join(parts)}))\s*\(", "end": r"\)", "beginCaptures": {"1": {"name": "keyword.other.clause.sql"}},
                "patterns": [*everywhere, {"include": "#group"}, {"include": "#rowpattern"}],
            },
            "group": group,
            "rowpattern": {"patterns": [
                {"name": "keyword.other.clause.sql", "match": r"\b(?i:PERMUTE)\b(?=\s*\()"},
                {"match": r"(?<=\))\s*\b(?i:(WITHIN))\b", "captures": {"1": {"name": "keyword.other.clause.sql"}}},
                {"name": "keyword.operator.quantifier.sql", "match": r"[*+?]\??|\{\s*\d*\s*,?\s*\d*\s*\}\??"},
                {"name": "keyword.operator.row-pattern.sql", "match": r"\{-|-\}|[|&~^$]"},
                {"name": "variable.other.row-pattern.sql", "match": r"\b[A-Za-z_]\w*\b"},
            ]},
            "automaton": {
                "name": "meta.automaton.sql", "begin": r"\b(?i:(AUTOMATON))(?:\s+(?i:(BY)\s+(ROWS)))?\s*\(", "end": r"\)",
                "beginCaptures": {number: {"name": "keyword.other.clause.sql"} for number in "123"}, "patterns": [*everywhere, *rest],
            },
            "parentheses": {"begin": r"\(", "end": r"\)", "patterns": [*everywhere, *rest]},
            "functions": {"name": "support.function.sql", "match": rf"(?!{_any(inside | {'AND', 'IN', 'NOT', 'AS', 'BY', 'WHEN', 'SKETCH', 'WEIGHTS', 'EMIT', 'LIKE'})})\b[A-Za-z_]\w*\b(?=\s*\()"},
            "words": {"patterns": [
                {"name": "variable.other.member.sql", "match": r"(?<=\.)[A-Za-z_]\w*\b"},
                {"name": "keyword.other.clause.sql", "match": _any(own)}, {"name": "keyword.other.sql", "match": _any(inside)},
            ]},
            "operators": {"name": "keyword.operator.sql", "match": r"<=>|[<>=!]=|<>|\|\||::|[-+*/%=<>|&^~]"},
        },
    }  # fmt: skip


SNIPPETS = {
    "MATCH_RECOGNIZE": ("mr", "The clause", """MATCH_RECOGNIZE (
  PARTITION BY ${1:key} ORDER BY ${2:ts}
  MEASURES FIRST(${2:ts}) AS ${3:since}, LAST(${2:ts}) AS ${4:until}
  PATTERN (${5:STRT DOWN+ UP+})
  DEFINE ${6:DOWN} AS ${7:price < PREV(price)}
)$0"""),
    "MATCH_RECOGNIZE ALL ROWS": ("mrall", "The clause, with every row of a match", """MATCH_RECOGNIZE (
  PARTITION BY ${1:key} ORDER BY ${2:ts}
  MEASURES CLASSIFIER() AS ${3:variable}, MATCH_NUMBER() AS ${4:match}
  ALL ROWS PER MATCH
  PATTERN (${5:A B+})
  DEFINE ${6:B} AS ${7:price > PREV(price)}
)$0"""),
    "SKIP TILL ANY MATCH": ("mrany", "All matches with rows between, in a window", """MATCH_RECOGNIZE (
  PARTITION BY ${1:key} ORDER BY ${2:ts}
  MEASURES count(*) AS ${3:n}
  EVENT SELECTION SKIP TILL ANY MATCH ALL MATCHES
  PATTERN (${4:A B+ C}) WINDOW INTERVAL '${5:10}' MINUTE
  DEFINE ${6:A} AS ${7:kind = 'a'}
)$0"""),
    "APPROX": ("mrapprox", "Matches with at most k errors", """MATCH_RECOGNIZE (
  PARTITION BY ${1:key} ORDER BY ${2:ts}
  MEASURES MATCH_ERRORS() AS ${3:errors}, MISSING() AS ${4:missing}
  EVENT SELECTION SKIP TILL ANY MATCH
  PATTERN (${5:A B C}) WINDOW ${6:10} APPROX ${7:1} PROXY MATCHES
  DEFINE ${8:A} AS ${9:kind = 'a'}
)$0"""),
    "TOP k": ("mrtop", "The k best matches of sliding windows", """MATCH_RECOGNIZE (
  PARTITION BY ${1:key} ORDER BY ${2:ts}
  MEASURES MATCH_SCORE() AS ${3:score}, MATCH_RANK() AS ${4:place}
  EVENT SELECTION SKIP TILL ANY MATCH
  PATTERN (${5:A B}) WINDOW INTERVAL '${6:1}' HOUR SLIDE INTERVAL '${7:10}' MINUTE
  PREF MAX (${8:A.price + B.price}) TOP ${9:3}
  DEFINE ${10:B} AS ${11:price > A.price}
)$0"""),
    "AUTOMATON": ("mrauto", "Any graph with registers", """MATCH_RECOGNIZE (
  PARTITION BY ${1:key} ORDER BY ${2:ts}
  MEASURES ${3:n} AS ${3:n}
  AUTOMATON (
    REGISTER ${3:n} BIGINT = 0
    STATE ${4:begun} START, ${5:done} FINAL
    ARC FROM ${4:begun} TO ${5:done} WHEN ${6:price > 0} SET ${3:n} = ${3:n} + 1
  )
  WINDOW INTERVAL '${7:10}' MINUTE
)$0"""),
}  # fmt: skip


FILES = ("package.json", "syntaxes/match_recognize.tmLanguage.json", "snippets/match_recognize.json", "reference.json")
DOCS = GRAMMAR_FILE.parents[1] / "docs"
PAGES = ("standard", "selection", "automaton", "approx", "ranking")  # of the reference, with a section for each option
# words below a section of another name
_BELOW = {
    "EVENT SELECTION": ("STRICT CONTIGUITY", "SKIP TILL NEXT MATCH", "SKIP TILL ANY MATCH", "FIRST MATCH"),
    "AUTOMATON": ("REGISTER", "STATE", "ARC", "ARCS FROM", "LIFETIME TO", "CHANGES IN", "REPORT CHANGES", "REPORT NET", "SPECULATE"),
}  # fmt: skip
_ROW = re.compile(r"^\| (`.*?) \| (.*?) \| (.*?) \| (.*?) \| \[.*?\]\((.*?)\) \|$", re.M)


def reference() -> dict[str, dict[str, dict[str, str]]]:
    """The functions and options of the reference, by their words, each with its first paragraph and its place in the docs."""
    sections: dict[str, dict[str, str]] = {}
    for page in PAGES:
        name = f"reference_{page}.md"
        for found in re.finditer(r"^## (.+)\n\n((?:.+\n)+)", (DOCS / name).read_text("utf-8"), re.M):
            anchor = re.sub(r"[^\w -]", "", found[1].lower()).replace(" ", "-")
            about = {"about": _plain(found[2]), "page": f"{name}#{anchor}"}
            for words in found[1].split(", "):
                if words.isupper() or "_" in words:
                    sections[words] = about
    options = {words: about for words, about in sections.items() if "_" not in words}
    options |= {words: options[section] for section, below in _BELOW.items() for words in below}
    functions: dict[str, dict[str, str]] = {}
    for signatures, where, kind, about, page in _ROW.findall((DOCS / "reference.md").read_text("utf-8")):
        for signature in re.findall(r"`([^`]+)`", signatures):
            name = signature.partition("(")[0].upper()
            more = sections.get(name, {}).get("about", "")
            functions[name] = {"signature": signature, "where": where, "type": kind, "about": about, "more": more, "page": page}
            options.pop(name, None)
    return {"functions": functions, "options": options}


def _plain(text: str) -> str:
    """A paragraph in one line, or a table, without links."""
    text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", text).strip()
    return text if text.startswith("|") else " ".join(text.split())


def files() -> Iterator[tuple[Path, str]]:
    """The files with their contents, in the order of FILES."""
    settings = {
        "sparkcep.command": {"type": "array", "items": {"type": "string"}, "default": ["sparkcep", "lsp"], "description": "The command that starts the language server, with its arguments."},
        "sparkcep.docs": {"type": "string", "default": "", "description": "The address of sparkcep's documentation, which errors link to."},
        "sparkcep.doubleQuotedIdentifiers": {"type": "boolean", "default": False, "description": "Read double-quoted text as a name, as spark.sql.ansi.doubleQuotedIdentifiers does."},
    }  # fmt: skip
    package = {
        "name": "sparkcep", "displayName": "MATCH_RECOGNIZE for Spark SQL", "description": "Errors, completion, colours and snippets for MATCH_RECOGNIZE inside SQL", "version": "0.1.0", "license": "Apache-2.0",
        "publisher": "sparkcep", "engines": {"vscode": "^1.82.0"}, "categories": ["Programming Languages", "Snippets", "Linters", "Formatters"],
        "main": "./extension.js", "activationEvents": ["onLanguage:sql", "onLanguage:jinja-sql", "onLanguage:python", "onNotebook:jupyter-notebook"],
        "dependencies": {"vscode-languageclient": "^9.0.1"},
        "contributes": {
            "grammars": [{"path": "./syntaxes/match_recognize.tmLanguage.json", "scopeName": "source.sql.match-recognize", "injectTo": ["source.sql"]}],
            "snippets": [{"language": "sql", "path": "./snippets/match_recognize.json"}],
            "configuration": {"title": "sparkcep", "properties": settings},
        },
    }  # fmt: skip
    snippets = {name: {"prefix": prefix, "description": about, "body": body.splitlines()} for name, (prefix, about, body) in SNIPPETS.items()}
    for path, content in zip(FILES, (package, textmate(), snippets, reference()), strict=True):
        yield (EDITOR if path == "reference.json" else FOLDER) / path, json.dumps(content, indent=2, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    for path, text in files():
        if "--write" in sys.argv:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        print(path.relative_to(GRAMMAR_FILE.parents[1]), "written" if "--write" in sys.argv else "")
