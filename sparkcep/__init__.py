"""sparkcep: MATCH_RECOGNIZE for Spark SQL.

``rewrite`` and ``explain`` work on text alone; ``enable`` makes ``spark.sql`` of a session understand the clause;
``match_recognize`` applies one to a data frame; ``plot`` draws matches, ``report`` runs a query and tells how it went.
``preview`` tries a pattern over rows given as letters, ``complete`` tells what may be written at a place. ``lineage`` and
``see_through`` look through clauses, for tools that stand on sqlglot; ``%load_ext sparkcep`` gives notebooks SQL cells. Importing
the package starts neither Spark nor numba.
"""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

if not Path(__file__).is_file():  # in an archive
    from sparkcep import unpacked

    __path__ = [unpacked.folder(Path(__file__).parent) or __path__[0]]

from sparkcep.errors import ClauseError, MatchRuntimeError, NoSparkError, lacks_spark
from sparkcep.version import __version__ as __version__

__all__ = ["ClauseError", "MatchRuntimeError", "budget_totals", "complete", "disable", "enable", "explain", "lineage", "match_recognize", "plot", "preview", "report", "rewrite", "see_through", "transpile"]


_MODULES = {  # of what is loaded when it is asked for
    "rewrite": "sparkcep.sql.rewrite",
    "complete": "sparkcep.tools.complete",
    "explain": "sparkcep.draw.explain",
    "lineage": "sparkcep.dialect.lineage",
    "see_through": "sparkcep.dialect.lineage",
    "transpile": "sparkcep.dialect.transpile",
    "enable": "sparkcep.spark.session",
    "disable": "sparkcep.spark.session",
    "match_recognize": "sparkcep.spark.frames",
    "plot": "sparkcep.draw.matches",
    "preview": "sparkcep.trial",
    "report": "sparkcep.spark.report",
    "budget_totals": "sparkcep.spark.totals",
    "load_ipython_extension": "sparkcep.notebook.magic",
    "unload_ipython_extension": "sparkcep.notebook.magic",
}


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, *_MODULES})


def __getattr__(name: str):
    if name not in _MODULES:
        raise AttributeError(f"module 'sparkcep' has no attribute {name!r}")
    try:
        return getattr(import_module(_MODULES[name]), name)
    except ModuleNotFoundError as error:
        if lacks_spark(error):
            raise NoSparkError() from None
        raise
