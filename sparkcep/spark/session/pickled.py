"""Pickles the Python functions of the clause for a JVM without a Python driver, in the form that the JVM runs.

``spark/session/rewrite_service`` sends them. A worker unpickles references to functions of the installed package: some hundred
bytes, made on request. The engine's functions carry a few lines of code, so that a worker without the package raises an error
that says what to install (``_Installed``).
"""

from __future__ import annotations

import base64
import functools
import json
import sys
from collections.abc import Callable, Mapping
from types import FunctionType
from typing import Any

from pyspark.serializers import CloudPickleSerializer, CPickleSerializer
from pyspark.sql.types import DataType, StructType
from pyspark.util import PythonEvalType

from sparkcep.compiler.output_watermark import passed
from sparkcep.compiler.stream_rules import kept
from sparkcep.plan.plan import Plan
from sparkcep.settings import DEFAULT, allowed, beyond
from sparkcep.spark.errors.reword import lack
from sparkcep.spark.exec import worker_memory
from sparkcep.spark.exec.table_function import (
    GRAPH_FUNCTIONS,
    NAME,
    MatchRecognize,
    analyze_planned,
    match_batches,
    plan_at,
    stream_error,
)
from sparkcep.spark.stream.micro_batch import stream_batches


def describe() -> dict[str, Any]:
    """Returns name, pickled command, evaluation type and result type of each function, and the Python version that pickled them."""
    functions = [_described(NAME, MatchRecognize, PythonEvalType.SQL_ARROW_UDTF, None)]
    for name, (read, returns) in GRAPH_FUNCTIONS.items():
        functions.append(_described(name, (read, returns), PythonEvalType.SQL_BATCHED_UDF, returns))
    return {"functions": functions, "python": sys.executable, "version": "{}.{}".format(*sys.version_info)}


def analyze(schema: str, distinct: bool, streaming: bool, application: Mapping[str, str]) -> dict[str, str]:
    """Analyses the table function over a table of type ``schema`` (Spark's JSON) with a column that is named by a plan.

    Without a plan it only checks whether the call, with a clause as text, may run.

    Args:
        schema: the table's type.
        distinct: see :func:`sparkcep.spark.exec.table_function.analyze_planned`.
        streaming: see :func:`sparkcep.spark.exec.table_function.analyze_planned`.
        application: the settings that limit the plan's limits.

    Returns:
        ``schema``, the result's type as JSON, and ``result``, the pickled analysis in base64.

    Raises:
        ClauseError: the plan does not fit the table, or exceeds a limit.
    """
    table = StructType.fromJson(json.loads(schema))
    at = plan_at(table.names)
    if at is None and streaming:
        raise stream_error()
    if at is not None:
        _check_limits(Plan.from_json(table.names[at]), application)
    analysis = analyze_planned(table, distinct=distinct, streaming=streaming)
    return {"schema": analysis.schema.json(), "result": base64.b64encode(CPickleSerializer().dumps(analysis)).decode("ascii")}


def _check_limits(plan: Plan, application: Mapping[str, str]) -> None:
    """Refuses a plan whose limits exceed the application's, because it was made by hand or stored in a view. Raises ClauseError."""
    given = dict(plan.bounds)
    for name, most in allowed(application.get).items():
        if given.get(name, getattr(DEFAULT, name)) > most:
            raise beyond("a limit of this clause's plan", given.get(name, getattr(DEFAULT, name)), name, most)


def mapper(plan: str, columns: list[list[str]], sent: list[str], workers: Mapping[str, int]) -> str:
    """Returns the pickled command of ``mapInArrow`` for a clause's plan (JSON), in base64.

    ``columns`` and ``sent`` are those of :func:`match_batches`; ``workers`` are the arguments of
    :func:`sparkcep.spark.exec.worker_memory.check`. Raises ClauseError.
    """
    worker_memory.check(**workers)
    return _pickled((functools.partial(_Installed(match_batches), plan, columns, sent), StructType()))  # a worker ignores the type


def streamer(
    plan: str, columns: list[list[str]], sent: list[str], ordered: int, tables: list[str], workers: Mapping[str, int]
) -> dict[str, Any]:
    """Returns the pickled command of a clause over a stream, and texts about it. Raises ClauseError.

    For the arguments see :func:`sparkcep.spark.stream.micro_batch.stream_batches` and :func:`mapper`.

    Returns:
        ``command``: the command in base64.
        ``kept``: the state of each key, in words.
        ``behind``: how many milliseconds the output's watermark trails the input's; None if the output lacks a watermark.
        ``passed``: ``behind`` in words.
    """
    worker_memory.check(**workers)
    command = _pickled((functools.partial(_Installed(stream_batches), plan, columns, sent, ordered, tables), StructType()))
    read = Plan.from_json(plan)
    given = passed(read)
    behind = given.milliseconds
    delay = f"its output has no watermark: {given.why}" if behind is None else f"the watermark of its output is {behind / 1000:g} seconds behind that of its rows"
    return {"command": command, "kept": f"of each key are kept: {'; '.join(kept(read))}", "behind": behind, "passed": delay}


def _imported(module: str, name: str, advice: str) -> Any:
    """Returns a function of the package.

    It uses no other code of the package, because it is sent as code to workers that may lack the package.
    """
    import importlib

    try:
        return getattr(importlib.import_module(module), name)
    except ModuleNotFoundError as error:
        raise RuntimeError(advice.replace("{name}", (error.name or "sparkcep").partition(".")[0])) from None


_SENT = FunctionType(_imported.__code__, {"__builtins__": __builtins__}, "imported")
_SENT.__module__ = "__main__"  # pickled as code


class _Installed:
    """A function of the package, pickled so that a worker without the package raises NOT_INSTALLED."""

    def __init__(self, function: Callable) -> None:
        self._function = function

    def __call__(self, *arguments: Any) -> Any:
        return self._function(*arguments)

    def __reduce__(self):
        return _SENT, (self._function.__module__, self._function.__qualname__, str(lack("{name}")))


def _described(name: str, command: Any, eval_type: int, returns: DataType | None) -> dict[str, Any]:
    return {"name": name, "command": _pickled(command), "eval_type": eval_type, "returns": returns and returns.json()}


def _pickled(command: Any) -> str:
    return base64.b64encode(CloudPickleSerializer().dumps(command)).decode("ascii")
