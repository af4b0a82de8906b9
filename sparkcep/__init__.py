"""MATCH_RECOGNIZE for Spark SQL: row pattern recognition as ordinary SQL.

- ``enable``: makes ``spark.sql`` of a session understand the clause; ``disable`` undoes this
- ``match_recognize``: applies a clause to a DataFrame
- ``rewrite``, ``explain``, ``transpile``, ``complete``, ``preview``: work on text, without Spark
- ``plot``, ``report``, ``budget_totals``: show matches and how a query ran
- ``lineage``, ``see_through``: look through clauses, for tools based on sqlglot
- ``%load_ext sparkcep``: adds SQL cells to a notebook

Importing the package starts neither Spark nor numba.
"""

from __future__ import annotations

from importlib import import_module as _import_module
from pathlib import Path as _Path
from typing import TYPE_CHECKING

if not _Path(__file__).is_file():  # inside an archive
    from sparkcep import unpacked as _unpacked

    __path__ = [_unpacked.folder(_Path(__file__).parent) or __path__[0]]

from sparkcep.errors import ClauseError, MatchRuntimeError, NoSparkError
from sparkcep.errors import lacks_spark as _lacks_spark
from sparkcep.version import __version__ as __version__

if TYPE_CHECKING:  # editors and type checkers read these; at run time __getattr__ loads them
    from sparkcep.cli.trial import preview
    from sparkcep.dialect.lineage import lineage, see_through
    from sparkcep.dialect.transpile import transpile
    from sparkcep.draw.explain import explain
    from sparkcep.draw.matches import plot
    from sparkcep.spark.exec.budget_metrics import budget_totals
    from sparkcep.spark.report.query_report import report
    from sparkcep.spark.session.frames import match_recognize
    from sparkcep.spark.session.session import disable, enable
    from sparkcep.spark.why.ask import why
    from sparkcep.sql.rewrite.rewrite import rewrite
    from sparkcep.tools.complete import complete

__all__ = ["ClauseError", "MatchRuntimeError", "budget_totals", "complete", "disable", "enable", "explain", "lineage", "match_recognize", "plot", "preview", "report", "rewrite", "see_through", "transpile", "why"]


_MODULES = {  # loaded on first access
    "rewrite": "sparkcep.sql.rewrite.rewrite",
    "complete": "sparkcep.tools.complete",
    "explain": "sparkcep.draw.explain",
    "lineage": "sparkcep.dialect.lineage",
    "see_through": "sparkcep.dialect.lineage",
    "transpile": "sparkcep.dialect.transpile",
    "enable": "sparkcep.spark.session.session",
    "disable": "sparkcep.spark.session.session",
    "match_recognize": "sparkcep.spark.session.frames",
    "plot": "sparkcep.draw.matches",
    "preview": "sparkcep.cli.trial",
    "report": "sparkcep.spark.report.query_report",
    "why": "sparkcep.spark.why.ask",
    "budget_totals": "sparkcep.spark.exec.budget_metrics",
    "load_ipython_extension": "sparkcep.notebook.magic",
    "unload_ipython_extension": "sparkcep.notebook.magic",
}


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, *_MODULES})


if not TYPE_CHECKING:  # otherwise type checkers would accept any name

    def __getattr__(name: str):
        if name not in _MODULES:
            raise AttributeError(f"module 'sparkcep' has no attribute {name!r}")
        try:
            return getattr(_import_module(_MODULES[name]), name)
        except ModuleNotFoundError as error:
            if _lacks_spark(error):
                raise NoSparkError() from None
            raise
