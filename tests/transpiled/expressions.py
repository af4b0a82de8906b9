"""Expressions of other engines with their values there, over three rows ``t`` in the order of ``id``, in one match ``A+`` of all of
them.

    id | v  | s    | d          | ts                  | arr       | m
    1  | 10 | ab   | 2024-01-31 | 2024-01-31 10:00:00 | [1, 2]    | {k: 1}
    2  | 20 | cd   | 2024-02-29 | 2024-02-29 12:30:00 | [3]       | {k: 2}
    3  | 30 | NULL | 2024-03-31 | 2024-03-31 23:59:59 | [4, 5, 6] | {j: 3}
"""

from __future__ import annotations

ROWS = """SELECT * FROM VALUES
(1, 10, 'ab', DATE '2024-01-31', TIMESTAMP '2024-01-31 10:00:00', array(1, 2), map('k', 1)),
(2, 20, 'cd', DATE '2024-02-29', TIMESTAMP '2024-02-29 12:30:00', array(3), map('k', 2)),
(3, 30, NULL, DATE '2024-03-31', TIMESTAMP '2024-03-31 23:59:59', array(4, 5, 6), map('j', 3)) AS t(id, v, s, d, ts, arr, m)"""

_TRINO = """IF(LAST(v) > 20, 'big', 'small') | big
COALESCE(LAST(s), 'none') | none
NULLIF(FIRST(v), 10) | NULL
cardinality(LAST(arr)) | 3
contains(FIRST(arr), 2) | true
array_join(FIRST(arr), '-') | 1-2
array_join(transform(FIRST(arr), x -> x * 10), '-') | 10-20
reduce(LAST(arr), 0, (a, x) -> a + x, a -> a) | 15
filter(LAST(arr), x -> x > 4)[1] | 5
substr(FIRST(s), 2, 1) | b
strpos(FIRST(s), 'b') | 2
upper(FIRST(s)) || '!' | AB!
regexp_like(FIRST(s), '^a') | true
date_add('day', 1, FIRST(d)) | 2024-02-01
date_diff('day', FIRST(d), LAST(d)) | 60
year(FIRST(d)) | 2024
extract(month FROM LAST(d)) | 3
FIRST(d) + INTERVAL '1' DAY | 2024-02-01
approx_distinct(v) | 3
min_by(s, v) | ab
bool_or(v > 20) | true
arbitrary(v > 0) | true
count_if(v > 10) | 2
greatest(FIRST(v), LAST(id)) | 10
mod(LAST(v), 7) | 2
bitwise_and(FIRST(v), 6) | 2
json_extract_scalar('{"a": 1}', '$.a') | 1
date_format(FIRST(ts), '%Y-%m') | 2024-01
ARRAY[7, 8][2] | 8
element_at(FIRST(arr), 1) | 1
element_at(FIRST(m), 'k') | 1
FIRST(m)['k'] | 1
DATE '2024-01-01' < FIRST(d) | true
CASE WHEN count(*) = 3 THEN 'three' END | three
CAST(FIRST(v) AS varchar) | 10
TRY_CAST('x' AS integer) | NULL
LAST(v, 1) - PREV(v, 2) | 10
avg(A.v) | 20.0
FINAL LAST(A.v) - RUNNING FIRST(A.v) | 20
count(A.s) | 2
NEXT(v) IS NULL | true
FIRST(v) IS DISTINCT FROM 10 | false
FIRST(v) BETWEEN 5 AND 10 AND FIRST(s) NOT IN ('x', 'y') | true"""

_SNOWFLAKE = """NVL(LAST(s), 'x') | x
IFNULL(LAST(s), 'y') | y
NVL2(FIRST(s), 'y', 'n') | y
DECODE(FIRST(v), 10, 'ten', 'other') | ten
DATEADD('day', 1, FIRST(d)) | 2024-02-01
DATEDIFF('day', FIRST(d), LAST(d)) | 60
FIRST(s) ILIKE 'A%' | true
FIRST(v)::string || 'x' | 10x
BOOLOR_AGG(v > 20) | true
LEFT(FIRST(s), 1) | a
SPLIT_PART('a-b', '-', 2) | b
ARRAY_SIZE(FIRST(arr)) | 2
EQUAL_NULL(LAST(s), NULL) | true
YEAR(FIRST(d)) | 2024
COUNT_IF(v > 10) | 2
DIV0(10, 4) | 2.5
MIN(A.v) || '-' || MAX(A.v) | 10-30"""

_ORACLE = """NVL2(LAST(s), 'y', 'n') | n
DECODE(LAST(v), 10, 'ten', 'other') | other
SUBSTR(FIRST(s), 1, 1) | a
INSTR(FIRST(s), 'b') | 2
MOD(LAST(v), 7) | 2
LENGTH(FIRST(s)) | 2
ADD_MONTHS(FIRST(d), 1) | 2024-02-29
CAST(FIRST(v) AS NUMBER(10, 1)) | 10.0
EXTRACT(YEAR FROM FIRST(d)) | 2024
GREATEST(FIRST(v), 11) | 11
UPPER(FIRST(s)) || LOWER('X') | ABx
COUNT(*) | 3
MATCH_NUMBER() || CLASSIFIER() | 1A"""

