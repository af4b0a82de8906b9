"""Reads the checkpoint of clauses over streams that run as programs of DataFrames.

It uses Spark's state data sources, in classic sessions and over Spark Connect. ``query_start`` and reports use it.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from pyspark.errors import PySparkException
from pyspark.sql import functions as F

from sparkcep.engine.stream.key_buckets import Bucket
from sparkcep.errors import UNSUPPORTED, MatchRuntimeError
from sparkcep.plan.plan import Plan
from sparkcep.spark.stream.progress import OPERATOR_NAME
from sparkcep.spark.stream.restart_checks import FRAME_OPERATORS, check_changed, check_times
from sparkcep.spark.stream.start_checks import wrong

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

BUCKET = "bucket"  # the state's name if a query has several clauses
_ALONE, _SEVERAL = FRAME_OPERATORS
_NOTHING_YET = "STDS_COMMITTED_BATCH_UNAVAILABLE"
_NOT_OURS = "FIELD_NOT_FOUND", "STDS_INVALID_OPTION_VALUE.WITH_MESSAGE"  # Spark's answers for the state of a user's own function
_BY_OPERATOR = (
    "the checkpoint is of a query whose clauses used the operator of the JVM extension. Now they run as DataFrame programs (sparkcep.stream.route, or the extension is missing). "
    "Run the query as before, or begin with a new checkpoint"
)


def states(session: SparkSession, checkpoint: str, operator: int = 0, several: bool = False, batch: int | None = None) -> DataFrame:
    """Returns the state of one clause, a row per bucket with the binary column ``state``.

    ``operator``: Spark's number of the stateful operator. ``several``: whether the clause was built so that a query may have
    several. ``batch``: the micro-batch that left the state, by default the last one.
    """
    reader = session.read.format("statestore").option("operatorId", operator)
    if batch is not None:
        reader = reader.option("batchId", batch)
    if several:
        reader = reader.option("stateVarName", BUCKET)
    column = "value.state" if several else "value.groupState.state"
    return reader.load(checkpoint).select(F.col(column).alias("state")).where("state IS NOT NULL")


def statement_of(kept: DataFrame, checkpoint: str) -> bytes | None:
    """Returns the statement of the buckets ``kept``, which are rows of :func:`states`. Returns None if there are none.

    Raises MatchRuntimeError for a damaged bucket.
    """
    first = kept.first()
    try:
        return None if first is None else Bucket.read(bytes(first.state)).statement
    except MatchRuntimeError as error:
        raise error.kept_in(checkpoint) from error.__cause__


def check_kept(session: SparkSession, checkpoint: str, statements: list[bytes]) -> None:
    """Raises ClauseError if the clauses of a query, with these ``statements``, cannot resume from its checkpoint.

    The first micro-batch compares them again, in each bucket.
    """
    if not _is_known(session, checkpoint):
        return
    now = [*map(json.loads, statements)]
    operators = {(row.operatorId, row.operatorName) for row in session.read.format("state-metadata").load(checkpoint).collect()}
    if any(name == OPERATOR_NAME for _, name in operators):
        raise wrong(Plan.from_json(now[0]["plan"]), _BY_OPERATOR, UNSUPPORTED)
    before = [kept for number, name in sorted(operators) if name in (_ALONE, _SEVERAL) for kept in _statements(session, checkpoint, number, name == _SEVERAL)]
    check_times(len(before), now)
    # Spark numbers stateful operators by their place in the plan, which may have changed.
    changed, others = ([json.loads(one) for one in some if one and one not in rest] for some, rest in ((before, statements), (statements, before)))
    for one, other in zip(changed, others, strict=False):
        check_changed(one, other)


def states_at(session: SparkSession, checkpoint: str, batch: int) -> list[tuple[bytes, DataFrame]]:
    """Returns the statement and the states of each clause of a query after a micro-batch, b"" if no bucket has a state."""
    operators = sorted((row.operatorId, row.operatorName) for row in session.read.format("state-metadata").load(checkpoint).collect())
    found = []
    for number, name in operators:
        several = name == _SEVERAL
        if name in (_ALONE, _SEVERAL) and (known := _statements(session, checkpoint, number, several, batch)):
            found.append((known[0], states(session, checkpoint, number, several, batch)))
    return found


def _statements(session: SparkSession, checkpoint: str, operator: int, several: bool, batch: int | None = None) -> list[bytes]:
    """Returns the statement of the clause with this state as a list of one: b"" if it is unknown.

    Returns [] for a user's function.
    """
    try:
        return [statement_of(states(session, checkpoint, operator, several, batch), checkpoint) or b""]
    except PySparkException as error:
        if error.getCondition() not in _NOT_OURS:
            raise
        return []


def _is_known(session: SparkSession, checkpoint: str) -> bool:
    """Whether a query with this checkpoint has committed a micro-batch."""
    try:
        session.read.format("statestore").load(checkpoint).schema  # noqa: B018 - a plain access runs the request over Spark Connect
    except PySparkException as error:
        return error.getCondition() != _NOTHING_YET  # reading a state reports all other problems
    return True
