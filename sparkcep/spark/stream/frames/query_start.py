"""Checks a query at its start if its clauses over streams are programs of DataFrames.

:mod:`sparkcep.spark.stream.frames.program` checks a statement when it is written. Only here is it known what the user built on top
of the statement's DataFrame.
"""

from __future__ import annotations

import functools
import inspect
import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from pyspark.errors import AnalysisException

from sparkcep.errors import ClauseError
from sparkcep.spark.connection import is_connect, set_within
from sparkcep.spark.errors.exceptions import RAISED, ClauseParseException, failure_of
from sparkcep.spark.stream.frames.checkpoint import check_kept
from sparkcep.spark.stream.frames.clauses_in_plans import at_clause, by_one_call, check_above, clauses, found, number_of
from sparkcep.spark.stream.frames.plan_text import Node, analysed
from sparkcep.spark.stream.start_checks import INSTEAD, PLAN_SHOWN, PROVIDER, ROCKSDB, not_started

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

log = logging.getLogger("sparkcep")

_PLACE, _NAME = "checkpointLocation", "queryName"
_REUSE, _POLICY = "spark.sql.exchange.reuse", "spark.sql.streaming.multipleWatermarkPolicy"
_AGGREGATED = (
    "in output mode append an aggregate ({}) is emitted when a watermark passes its column, and a clause's output has a watermark only with the JVM extension. "
    'Write outputMode("update") or outputMode("complete"), or ' + INSTEAD
)


def watch(session: SparkSession) -> None:
    """Installs the checks in the session's class of stream writers, classic or Connect."""
    if is_connect(session):
        from pyspark.sql.connect.streaming.readwriter import DataStreamWriter
    else:
        from pyspark.sql.streaming.readwriter import DataStreamWriter
    for name in ("start", "toTable"):
        original = getattr(DataStreamWriter, name)
        if not hasattr(original, "_sparkcep_original"):
            setattr(DataStreamWriter, name, _watched(original))


def _watched(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def start(self: Any, *args: Any, **kwargs: Any) -> Any:
        frame = _frame(self)
        plan = analysed(frame)
        own = clauses(plan)
        if not own:
            return original(self, *args, **kwargs)
        try:
            check_above(plan)
            _check_store(frame.sparkSession, own)
            _check_policy(frame.sparkSession, plan, own)
            _check_checkpoint(plan, self, inspect.signature(original).bind(self, *args, **kwargs).arguments)
            with _apart(frame.sparkSession, plan):
                return original(self, *args, **kwargs)
        except AnalysisException as raised:
            if isinstance(raised, ClauseError) or (refusal := _refused(plan, raised)) is None:
                raise
            error = refusal
        except ClauseError as raised:
            error = raised
        raise ClauseParseException(error, str(error)) from None

    start._sparkcep_original = original
    return start


def _frame(writer: Any) -> DataFrame:
    """Returns the DataFrame that a query writes."""
    if hasattr(writer, "_df"):
        return writer._df
    from pyspark.sql.connect.dataframe import DataFrame

    return DataFrame(writer._write_stream._child, writer._session)


def _check_store(session: SparkSession, own: list[Node]) -> None:
    """Raises ClauseError if states were to be in RocksDB, and the setting has changed since."""
    held = [node for node in own if not by_one_call(node)]
    if held and "RocksDB" not in (session.conf.get(PROVIDER, None) or ""):
        raise at_clause(held[0], f"the DataFrame of the clause was made for a query with several clauses, whose states are in RocksDB. Set {PROVIDER} to {ROCKSDB}")


def _check_policy(session: SparkSession, plan: Node, own: list[Node]) -> None:
    """Raises ClauseError if one stream may move the watermark while another has sent no rows.

    A bucket learns the watermark when it is first called, so it would keep its first late rows.
    """
    if sum(node.name == "EventTimeWatermark" for node in plan.below()) > 1 and session.conf.get(_POLICY, "min") == "max":
        raise at_clause(own[0], f"{_POLICY} is max. Without the JVM extension this would keep late rows of a stream that has not sent a row before. Set it to min")


def _check_checkpoint(plan: Node, writer: Any, given: dict[str, Any]) -> None:
    """Raises ClauseError if the clauses of a query cannot resume from its checkpoint.

    ``given``: the arguments of the call that starts the query.
    """
    made = [found(node) for node in plan.below() if number_of(node) is not None]
    try:
        folder = _checkpoint(writer, given)
        if folder is not None and None not in made:
            check_kept(_frame(writer).sparkSession, folder, [one.statement for one in made if one is not None])
    except RAISED as error:  # a platform may lack the state data source, or have its own writer
        log.warning("over a stream: the checkpoint cannot be read before the query starts (%s); its first micro-batch compares the statements", failure_of(error).message.partition("\n")[0])


def _checkpoint(writer: Any, given: dict[str, Any]) -> str | None:
    """Returns the checkpoint folder of a query; None if the query gets a new one."""
    options = {name.lower(): str(value) for name, value in given.get("options", {}).items()}
    asked = options.get(_PLACE.lower()) or _option(writer, _PLACE)
    if asked:
        return asked
    folder = _frame(writer).sparkSession.conf.get(f"spark.sql.streaming.{_PLACE}", None)
    name = given.get("queryName") or options.get(_NAME.lower()) or _option(writer, _NAME)
    return f"{folder}/{name}" if folder and name else None


def _option(writer: Any, name: str) -> str | None:
    """Returns a writer's option before the query starts, or None."""
    if hasattr(writer, "_write_proto"):
        asked = writer._write_proto
        return next((value for key, value in asked.options.items() if key.lower() == name.lower()), asked.query_name if name == _NAME else None)
    # Spark's writer in the JVM lacks an accessor for its options.
    field = writer._jwrite.getClass().getDeclaredField("extraOptions")
    field.setAccessible(True)
    found = field.get(writer._jwrite).get(name)
    return found.get() if found.isDefined() else None


@contextmanager
def _apart(session: SparkSession, plan: Node) -> Iterator[None]:
    """Prevents two operators from sharing an exchange.

    Spark would set a watermark for the first operator only, and not run the second one's input.

    A query keeps the setting that it starts with.
    """
    if sum(number_of(node) is not None for node in plan.below()) < 2:
        yield
        return
    with set_within(session, _REUSE, "false"):
        yield


def _refused(plan: Node, raised: AnalysisException) -> ClauseError | None:
    """Returns the error of a query that Spark refuses to start because of its operators, without the plan in Spark's message.

    Returns None for any other error.
    """
    message = str(raised)
    if PLAN_SHOWN.search(message) is None and not (raised.getCondition() or "").startswith("STREAMING_OUTPUT_MODE"):
        return None
    own = clauses(plan)[0]
    if "watermark" in message and (above := next((node.name for node in plan.below() if node.name in ("Aggregate", "Distinct") and clauses(node)), "")):
        return at_clause(own, _AGGREGATED.format(above))
    return at_clause(own, not_started(message))
