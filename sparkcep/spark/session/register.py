"""Turns the registered functions into built-in functions of the whole Spark application.

A temporary function belongs to one session, and Spark refuses permanent views that use it. The built-in registry is copied into
every new session, and views may use its functions. This applies to classic sessions only, because the registry lives in the
driver's JVM.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from sparkcep.spark.versions import version_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FUNCTION = "match_recognize"


def publish(spark: SparkSession, scalars: Iterable[str]) -> None:
    """Turns the temporary functions ``match_recognize`` and ``scalars`` of ``spark`` into built-in functions.

    They appear in this session and in all new sessions. For other existing sessions, call it on each of them.
    """
    state = spark._jsparkSession.sessionState()
    analysis = "org.apache.spark.sql.catalyst.analysis"
    _publish(spark, FUNCTION, state.tableFunctionRegistry(), f"{analysis}.TableFunctionRegistry")
    for name in scalars:
        _publish(spark, name, state.functionRegistry(), f"{analysis}.FunctionRegistry")


def _publish(spark: SparkSession, name: str, registry: Any, shared: str) -> None:
    jvm = spark._jvm
    identifier = getattr(jvm, "org.apache.spark.sql.catalyst.FunctionIdentifier")
    if version_of(spark) >= (4, 2):
        # Names have three parts: system.session holds temporary functions, system.builtin Spark's own.
        temporary = identifier(name, jvm.scala.Some("session"), jvm.scala.Some("system"))
        builtin = identifier(name, jvm.scala.Some("builtin"), jvm.scala.Some("system"))
    else:
        temporary = builtin = identifier(name)
    info, builder = registry.lookupFunction(temporary), registry.lookupFunctionBuilder(temporary)
    if info.isEmpty() or builder.isEmpty():
        raise RuntimeError(f"this session does not have the temporary function {name} to publish")
    getattr(jvm, shared).builtin().registerFunction(builtin, info.get(), builder.get())
    if temporary is not builtin:
        registry.registerFunction(builtin, info.get(), builder.get())
        registry.dropFunction(temporary)
