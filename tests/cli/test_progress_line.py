"""The line on the terminal while a command works."""

from __future__ import annotations

import io
import sys
import time

import pytest

from sparkcep.cli import progress_line


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def on_terminal(monkeypatch, seconds: float = 0.01) -> Terminal:
    """Standard error as a terminal. pytest replaces it before each test, so a fixture cannot set it."""
    monkeypatch.setattr(progress_line, "SECONDS", seconds)
    monkeypatch.setattr(sys, "stderr", Terminal())
    return sys.stderr


def until(true) -> None:
    for _ in range(1000):
        if true():
            return
        time.sleep(0.01)
    raise AssertionError("nothing came")


def test_what_takes_long_is_told_with_how_far_it_is(monkeypatch):
    terminal = on_terminal(monkeypatch)
    with progress_line.waiting("running the query", lambda: "1 of 4 tasks"):
        until(terminal.getvalue)
    said = terminal.getvalue()
    assert said.startswith("\r\033[Krunning the query, 1 of 4 tasks, 0 s") and said.endswith("\r\033[K")


def test_what_is_quick_says_nothing(monkeypatch):
    terminal = on_terminal(monkeypatch, 60)
    with progress_line.waiting("running the query"):
        pass
    assert terminal.getvalue() == ""


def test_an_error_ends_the_line(monkeypatch):
    terminal = on_terminal(monkeypatch)
    with pytest.raises(ValueError), progress_line.waiting("looking"):
        until(terminal.getvalue)
        raise ValueError
    assert terminal.getvalue().endswith("\r\033[K")


def test_programs_get_no_line(monkeypatch):
    monkeypatch.setattr(progress_line, "SECONDS", 0.01)
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    with progress_line.waiting("looking"):
        time.sleep(0.1)
    assert sys.stderr.getvalue() == ""
