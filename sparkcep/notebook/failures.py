"""What a cell shows when it fails: a message with the place in the user's statement, no Python traceback."""

from __future__ import annotations

from sparkcep.errors import ClauseError


class CellError(Exception):
    """A cell that cannot be run, or could not; IPython shows the message alone."""

    def _render_traceback_(self) -> list[str]:
        return str(self).splitlines()


class Interrupted(KeyboardInterrupt):
    """The cell was interrupted, and its Spark job cancelled."""

    def _render_traceback_(self) -> list[str]:
        return ["interrupted: the Spark job was cancelled"]


def pointed(error: ClauseError, text: str) -> str:
    """The error, and the line of ``text`` it means with a mark below the place."""
    from sparkcep.spark.rewriting import excerpt

    return f"{error}{excerpt(text, error)}"


def told(error: Exception, statement: str) -> str:
    """What to show for an exception that Spark, or sparkcep inside it, raised over ``statement``."""
    from sparkcep.spark.errors import shown

    return shown(error, statement)
