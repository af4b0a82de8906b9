"""sparkcep: MATCH_RECOGNIZE for Spark SQL.

``rewrite`` and ``explain`` work on text alone; ``enable`` makes ``spark.sql`` of a session understand the clause;
``match_recognize`` applies one to a data frame; ``plot`` draws matches, ``report`` runs a query and tells how it went.
``%load_ext sparkcep`` gives notebooks SQL cells.
Importing the package starts neither Spark nor numba.
"""

from __future__ import annotations

from sparkcep.errors import ClauseError, MatchRuntimeError
from sparkcep.version import __version__ as __version__

__all__ = ["ClauseError", "MatchRuntimeError", "disable", "enable", "explain", "match_recognize", "plot", "report", "rewrite"]


def __getattr__(name: str):
    if name == "rewrite":
        from sparkcep.sql.rewrite import rewrite

        return rewrite
    if name == "explain":
        from sparkcep.draw.explain import explain

        return explain
    if name in ("enable", "disable"):
        from sparkcep.spark import session

        return getattr(session, name)
    if name == "match_recognize":
        from sparkcep.spark.frames import match_recognize

        return match_recognize
    if name == "plot":
        from sparkcep.draw.matches import plot

        return plot
    if name == "report":
        from sparkcep.spark.report import report

        return report
    if name in ("load_ipython_extension", "unload_ipython_extension"):
        from sparkcep import notebook

        return getattr(notebook, name)
    raise AttributeError(f"module 'sparkcep' has no attribute {name!r}")
