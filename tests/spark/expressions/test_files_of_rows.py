"""The name of a row's file belongs to the row, like its columns."""

from __future__ import annotations


def test_names_of_files(spark, tmp_path):
    for name, rows in (("a", "VALUES (1), (2), (5)"), ("b", "VALUES (3), (4)")):
        spark.sql(f"SELECT col1 AS id FROM {rows}").coalesce(1).write.parquet(str(tmp_path / name))
    spark.read.parquet(str(tmp_path / "a"), str(tmp_path / "b")).createOrReplaceTempView("of_two_files")
    of = {row.id: row.file for row in spark.sql("SELECT id, input_file_name() AS file FROM of_two_files").collect()}
    found = spark.sql("""
        SELECT * FROM of_two_files MATCH_RECOGNIZE (
          ORDER BY id
          MEASURES FIRST(id) AS f, LAST(id) AS l, FIRST(input_file_name()) AS first, input_file_name() AS last, count(DISTINCT input_file_name()) AS files
          PATTERN (A B*) DEFINE B AS input_file_name() = PREV(input_file_name()))""").collect()
    assert sorted(map(tuple, found)) == [(f, l, of[f], of[l], 1) for f, l in ((1, 2), (3, 4), (5, 5))]
    assert len(set(of.values())) == 2 and all(of.values())
