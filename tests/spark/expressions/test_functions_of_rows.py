"""Every function by which Spark would change the number of rows is refused where an expression is of one row."""

from __future__ import annotations

import pytest

from sparkcep.errors import ClauseError
from sparkcep.plan.scope import AGGREGATES, NAVIGATIONS, NOT_OF_A_ROW
from sparkcep.sql.rewrite.rewrite import rewrite


@pytest.fixture(scope="module")
def groups(spark):
    """Names of Spark's functions by the group that their documentation gives."""
    registry = spark._jsparkSession.sessionState().functionRegistry()
    names, out = registry.listFunction().iterator(), {}
    while names.hasNext():
        name = names.next()
        described = registry.lookupFunction(name)
        if described.isDefined():
            out.setdefault(described.get().getGroup(), set()).add(name.funcName().upper())
    return out


def test_each_aggregate_window_function_and_generator_is_known(groups):
    assert groups["agg_funcs"] <= AGGREGATES | NAVIGATIONS | set(NOT_OF_A_ROW)
    assert groups["window_funcs"] | groups["generator_funcs"] <= set(NOT_OF_A_ROW)


@pytest.mark.parametrize("place", ["PARTITION BY {}", "ORDER BY {}", "ORDER BY abs({})", "ORDER BY builtin.{}", "ORDER BY System.Builtin.{}"])
def test_none_of_them_stands_in_a_key(place):
    for name in sorted(AGGREGATES | NAVIGATIONS | set(NOT_OF_A_ROW)):
        with pytest.raises(ClauseError, match="NOT_A_ROW_EXPRESSION|SEMANTICS"):
            rewrite(f"SELECT * FROM t MATCH_RECOGNIZE ({place.format(f'{name}(x)')} MEASURES count(*) AS n PATTERN (A))")


@pytest.mark.parametrize("place", ["MEASURES LAST({}) AS m PATTERN (A)", "MEASURES count(*) AS n PATTERN (A) DEFINE A AS {} > 1"])
def test_window_functions_and_generators_stand_nowhere(place):
    for name in sorted(NOT_OF_A_ROW):
        with pytest.raises(ClauseError, match="NOT_A_ROW_EXPRESSION"):
            rewrite(f"SELECT * FROM t MATCH_RECOGNIZE (ORDER BY i {place.format(f'{name}(x)')})")
