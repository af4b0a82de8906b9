"""Sentences of docstrings, comments, messages and pages by the words that STYLE rules out: how many are left, package by package.

The ceilings only fall. A change that needs a higher one is written otherwise; one that lowers a count lowers its ceiling.
"""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).resolve().parents[1]
MOST_WORDS = 35
RULES = {
    "told": r"\b(?:told|tells?|telling)\b",
    "stand": r"\b(?:stands?|stood|standing)\b",
    "is no": r"\b(?:is|are|was|were|has|have) no (?!longer\b|more\b|matter\b)\w",
    "behind": r"\bbehind\b",
    "the same": r"\bthe same[,.;:)]|\blikewise\b|\bas above\b",
    "of which": r"\b(?:of|in|by|at|from|with) (?:which|whose)\b",
    "idioms": r"\b(?:anew|for ever|in place of|whatever|rows? to come)\b",
    "what": r"(?:^|[.;:]\s+)What (?:is|are|has|comes?|goes|stands?|can|may|cannot|lies|ends?)\b",
}
FOUND = {name: re.compile(pattern, re.IGNORECASE if name != "what" else 0) for name, pattern in RULES.items()}
ENTRY = re.compile(r"\n(?= *(?:[-*] |\d+\. |[\w`*, ]+: |[A-Z]\w+:$|>>> |\|))", re.MULTILINE)  # an item, or a parameter of Args

# Docstrings and comments of packages, messages of all, and pages.
CEILINGS = {
    "clause": 1, "cli": 0, "columns": 1, "compiler": 5, "dialect": 1, "draw": 1, "editor": 0, "engine": 7, "kernels": 12, "notebook":
    0, "plan": 5, "spark": 5, "sql": 2, "tools": 0, "tracing": 0, "modules": 0, "messages": 11, "pages": 43
}  # fmt: skip


def sentences(text: str) -> Iterator[str]:
    """The sentences of running text, each item of a list by itself, code in backticks as one word."""
    text = re.sub(r"``?[^`]*``?", "x", text)
    for part in re.split(r"\n\s*\n", ENTRY.sub("\n\n", text)):
        yield from (" ".join(one.split()) for one in re.split(r"(?<=[.!?])\s+(?=[A-Z`*\[])", part) if one.strip())


def docstrings(tree: ast.Module) -> Iterator[ast.Constant]:
    for node in ast.walk(tree):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)) and ast.get_docstring(node) is not None:
            yield node.body[0].value


class Texts(NamedTuple):
    """The docstrings, the other strings and the comments of a module, comments on neighbouring lines as one text; and its names."""

    docstrings: list[str]
    strings: list[str]
    comments: str
    names: set[str]


@cache
def texts_in(source: str) -> Texts:
    tree = ast.parse(source)
    heads = [*docstrings(tree)]
    known = set(map(id, heads))
    strings = [node.value for node in ast.walk(tree) if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in known]
    comments, names, last = [], set(), -1
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            comments.append(("\n" if token.start[0] == last + 1 else "\n\n") + token.string.lstrip("# "))
            last = token.start[0]
        elif token.type == tokenize.NAME:
            names.add(token.string)
    return Texts([text.value for text in heads], strings, "".join(comments), names)


def notes(source: str) -> Iterator[str]:
    """The sentences of docstrings and comments."""
    texts = texts_in(source)
    for text in texts.docstrings:
        yield from sentences(text)
    yield from sentences(texts.comments)


def messages(source: str) -> Iterator[str]:
    """The sentences of other strings that are running text."""
    for text in texts_in(source).strings:
        if text.count(" ") >= 4 and not re.search(r"\b(?:SELECT|FROM)\b", text):
            yield from sentences(text)


def page(text: str) -> Iterator[str]:
    """The sentences of a page of Markdown without its code, tables and headings."""
    text = re.sub(r"^(```|~~~).*?^\1", "", text, flags=re.MULTILINE | re.DOTALL)
    lines = (line if not line.startswith("    ") and not line.lstrip().startswith(("|", "#", "<", "!")) else "" for line in text.split("\n"))
    yield from sentences("\n".join(lines))


def broken(sentence: str) -> list[str]:
    """The rules that a sentence breaks."""
    return [name for name, pattern in FOUND.items() if pattern.search(sentence)] + ["long"] * (len(sentence.split()) > MOST_WORDS)


def sources(package: str) -> Iterator[str]:
    """The modules of a package and of the packages in it; "": of all."""
    for path in sorted((ROOT / "sparkcep" / package).rglob("*.py")):
        yield path.read_text("utf-8")


def texts_of(area: str) -> Iterator[str]:
    """The sentences of an area: a package, ``messages`` or ``pages``."""
    if area == "pages":
        for path in [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]:
            yield from page(path.read_text("utf-8")) if path.name != "CHANGELOG.md" else ()
    elif area == "messages":
        for source in sources(""):
            yield from messages(source)
    elif area == "modules":
        for path in (ROOT / "sparkcep").glob("*.py"):
            yield from notes(path.read_text("utf-8"))
    else:
        for source in sources(area):
            yield from notes(source)


def test_every_package_has_a_ceiling():
    packages = {path.name for path in (ROOT / "sparkcep").iterdir() if path.is_dir() and any(path.glob("*.py"))}
    assert set(CEILINGS) == packages | {"modules", "messages", "pages"}


@pytest.mark.parametrize("area", CEILINGS)
def test_sentences_that_style_rules_out(area):
    found = [(name, sentence) for sentence in texts_of(area) for name in broken(sentence)]
    assert len(found) <= CEILINGS[area], "write what you added otherwise, of\n" + "\n".join(f"{name}: {sentence[:160]}" for name, sentence in found)


def test_no_docstring_begins_with_what():
    found = [text[:60] for source in sources("") for text in texts_in(source).docstrings if text.startswith("What ")]
    assert len(found) <= 20, found


def test_told_is_in_no_name():
    found = {name for source in sources("") for name in texts_in(source).names if "told" in name.lower().split("_")}
    assert not found


def test_rules_are_counted():
    source = '"""What is told stands behind the same."""\n# It is no row\n# to come.\nx = "a row that is told of by a message"\n'
    assert [broken(sentence) for sentence in notes(source)] == [["told", "stand", "behind", "the same", "what"], ["is no", "idioms"]]
    assert [broken(sentence) for sentence in messages(source)] == [["told"]]
    assert broken("x " * MOST_WORDS) == [] and broken("x " * (MOST_WORDS + 1)) == ["long"]
    assert list(sentences("Reads rows.\n\nArgs:\n    a: one\n        more.\n    b: two.")) == ["Reads rows.", "Args:", "a: one more.", "b: two."]
    assert list(page("One. Two.\n```\nis no\n```\n| is no |\n")) == ["One.", "Two."]
