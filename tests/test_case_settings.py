"""The SQL cases under other settings of Spark's: rows are the same, but for cases that are about the setting."""

from __future__ import annotations

import pytest

from tests.sql_case_files import read_case_file
from tests.test_sql_cases import FILES, Views, check_case, starts_no_job

SETTINGS = {
    "lenient": {"spark.sql.ansi.enabled": "false", "spark.sql.session.timeZone": "Pacific/Auckland"},
    "exact names": {"spark.sql.caseSensitive": "true", "spark.sql.codegen.wholeStage": "false", "spark.sql.codegen.factoryMode": "NO_CODEGEN"},
}
# cases whose outcome is another one under a setting, as Spark's own is: file/case -> why
OTHERWISE: dict[str, dict[str, str]] = {"lenient": {}, "exact names": {}}


@pytest.fixture(scope="module")
def views(spark):
    return Views(spark)


@pytest.mark.slow
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
            for key, value in before.items():  # Spark's own list of tables cannot be read where encoders are interpreted
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
