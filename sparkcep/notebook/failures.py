"""The errors that a cell shows: a message with the place in the user's statement, and no Python traceback."""

from __future__ import annotations

from sparkcep.errors import ClauseError


class CellError(Exception):
    """A cell cannot be run, or failed. IPython shows the message alone."""

    def _render_traceback_(self) -> list[str]:
        return str(self).splitlines()


class Interrupted(KeyboardInterrupt):
    """The cell was interrupted, and its Spark job cancelled."""

    def _render_traceback_(self) -> list[str]:
        return ["interrupted: the Spark job was cancelled"]


def pointed(error: ClauseError, text: str) -> str:
    """The error with its line of ``text`` and a mark below its place."""
    from sparkcep.spark.rewriting import excerpt

    return f"{error}{excerpt(text, error)}"


def failure_text(error: Exception, statement: str) -> str:
    """The text to show for an exception that Spark, or sparkcep inside it, raised over ``statement``."""
    from sparkcep.spark.errors import shown

    return shown(error, statement)
