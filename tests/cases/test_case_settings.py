"""The SQL cases under other settings of Spark's: rows are the same, but for cases that are about the setting."""

from __future__ import annotations

import pytest

from tests.cases.sql_case_files import read_case_file
from tests.cases.test_sql_cases import FILES, Views, check_case, starts_no_job

SETTINGS = {
    "lenient": {"spark.sql.ansi.enabled": "false", "spark.sql.session.timeZone": "Pacific/Auckland"},
    "exact names": {"spark.sql.caseSensitive": "true", "spark.sql.codegen.wholeStage": "false", "spark.sql.codegen.factoryMode": "NO_CODEGEN"},
}
# cases whose outcome is another one under a setting, as Spark's own is: file/case -> why
LENIENT = "without ANSI Spark gives NULL, or a number that wrapped, in place of the error"
SIZE = "without ANSI size(NULL) is -1"
ZONE = "its table has instants, and its statement texts of another time zone"
CASE = "it spells a column in another case"
OTHERWISE: dict[str, dict[str, str]] = {
    "lenient": {
        "measures/expressions/division_by_zero_in_measures": LENIENT,
        "measures/expressions/division_by_zero_in_define": LENIENT,
        "ranking/joined/overflow": LENIENT,
        "scenarios/scenarios/funnel_within_an_hour": ZONE,
        "values/ansi/overflow_across_rows": LENIENT,
        "values/ansi/overflow_of_physical_neighbours": LENIENT,
        "values/ansi/overflow_of_a_small_type": LENIENT,
        "values/ansi/overflow_in_a_measure": LENIENT,
        "values/ansi/negation_and_abs_of_the_smallest": LENIENT,
        "values/ansi/sum_of_bigints_overflows_in_define": LENIENT,
        "values/ansi/sum_of_bigints_overflows_in_measures": LENIENT,
        "values/ansi/bigint_addition_overflows_in_define": LENIENT,
        "values/ansi/bigint_subtraction_overflows_in_define": LENIENT,
        "values/ansi/bigint_multiplication_overflows_in_define": LENIENT,
        "values/ansi/sum_of_bigints_in_define": LENIENT,
        "values/ansi/distinct_sum_of_bigints_overflows_in_define": LENIENT,
        "values/ansi/bad_cast_across_rows": LENIENT,
        "values/ansi/bad_cast_in_a_measure": LENIENT,
        "values/ansi/division_by_a_count_that_is_zero": LENIENT,
        "values/ansi/remainder_by_zero_across_rows": LENIENT,
        "values/ansi/element_beyond_the_array": LENIENT,
        "values/ansi/string_and_number_compared": LENIENT,
        "values/ansi/sum_of_bigint_in_measures": LENIENT,
        "values/ansi/sum_of_bigint_in_define": LENIENT,
        "values/ansi/sum_of_decimals_beyond_their_type": LENIENT,
        "values/decimals/sums_beyond_38_digits": LENIENT,
        "values/functions/in_measures": ZONE,
        "values/functions/in_define": ZONE,
        "values/functions/ansi_error_in_a_condition": LENIENT,
        "values/functions/ansi_error_in_a_measure": LENIENT,
        "values/functions/division_by_zero_across_rows": LENIENT,
        "values/label_aggregates/average_of_intervals": ZONE,
        "values/nested_values/elements_of_neighbours": SIZE,
        "values/types/measures_keep_their_types": ZONE,
        "values/types/aggregates_of_types": ZONE,
    },
    "exact names": {
        "expressions/aggregates_of_conditions/count_div": CASE,
        "expressions/navigation/column_names_ignore_case": CASE,
        "statements/words/column_qualified_by_nothing_but_case": CASE,
    },
}


@pytest.fixture(scope="module")
def views(spark):
    return Views(spark)


@pytest.mark.slow
@pytest.mark.codegen
@pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parent.name}/{path.stem}")
@pytest.mark.parametrize("name", SETTINGS)
def test_cases(spark, views, name, path):
    file = read_case_file(path)
    before = {key: spark.conf.get(key, None) for key in SETTINGS[name]}
    wrong, tried = [], 0
    try:
        for case in file.cases:
            known = f"{path.parent.name}/{path.stem}/{case.name}" in OTHERWISE[name]
            if case.fails or case.settings or starts_no_job(case):
                continue  # errors of analysis are the same texts; cases with settings of their own stay as they are
            for key, value in before.items():
                spark.conf.unset(key) if value is None else spark.conf.set(key, value)
            views.load(file)
            for key, value in SETTINGS[name].items():
                spark.conf.set(key, value)
            tried += 1
            try:
                for statement in case.statements[:-1]:
                    spark.sql(statement)
                check_case(spark, case)
            except (Exception, pytest.fail.Exception) as error:  # noqa: BLE001 - all of a file's are told together
                if not known:
                    wrong.append(f"{path.parent.name}/{path.stem}/{case.name}: {str(error)[:300]}")
            else:
                if known:
                    wrong.append(f"{case.name} is the same, so it need not be listed")
    finally:
        for key, value in before.items():
            spark.conf.unset(key) if value is None else spark.conf.set(key, value)
    assert not wrong, "\n".join(wrong)
    assert tried or all(c.error is not None or c.settings for c in file.cases)
