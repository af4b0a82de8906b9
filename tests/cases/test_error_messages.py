"""The page of wrong statements is that of the corpus, which is large and asks for what is wrong in each way."""

from __future__ import annotations

import re

from tests.cases.error_messages import FILES, PAGE, page, wrong
from tests.cases.sql_case_files import read_case_file

CASES = [case for path in FILES for case in wrong(read_case_file(path))]


def test_the_page_is_that_of_the_corpus():
    assert PAGE.read_text(encoding="utf-8") == page([read_case_file(path) for path in FILES])


def test_the_corpus_is_large():
    assert len(CASES) >= 250
    assert len({case.name for case in CASES}) >= 250
    classes = {found[1] for case in CASES if (found := re.match(r"\[([\w.]+)\]", case.error.whole))}
    assert len(classes) >= 50


def test_every_message_has_class_state_and_place():
    """Of what Spark tells no place, there is none to show: an error that a function of the user's raised."""
    bare = []
    for case in CASES:
        text = case.error.whole
        assert re.match(r"\[[A-Z_.0-9a-z]+\] ", text) and re.search(r"SQLSTATE: \w{5}", text), text
        if "== SQL (line " not in text:
            bare.append(case.name)
            continue
        line, mark = text.split("\n")[-2:]
        assert line in case.statements[-1].split("\n") and set(mark.strip()) == {"^"}, text
    assert bare == ["raise_error_of_the_users"]


def test_no_message_shows_what_nobody_wrote():
    for case in CASES:
        text = case.error.whole
        assert '"variables"' not in text and "Traceback" not in text and "JVM stacktrace" not in text and "'Project" not in text, text
        assert not re.search(r"\b__[a-z]", text), text