_FLINK = """COALESCE(LAST(A.s), 'none') | none
UPPER(FIRST(A.s)) | AB
CHAR_LENGTH(FIRST(A.s)) | 2
SUBSTRING(FIRST(A.s) FROM 2 FOR 1) | b
MOD(LAST(A.v), 7) | 2
CAST(FIRST(A.v) AS STRING) | 10
LAST(A.v, 1) | 20
SUM(A.v) | 60
AVG(A.v) > 19.5 | true
CASE WHEN MIN(A.v) < 11 THEN 'low' ELSE 'high' END | low
REGEXP_EXTRACT(FIRST(s), '(.)b') | ab
REGEXP_EXTRACT(FIRST(s), '(.)b', 1) | a
REGEXP_EXTRACT(FIRST(s), '\\d') | NULL
SPLIT_INDEX('a.b|c', '.', 1) | b|c
SPLIT_INDEX('a.b', '.', 2) | NULL
SPLIT_INDEX(REGEXP_EXTRACT('x-y', '.*'), '-', 1) | y
FROM_BASE64(TO_BASE64(FIRST(s))) | ab
SHA256('a') = SHA2('a', 256) | true
TIMESTAMPDIFF(MINUTE, TIMESTAMP '2024-01-31 10:00:00', FIRST(ts)) | 0
TIMESTAMPADD(HOUR, 2, FIRST(ts)) | 2024-01-31 12:00:00
FLOOR(LAST(ts) TO HOUR) | 2024-03-31 23:00:00
CEIL(LAST(ts) TO MONTH) | 2024-04-01 00:00:00
CEIL(FIRST(ts) TO HOUR) | 2024-01-31 10:00:00
CEIL(TIMESTAMP '2024-01-31 10:00:00.5' TO MINUTE) | 2024-01-31 10:01:00
CEIL(1.2) | 2
TRUNCATE(-1.27, 1) | -1.2
TRUNCATE(1.29) | 1
LAST(arr)[2] | 5
LAST(arr)[4] | NULL
LAST(m)['j'] | 3
ARRAY['p', 'q'][2] | q
MAP['k', 7]['k'] | 7
CARDINALITY(LAST(arr)) | 3
ROW(1, 'a') | {1, a}
CAST(ROW(1, 'a') AS ROW<x BIGINT, y STRING>) | {1, a}
STR_TO_MAP('u=1,v=2')['v'] | 2
LISTAGG(s) | ab,cd
LISTAGG(s, ';') | ab;cd
TO_TIMESTAMP_LTZ(0, 0) | 1970-01-01 00:00:00
TO_TIMESTAMP_LTZ(1500, 3) | 1970-01-01 00:00:01.5
TO_TIMESTAMP('not a time') | NULL
CONVERT_TZ('1970-01-01 00:00:00', 'UTC', 'America/Los_Angeles') | 1969-12-31 16:00:00
JSON_VALUE('{"a": 5}', '$.a') | 5
WEEK(FIRST(d)) | 5
DATE_FORMAT(FIRST(ts), 'yyyy-MM') | 2024-01
INITCAP('ab cd') | Ab Cd
ARRAY_CONCAT(FIRST(arr), LAST(arr)) | [1, 2, 4, 5, 6]"""

_DUCKDB = """FIRST(v) // 4 | 2
len(FIRST(s)) | 2
date_diff('day', FIRST(d), LAST(d)) | 60
COALESCE(LAST(s), 'none') | none
FIRST(arr)[2] | 2
list_contains(FIRST(arr), 2) | true
FIRST(v)::VARCHAR || 'x' | 10x
count(*) FILTER (WHERE v > 10) | 2
bool_or(v > 20) | true
strpos(FIRST(s), 'b') | 2"""

_BIGQUERY = """SAFE_CAST('x' AS INT64) | NULL
IF(LAST(v) > 20, 'big', 'small') | big
IFNULL(LAST(s), 'y') | y
DATE_DIFF(LAST(d), FIRST(d), DAY) | 60
DATE_ADD(FIRST(d), INTERVAL 1 DAY) | 2024-02-01
STARTS_WITH(FIRST(s), 'a') | true
FIRST(arr)[OFFSET(0)] | 1
FIRST(arr)[ORDINAL(1)] | 1
COUNTIF(v > 10) | 2
LOGICAL_OR(v > 20) | true
DIV(LAST(v), 7) | 4
MOD(LAST(v), 7) | 2
ARRAY_LENGTH(FIRST(arr)) | 2
CONCAT(FIRST(s), '!') | ab!
EXTRACT(YEAR FROM FIRST(d)) | 2024"""

_DATABRICKS = """FIRST(v) DIV 4 | 2
LAST(v, 1) + FIRST(v, 1) | 40
nvl(LAST(s), 'x') | x
FIRST(arr)[0] | 1
date_add(FIRST(d), 1) | 2024-02-01
datediff(LAST(d), FIRST(d)) | 60
count_if(v > 10) | 2
try_cast('x' AS INT) | NULL
size(LAST(arr)) | 3
array_join(array_agg(s), ',') | ab,cd
FIRST(v)::string | 10"""

EXPRESSIONS = [
    (read, *line.rsplit(" | ", 1))
    for read, lines in (
        ("trino", _TRINO), ("snowflake", _SNOWFLAKE), ("oracle", _ORACLE), ("flink", _FLINK), ("duckdb", _DUCKDB), ("bigquery", _BIGQUERY), ("databricks", _DATABRICKS),
    )
    for line in lines.split("\n")
]  # fmt: skip
