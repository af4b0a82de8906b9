"""What a checkpoint has of clauses over streams that are programs of data frames, read by Spark's own sources of states, in classic
sessions and over Spark Connect."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from pyspark.errors import PySparkException
from pyspark.sql import functions as F

from sparkcep.engine.stream.key_buckets import Bucket
from sparkcep.errors import UNSUPPORTED, MatchRuntimeError
from sparkcep.plan.plan import Plan
from sparkcep.spark.stream.jvm_operator import FRAME_OPERATORS, OPERATOR_NAME, check_changed, check_times, wrong

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

BUCKET = "bucket"  # the name of the state where several clauses stand in a query
_ALONE, _SEVERAL = FRAME_OPERATORS
_NOTHING_YET = "STDS_COMMITTED_BATCH_UNAVAILABLE"
_NOT_OURS = "FIELD_NOT_FOUND", "STDS_INVALID_OPTION_VALUE.WITH_MESSAGE"  # Spark's answers where a user's own function keeps a state
_BY_OPERATOR = (
    "the checkpoint is of a query whose clauses ran by the operator of the JVM's extension, and now they are programs of data frames (sparkcep.stream.route, or the extension is missing); "
    "run the query as it was, or begin with a new checkpoint"
)


def states(session: SparkSession, checkpoint: str, operator: int = 0, several: bool = False) -> DataFrame:
    """What is kept of the buckets of one clause, a row for each: ``state`` binary. ``operator``: the number by which Spark knows
    what keeps it; ``several``: whether the clause was made to stand in a query with others."""
    reader = session.read.format("statestore").option("operatorId", operator)
    if several:
        reader = reader.option("stateVarName", BUCKET)
    column = "value.state" if several else "value.groupState.state"
    return reader.load(checkpoint).select(F.col(column).alias("state")).where("state IS NOT NULL")


def statement_of(kept: DataFrame, checkpoint: str) -> bytes | None:
    """The statement whose buckets are ``kept`` in a checkpoint, as :func:`states` has them; None where none is. Raises
    MatchRuntimeError for a bucket that is damaged."""
    first = kept.first()
    try:
        return None if first is None else Bucket.read(bytes(first.state)).statement
    except MatchRuntimeError as error:
        raise error.kept_in(checkpoint) from error.__cause__


def check_kept(session: SparkSession, checkpoint: str, statements: list[bytes]) -> None:
    """Raises ClauseError where the clauses of a query, with these ``statements``, cannot go on with what its checkpoint has. The
    first micro-batch compares once more, in each bucket."""
    if not _is_known(session, checkpoint):
        return
    now = [*map(json.loads, statements)]
    operators = {(row.operatorId, row.operatorName) for row in session.read.format("state-metadata").load(checkpoint).collect()}
    if any(name == OPERATOR_NAME for _, name in operators):
        raise wrong(Plan.from_json(now[0]["plan"]), _BY_OPERATOR, UNSUPPORTED)
    before = [kept for number, name in sorted(operators) if name in (_ALONE, _SEVERAL) for kept in _statements(session, checkpoint, number, name == _SEVERAL)]
    check_times(len(before), now)
    # Spark numbers what keeps a state by where it stands in the plan, which may have moved
    changed, others = ([json.loads(one) for one in some if one and one not in rest] for some, rest in ((before, statements), (statements, before)))
    for one, other in zip(changed, others, strict=False):
        check_changed(one, other)


def _statements(session: SparkSession, checkpoint: str, operator: int, several: bool) -> list[bytes]:
    """The statement of the clause whose state that is, empty where it is not known; none where it is a user's own function's."""
    try:
        return [statement_of(states(session, checkpoint, operator, several), checkpoint) or b""]
    except PySparkException as error:
        if error.getCondition() not in _NOT_OURS:
            raise
        return []


def _is_known(session: SparkSession, checkpoint: str) -> bool:
    """Whether a query with that checkpoint has committed a micro-batch."""
    try:
        session.read.format("statestore").load(checkpoint).schema  # noqa: B018 - over Spark Connect this asks
    except PySparkException as error:
        return error.getCondition() != _NOTHING_YET  # whatever else is to be said of a state is said where it is read
    return True
