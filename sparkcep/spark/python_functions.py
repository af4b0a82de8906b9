"""The Python functions behind the clause, as a JVM without a Python driver needs them to run them itself.

What a worker unpickles are references to functions of the installed package: some hundred bytes, made when asked for.
"""

from __future__ import annotations

import base64
import functools
import sys
from typing import Any

from pyspark.serializers import CloudPickleSerializer
from pyspark.sql.types import DataType, StructType
from pyspark.util import PythonEvalType

from sparkcep.spark.table_function import GRAPH_FUNCTIONS, NAME, MatchRecognize, match_batches


def describe() -> dict[str, Any]:
    """Name, pickled command, evaluation type and result type of each function; and the Python they were pickled by."""
    functions = [_described(NAME, MatchRecognize, PythonEvalType.SQL_ARROW_UDTF, None)]
    for name, (read, returns) in GRAPH_FUNCTIONS.items():
        functions.append(_described(name, (read, returns), PythonEvalType.SQL_BATCHED_UDF, returns))
    return {"functions": functions, "python": sys.executable, "version": "{}.{}".format(*sys.version_info)}


def mapper(plan: str) -> str:
    """The pickled command of ``mapInArrow`` for a clause's plan (JSON), in base64."""
    return _pickled((functools.partial(match_batches, plan), StructType()))  # a worker reads no result type from it


def _described(name: str, command: Any, eval_type: int, returns: DataType | None) -> dict[str, Any]:
    return {"name": name, "command": _pickled(command), "eval_type": eval_type, "returns": returns and returns.json()}


def _pickled(command: Any) -> str:
    return base64.b64encode(CloudPickleSerializer().dumps(command)).decode("ascii")
