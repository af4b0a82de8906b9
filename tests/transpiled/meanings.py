"""Values of other engines' calls and operators on the edges: NULL, ends of months, boundaries, Sunday, 0, whole against part.

A line is ``expression | value there`` below the page that says so, ``expression ~ part of a note`` where Spark's value may be
another one, or ``expression ! part of the error`` where Spark has nothing. All expressions with values of one engine are the
measures of one clause over these rows, so a column is that of the last row, and an aggregate is over all three.

    id | v    | s    | n    | k  | x     | f    | d          | ts                     | arr          | b
    1  | 1    | ab   | NULL | 7  | 1.50  | 1.5  | 2024-01-31 | 2024-01-31 23:30:00    | [1, NULL, 3] | true
    2  | 2    | NULL | NULL | -7 | 2.25  | 0.5  | 2024-02-29 | 2024-02-01 00:30:00    | [1, NULL, 3] | NULL
    3  | NULL | cd   | NULL | 7  | -1.25 | -1.5 | 2023-12-31 | 2023-12-31 23:59:59.75 | [1, NULL, 3] | false
"""

from __future__ import annotations

from dataclasses import dataclass

ROWS = """SELECT * FROM VALUES
(1, 1, 'ab', CAST(NULL AS INT), 7, 1.50BD, 1.5D, DATE '2024-01-31', TIMESTAMP '2024-01-31 23:30:00', array(1, NULL, 3), true, map('k', 1)),
(2, 2, NULL, CAST(NULL AS INT), -7, 2.25BD, 0.5D, DATE '2024-02-29', TIMESTAMP '2024-02-01 00:30:00', array(1, NULL, 3), NULL, map('k', 1)),
(3, NULL, 'cd', CAST(NULL AS INT), 7, -1.25BD, -1.5D, DATE '2023-12-31', TIMESTAMP '2023-12-31 23:59:59.75', array(1, NULL, 3), false, map('k', 1))
AS t(id, v, s, n, k, x, f, d, ts, arr, b, m)"""

_TRINO = r"""
# Trino: Comparison functions and operators
greatest(k, n) | NULL
greatest(1, k) | 7
least(n, 1) | NULL
least(k, 9) | 7
n IS DISTINCT FROM NULL | false
s LIKE 'c\%' | false
'c\x' LIKE 'c\%' | true
'c%' LIKE 'c#%' ESCAPE '#' | true
s LIKE s ~ a backslash in the pattern
s SIMILAR TO 'a' ! Spark does not support SIMILAR TO
# Trino: Conditional expressions
if(k > 9, 1) | NULL
if(n > 0, 1, 2) | 2
coalesce(n, 5) | 5
nullif(7, k) | NULL
CASE WHEN n = 1 THEN 'a' END | NULL
try(1 / 0) ! Spark does not support TRY
# Trino: Mathematical functions and operators
7 / 2 | 3
-7 / 2 | -3
7 / 2e0 | 3.5
7 / (1 - CAST(-1 AS double)) | 3.5
7 / 2.0 ~ of DECIMALs has only the digits
100.0 * count(*) / 3 ~ of DECIMALs has only the digits
k / v ~ / of two integers cuts off there
-7 % 3 | -1
mod(-7, 3) | -1
abs(f) | 1.5
ceil(-1.5) | -1
ceiling(1.2) | 2
floor(-1.2) | -2
round(-2.5) | -3
round(2.345, 2) | 2.35
round(125, -1) | 130
truncate(-1.9) | -1
truncate(-1.27, 1) | -1.2
truncate(x, 1) | -1.2
sign(f) | -1
sqrt(9) | 3
cbrt(27) | 3
exp(0) | 1
e() > 2.7 | true
pi() < 3.2 | true
power(2, 3) | 8
pow(2, -1) | 0.5
degrees(0) | 0
radians(0) | 0
sin(0) | 0
cos(0) | 1
tan(0) | 0
asin(0) | 0
acos(1) | 0
atan(0) | 0
atan2(0, 1) | 0
sinh(0) | 0
cosh(0) | 1
tanh(0) | 0
ln(1) | 0
ln(x) ~ a logarithm of 0 or less
log(2, 8) | 3
log(2, x) ~ a logarithm of 0 or less
log2(8) | 3
log10(100) | 2
width_bucket(5.0, 0.0, 10.0, 5) | 3
width_bucket(10.0, 0.0, 10.0, 5) | 6
is_nan(n) | NULL
is_nan(f) | false
rand() ~ draws other numbers
random() ~ draws other numbers
random(10) ! Spark's RAND takes a seed
bitwise_and(6, 3) | 2
bitwise_or(6, 3) | 7
bitwise_xor(6, 3) | 5
bitwise_not(0) | -1
# Trino: Conversion functions (CAST rounds: Data types)
CAST(2.5 AS integer) | 3
CAST(-2.5 AS bigint) | -3
CAST(f AS integer) ~ rounds there and cuts off here
CAST('abcdef' AS varchar(3)) | abc
CAST(7 AS varchar) | 7
CAST(f AS varchar) ~ are formatted differently
CAST(1.5 AS decimal) | 2
CAST('1.5' AS decimal) | 2
DECIMAL '1.5' | 1.5
x > DECIMAL '-1.25' | false
CAST(ts AS timestamp(0)) ~ only 0 digits of a second
CAST(ts AS timestamp) ~ only 3 digits of a second
CAST('2024-01-31 10:00:00.25' AS timestamp(3)) | 2024-01-31 10:00:00.25
CAST('2024-01-31 10:00:00.123' AS timestamp) | 2024-01-31 10:00:00.123
CAST('2024-01-31 10:00:00.1234' AS timestamp) ~ only 3 digits of a second
CAST(ts AS timestamp(9)) ~ has 9 digits of a second
TIMESTAMP '2024-01-31 10:00:00.1234567' ~ has 7 digits of a second
TIMESTAMP '2024-01-31 10:00:00.123456' | 2024-01-31 10:00:00.123456
TIME '10:00:00' < CAST(ts AS time) ~ TIME is off in Spark
TRY_CAST('x' AS integer) | NULL
TRY_CAST(2.5 AS integer) | 3
# Trino: String functions and operators
s || n IS NULL | true
concat('a', CAST(NULL AS varchar)) | NULL
concat_ws(',', 'a', CAST(NULL AS varchar), 'b') | a,b
concat_ws(',', 'a', '') | a,
upper('aé') | AÉ
lower('Ab') | ab
length('aé') | 2
length('') | 0
reverse('abc') | cba
lpad('abc', 2, 'x') | ab
rpad('a', 3, 'xy') | axy
substr('abc', 2) | bc
substr('abc', 0) | ''
substr('abc', -2) | bc
substr('abc', -5) | ''
substr(s, k - 7, 2) | ''
substring('abc', 4) | ''
substring('abc' FROM 2 FOR 1) | b
strpos('abc', 'c') | 3
strpos('abc', 'x') | 0
strpos('abab', 'b', 2) ! only the first occurrence
position('b' IN 'abc') | 2
replace('abab', 'b') | aa
replace('abab', 'b', 'x') | axax
replace('abab', s, 'x') ~ an empty search string
split('a.b', '.')[2] | b
array_join(split('a.b.c', '.', 2), ' ') | a b.c
cardinality(split('', ',')) | 1
split_part('a.b', '.', 1) | a
split_part('a.b', '.', 3) | NULL
starts_with('abc', 'ab') | true
ends_with('abc', 'bc') | true
translate('abcda', 'ab', 'z') | zcdz
levenshtein_distance('ab', 'b') | 1
chr(65) | A
chr(k * 100) ~ codes from 256
codepoint('A') | 65
overlay('Txxxxas' PLACING 'hom' FROM 2 FOR 4) | Thomas
overlay('abc' PLACING 'XYZ' FROM 3) | abXYZ
trim(s) ~ tabs and line ends
trim(BOTH '$' FROM '$var$') | var
ltrim(s) ~ tabs and line ends
rtrim(s) ~ tabs and line ends
# Trino: Regular expression functions
regexp_like('1a 2b 14m', '\d+b') | true
regexp_extract('1a 2b', '\d+') | 1
regexp_extract('1a 2b', '(\d+)([a-z]+)', 2) | a
regexp_extract('ab', '\d+') | NULL
regexp_replace('1a 2b 14m', '\d+[ab] ') | 14m
regexp_replace('1a 2b 14m', '(\d+)([ab]) ', '3c$2 ') | 3ca 3cb 14m
regexp_count('1a 2b 14m', '\s*[a-z]+\s*') | 3
cardinality(regexp_split('1a 2b 14m', '\s*[a-z]+\s*')) | 4
array_join(regexp_extract_all('1a 2b 14m', '\d+'), ',') | 1,2,14
# Trino: Date and time functions and operators
day_of_week(DATE '2023-12-31') | 7
day_of_week(DATE '2024-01-03') | 3
dow(d) | 7
extract(dow FROM d) | 7
extract(day_of_week FROM DATE '2024-01-01') | 1
day_of_year(d) | 365
doy(DATE '2024-12-31') | 366
extract(doy FROM d) | 365
day_of_month(d) | 31
year_of_week(DATE '2021-01-01') | 2020
yow(DATE '2024-12-30') | 2025
extract(yow FROM DATE '2021-01-01') | 2020
week(DATE '2021-01-01') | 53
week_of_year(DATE '2024-01-01') | 1
extract(week FROM DATE '2021-01-01') | 53
year(d) | 2023
quarter(d) | 4
month(d) | 12
day(d) | 31
hour(ts) | 23
minute(ts) | 59
second(ts) | 59
extract(second FROM ts) | 59
extract(timezone_hour FROM ts) ! EXTRACT does not have a part
last_day_of_month(DATE '2024-02-01') | 2024-02-29
date(ts) | 2023-12-31
date_diff('day', TIMESTAMP '2024-01-31 23:30:00', TIMESTAMP '2024-02-01 00:30:00') | 0
date_diff('hour', TIMESTAMP '2024-01-31 23:30:00', TIMESTAMP '2024-02-01 00:30:00') | 1
date_diff('week', DATE '2024-01-01', DATE '2024-01-14') | 1
date_diff('day', d, DATE '2024-01-01') | 1
date_diff('month', d, d) ~ the end of one month
date_add('month', 1, DATE '2024-01-31') | 2024-02-29
date_add('month', 1, DATE '2024-02-29') | 2024-03-29
date_add('day', -1, DATE '2024-03-01') | 2024-02-29
date_add('hour', 1, ts) | 2024-01-01 00:59:59.75
date_add('day', k, d) ~ an amount that is not a literal
date_trunc('week', TIMESTAMP '2023-12-31 10:00:00') | 2023-12-25 00:00:00
date_trunc('month', DATE '2024-02-29') | 2024-02-01
date_trunc('month', d) ~ of a DATE is a DATE there
DATE '2024-01-31' + INTERVAL '1' MONTH | 2024-02-29
DATE '2024-03-31' - INTERVAL '1' MONTH | 2024-02-29
ts + INTERVAL '1' SECOND | 2024-01-01 00:00:00.75
from_unixtime(1, 'UTC') ! does not carry a time zone
from_unixtime(1.5) | 1970-01-01 00:00:01.5
to_unixtime(TIMESTAMP '1970-01-01 00:00:01.5') | 1.5
date_format(ts, '%Y-%m-%d %H:%i:%s') | 2023-12-31 23:59:59
date_format(ts, '%W') ~ some parts of this format
date_parse('2024-01-31', '%Y-%m-%d') | 2024-01-31 00:00:00
date_parse(s, '%W') ~ some parts of this format
current_date > DATE '2024-01-01' | true
current_timestamp > TIMESTAMP '2024-01-01 00:00:00' | true
now() > TIMESTAMP '2024-01-01 00:00:00' | true
localtimestamp > TIMESTAMP '2024-01-01 00:00:00' | true
ts AT TIME ZONE 'UTC' ~ AT TIME ZONE
# Trino: Aggregate functions
any_value(v) | 1
arbitrary(n) | NULL
count(v) | 2
count(*) | 3
sum(n) | NULL
sum(x) | 2.50
min(v) | 1
max(s) | cd
max(v, 2) ! has one argument in Spark
avg(v) ~ the average of DECIMALs
avg(CAST(v AS real)) ~ that of REALs is a REAL
avg(DISTINCT CAST(v AS double)) | 1.5
count_if(b) | 1
bool_and(b) | false
bool_or(b) | true
every(b) | false
min_by(s, v) | ab
max_by(s, v) | NULL
array_agg(v) ~ keeps NULLs
array_agg(v ORDER BY v) ! does not support ORDER BY inside
stddev(n) | NULL
stddev_samp(id) | 1
stddev_pop(k - k) | 0
variance(id) | 1
var_samp(id) | 1
var_pop(k - k) | 0
listagg(s, ',') | ab,cd
listagg(s) | abcd
listagg(nullif(s, s), ',') | NULL
approx_distinct(v) ~ an estimate
approx_percentile(v, 0.5) ~ an estimate
# Trino: Array functions and operators, Map functions and operators, Lambda expressions
ARRAY[7, 8][2] | 8
arr[k - 4] | 3
arr[id] | 3
m['k'] | 1
element_at(arr, 9) | NULL
element_at(arr, -1) | 3
element_at(m, 'z') | NULL
cardinality(arr) | 3
contains(arr, 2) | NULL
contains(arr, 1) | true
array_join(arr, '-') | 1-3
array_max(arr) | NULL
array_max(ARRAY[1, 3]) | 3
array_min(arr) | NULL
array_min(ARRAY[1, 3]) | 1
array_join(array_sort(ARRAY[3, 1]), ',') | 1,3
array_join(array_distinct(ARRAY[1, 1]), ',') | 1
array_position(ARRAY[5, 6], 6) | 2
array_position(ARRAY[5, 6], 7) | 0
array_join(array_union(ARRAY[1], ARRAY[1, 2]), ',') | 1,2
array_join(array_intersect(ARRAY[1], ARRAY[1, 2]), ',') | 1
array_join(array_except(ARRAY[1, 2], ARRAY[1]), ',') | 2
array_join(array_remove(ARRAY[1, 2], 1), ',') | 2
array_join(slice(ARRAY[1, 2, 3], -2, 1), ',') | 2
array_join(sequence(1, 3), ',') | 1,2,3
array_join(flatten(ARRAY[ARRAY[1], ARRAY[2]]), ',') | 1,2
array_join(transform(ARRAY[1], y -> y + 1), ',') | 2
array_join(filter(ARRAY[1, 2], y -> y > 1), ',') | 2
reduce(ARRAY[5, 20], 0, (a, y) -> a + y, a -> a) | 25
array_join(zip_with(ARRAY[1], ARRAY[2], (y, z) -> y + z), ',') | 3
any_match(ARRAY[1, 2], y -> y > 1) | true
all_match(ARRAY[1, 2], y -> y > 1) | false
none_match(ARRAY[1, 2], y -> y > 2) | true
any_match(arr, y -> y > 9) | NULL
map(ARRAY['a'], ARRAY[1])['a'] | 1
array_join(map_keys(m), ',') | k
array_join(map_values(m), ',') | 1
cardinality(m) | 1
row(1, 'a') | {1, a}
# Trino: JSON functions and operators
json_extract_scalar('{"a": 1}', '$.a') ~ objects and arrays are NULL
json_extract('{"a": 1}', '$.a') ~ JSON is a type there
"""

_ORACLE = r"""
# Oracle: SQL Language Reference, Nulls; GREATEST; NVL; DECODE; COALESCE
GREATEST(k, n) | NULL
LEAST(1, n) | NULL
LEAST(2, 1) | 1
NVL(n, 5) | 5
NVL2(n, 1, 2) | 2
COALESCE(n, k) | 7
NULLIF(k, 7) | NULL
DECODE(n, NULL, 'none', 'some') | none
DECODE(k, 1, 'a') | NULL
s = '' | NULL
NVL('', 'none') | none
# Oracle: Concatenation Operator
s || n | cd
s || n || '!' | cd!
n || n | NULL
CONCAT(s, n) | cd
CONCAT(n, '!') | !
# Oracle: Numeric functions
MOD(-7, 3) | -1
MOD(7, 0) | 7
MOD(k, n) | NULL
ABS(-1) | 1
CEIL(-1.5) | -1
FLOOR(-1.5) | -2
ROUND(2.5) | 3
ROUND(x, 1) | -1.3
ROUND(x) ~ of a date is the nearest day
ROUND(d, 'MM') ! cannot round dates
TRUNC(-1.9) | -1
TRUNC(x, 1) | -1.2
TRUNC(f, 0) | -1
TRUNC(x) ! for a number, or TRUNC(
SIGN(-5) | -1
SQRT(9) | 3
EXP(0) | 1
POWER(2, 3) | 8
LN(1) | 0
LOG(2, 8) | 3
SIN(0) | 0
COS(0) | 1
TAN(0) | 0
ASIN(0) | 0
ACOS(1) | 0
ATAN(0) | 0
ATAN2(0, 1) | 0
SINH(0) | 0
COSH(0) | 1
TANH(0) | 0
BITAND(6, 3) | 2
WIDTH_BUCKET(5, 0, 10, 5) | 3
k / 2 ~ / has 40 digits there
# Oracle: Character functions
UPPER('a') | A
LOWER('A') | a
LENGTH('ab') | 2
LENGTH('') | NULL
ASCII('A') | 65
CHR(65) | A
CHR(k * 100) ~ codes from 256
SUBSTR('abc', 0, 2) | ab
SUBSTR('abc', 2) | bc
SUBSTR('abc', -2) | bc
SUBSTR('abc', -5) | NULL
SUBSTR('abc', 9) | NULL
SUBSTR('abc', 1, 0) | NULL
INSTR('abcabc', 'c') | 3
INSTR('abcabc', 'c', 4) | 6
INSTR('abc', 'x') | 0
INSTR('abcabc', 'c', 1, 1) | 3
INSTR('abcabc', 'c', 1, 2) ! cannot find the second occurrence
INSTR('abcabc', 'c', -1) ! searches forward
REPLACE('abc', 'b') | ac
REPLACE('abc', 'b', NULL) | ac
REPLACE('b', 'b', '') | NULL
REPLACE('abc', 'b', s) | acdc
REPLACE('abc', s) ~ a NULL as search string
TRANSLATE('abc', 'ab', 'x') | xc
TRIM('  a ') | a
TRIM('  ') | NULL
LTRIM('xxa', 'x') | a
RTRIM('a  ') | a
LPAD('a', 3, 'x') | xxa
RPAD('abc', 2) | ab
INITCAP('a-b') ~ words end at each character
REGEXP_LIKE('abc', 'b') | true
REGEXP_LIKE('aBc', 'b', 'i') | true
REGEXP_LIKE('aBc', 'b', 'c') | false
REGEXP_LIKE(s, 'b', 'x') ! only the flags
REGEXP_LIKE(s, '\d') ~ differ slightly from Java
REGEXP_SUBSTR('abc', '[bc]+') | bc
REGEXP_SUBSTR('abc', 'x') | NULL
REGEXP_SUBSTR('a,b', '[^,]+', 1, 1) | a
REGEXP_SUBSTR('a,b', '[^,]+', 1, 2) ! a position, an occurrence
REGEXP_SUBSTR(s, '\d') ~ differ slightly from Java
REGEXP_REPLACE('abc', '(b)', '<\1>') | a<b>c
REGEXP_REPLACE('b', 'b') | NULL
REGEXP_COUNT('abab', 'b') | 2
REGEXP_INSTR('abab', 'b') | 2
REGEXP_COUNT('abab', 'b', 3) ! a position, an occurrence
REGEXP_INSTR('abab', 'b', 3) ! a position, an occurrence
REGEXP_INSTR('abab', 'b', 1, 1) | 2
s LIKE 'c%' | true
'c\x' LIKE 'c\_' | true
s SIMILAR TO 'a' ! Spark does not support SIMILAR TO
# Oracle: Datetime functions; Datetime/Interval arithmetic; CEIL, FLOOR, ROUND, and TRUNC Date Functions
ADD_MONTHS(DATE '2024-02-29', 1) | 2024-03-31
ADD_MONTHS(DATE '2024-01-31', 1) | 2024-02-29
ADD_MONTHS(DATE '2024-01-30', 1) | 2024-02-29
ADD_MONTHS(DATE '2024-03-31', -1) | 2024-02-29
ADD_MONTHS(d, id - 1) | 2024-02-29
ADD_MONTHS(ts, 2) | 2024-02-29 23:59:59.75
MONTHS_BETWEEN(DATE '2024-02-29', DATE '2024-01-31') | 1
MONTHS_BETWEEN(DATE '2024-01-02', DATE '2024-01-01') * 31 | 1
TRUNC(d, 'MM') | 2023-12-01
TRUNC(ts, 'DD') | 2023-12-31
TRUNC(ts, 'HH24') | 2023-12-31 23:00:00
TRUNC(d, 'IW') | 2023-12-25
TRUNC(d, 'D') ! cannot truncate a date
TRUNC(DATE '2024-01-31') | 2024-01-31
TRUNC(SYSDATE) = CURRENT_DATE - 0 | false
SYSDATE - 10 < SYSDATE | true
SYSDATE - 0.5 < SYSDATE | true
SYSDATE > DATE '2024-01-01' | true
SYSTIMESTAMP > DATE '2024-01-01' | true
CURRENT_TIMESTAMP > DATE '2024-01-01' | true
CURRENT_DATE > DATE '2024-01-01' | true
DATE '2024-03-01' - DATE '2024-02-28' | 2
d - d ~ a number of days there
ts - ts < INTERVAL '1' DAY | true
id - v > 1 | NULL
EXTRACT(YEAR FROM d) | 2023
EXTRACT(SECOND FROM ts) | 59.750000
LAST_DAY(d) ~ keeps the time of day
NEXT_DAY(d, 'FRIDAY') ~ names of days
# Oracle: Conversion functions, Format models
TO_CHAR(ts, 'YYYY-MM-DD HH24:MI:SS') | 2023-12-31 23:59:59
TO_CHAR(k) ~ are formatted differently
TO_CHAR(12, '99') ~ formats of to_char
TO_CHAR(d, 'Day') ! formats are those of Java
TO_CHAR(d, 'D') ! formats are those of Java
TO_CHAR(d, 'YYYY"/"MM') ! formats are those of Java
TO_CHAR(d, 'DD-MON-YYYY') | 31-DEC-2023
TO_CHAR(d, 'DD-Mon-YYYY') | 31-Dec-2023
TO_CHAR(d, 'mon') | dec
TO_DATE('2024-01-31', 'YYYY-MM-DD') | 2024-01-31
TO_DATE('2024-01-31 10:30', 'YYYY-MM-DD HH24:MI') | 2024-01-31 10:30:00
TO_DATE(s) ~ this format was not compared
TO_TIMESTAMP('2024-01-31 10:30:00', 'YYYY-MM-DD HH24:MI:SS') | 2024-01-31 10:30:00
TO_NUMBER('1.5') ~ and a DOUBLE here
TO_NUMBER(s, '99') ! formats of TO_NUMBER
CAST(1.5 AS INT) | 2
CAST(2.345 AS NUMBER(5, 2)) | 2.35
CAST(x AS NUMBER) ~ a DOUBLE here
TIMESTAMP '2024-01-31 10:00:00' | 2024-01-31 10:00:00
TIMESTAMP '2024-01-31 10:00:00.25 +00:00' | 2024-01-31 10:00:00.25
MAX(v) KEEP (DENSE_RANK LAST ORDER BY id) ! does not support KEEP
CAST(x AS FLOAT) ~ up to 126 binary digits there
CAST(x AS BINARY_DOUBLE) | -1.25
CAST(ts AS TIMESTAMP(0)) ~ only 0 digits of a second
CAST(ts AS TIMESTAMP(6)) | 2023-12-31 23:59:59.75
CAST('abc' AS VARCHAR2(2)) | ab
CAST(ts AS DATE) ~ keeps the time of day
# Oracle: Aggregate functions
COUNT(v) | 2
SUM(n) | NULL
MIN(v) | 1
MAX(v) | 2
MEDIAN(v) | 1.5
STDDEV(id) | 1
STDDEV(CASE WHEN id = 1 THEN v END) | 0
STDDEV(DISTINCT id) | 1
STDDEV(n) | NULL
STDDEV(id) OVER (ORDER BY id) ~ of one row is 0 there
STDDEV_SAMP(id) | 1
STDDEV_SAMP(CASE WHEN id = 1 THEN v END) | NULL
STDDEV_POP(k - k) ~ a number of days
STDDEV_POP(n) | NULL
VARIANCE(id) | 1
VARIANCE(CASE WHEN id = 1 THEN v END) | 0
VARIANCE(n) | NULL
VAR_SAMP(id) | 1
VAR_SAMP(CASE WHEN id = 1 THEN v END) | NULL
VAR_POP(n) | NULL
AVG(v) ~ the average of DECIMALs
LISTAGG(s, ',') | ab,cd
LISTAGG(s) | abcd
ROWNUM ! write LIMIT
LEVEL ! Spark does not have LEVEL
"""

_SNOWFLAKE = r"""
# Snowflake: GREATEST, LEAST; Conditional expression functions
GREATEST(k, n) | NULL
LEAST(1, n) | NULL
LEAST(2, 1) | 1
GREATEST_IGNORE_NULLS(k, n) | 7
LEAST_IGNORE_NULLS(k, n) | 7
NVL(n, 5) | 5
NVL2(n, 1, 2) | 2
IFNULL(n, 5) | 5
ZEROIFNULL(n) | 0
NULLIFZERO(0) | NULL
NULLIFZERO(k) | 7
DECODE(n, NULL, 'none', 'some') | none
IFF(n > 1, 'a', 'b') | b
COALESCE(n, k) | 7
NULLIF(k, 7) | NULL
EQUAL_NULL(n, NULL) | true
BOOLXOR(b, k = 7) | true
BOOLXOR(b, n = 1) | NULL
# Snowflake: DATEDIFF (the unit determines the parts that are compared)
DATEDIFF('day', TIMESTAMP '2024-01-31 23:30:00', TIMESTAMP '2024-02-01 00:30:00') | 1
DATEDIFF(hour, TIMESTAMP '2024-01-31 23:30:00', TIMESTAMP '2024-02-01 00:10:00') | 1
DATEDIFF(month, DATE '2024-01-31', DATE '2024-02-01') | 1
DATEDIFF(quarter, DATE '2024-03-31', DATE '2024-04-01') | 1
DATEDIFF(year, DATE '2023-12-31', DATE '2024-01-01') | 1
DATEDIFF(year, DATE '2024-01-01', DATE '2023-12-31') | -1
DATEDIFF(week, DATE '2023-12-31', DATE '2024-01-01') | 1
DATEDIFF(week, DATE '2024-01-01', DATE '2024-01-07') | 0
TIMESTAMPDIFF('day', ts, CAST(NULL AS TIMESTAMP)) | NULL
TIMEDIFF(minute, TIMESTAMP '2024-01-31 23:30:59', TIMESTAMP '2024-01-31 23:31:00') | 1
DATEDIFF(nanosecond, ts, ts) ! cannot compute a difference in nanosecond
# Snowflake: ADD_MONTHS, DATEADD
ADD_MONTHS(DATE '2024-02-29', 1) | 2024-03-31
ADD_MONTHS(DATE '2024-01-30', 1) | 2024-02-29
ADD_MONTHS(ts, 2) | 2024-02-29 23:59:59.75
DATEADD(month, 1, DATE '2024-02-29') | 2024-03-29
DATEADD('month', 1, DATE '2024-01-31') | 2024-02-29
DATEADD(hour, 1, DATE '2024-01-31') | 2024-01-31 01:00:00
DATEADD(day, -1, DATE '2024-03-01') | 2024-02-29
DATEADD(day, k, d) ~ an amount that is not a literal
TIMESTAMPADD(day, 1, ts) | 2024-01-01 23:59:59.75
TIMEADD(day, 1, ts) | 2024-01-01 23:59:59.75
# Snowflake: YEAR* / DAY* / WEEK* / MONTH / QUARTER; Date and time functions, Calendar weeks and weekdays
DAYOFWEEK(DATE '2023-12-31') | 0
DAYOFWEEK(DATE '2024-01-03') | 3
DAYOFWEEKISO(DATE '2023-12-31') | 7
DAYOFWEEKISO(DATE '2024-01-03') | 3
DAYOFWEEK_ISO(d) | 7
DATE_PART(dow, d) | 0
DATE_PART('dayofweekiso', d) | 7
EXTRACT(week FROM DATE '2021-01-01') | 53
EXTRACT(second FROM ts) | 59
WEEK(DATE '2021-01-01') | 53
WEEKOFYEAR(DATE '2021-01-01') | 53
WEEKISO(DATE '2021-01-01') | 53
YEAROFWEEK(DATE '2021-01-01') | 2020
YEAROFWEEKISO(DATE '2021-01-01') | 2020
DAYNAME(d) | Sun
MONTHNAME(d) | Dec
DAYOFMONTH(d) | 31
DAYOFYEAR(d) | 365
YEAR(d) | 2023
QUARTER(d) | 4
MONTH(d) | 12
DAY(d) | 31
HOUR(ts) | 23
MINUTE(ts) | 59
SECOND(ts) | 59
DATE_PART(epoch_second, ts) ~ is counted in UTC there
DATE_PART(nanosecond, ts) ! EXTRACT does not have a part
DATE_TRUNC('week', TIMESTAMP '2023-12-31 10:00:00') | 2023-12-25 00:00:00
DATE_TRUNC('month', DATE '2024-02-29') | 2024-02-01
DATE_TRUNC('month', d) ~ of a DATE is a DATE there
TRUNC(DATE '2024-02-29', 'month') | 2024-02-01
LAST_DAY(DATE '2024-02-01') | 2024-02-29
LAST_DAY(d, 'year') ! the last day of a month only
TIME_SLICE(ts, 15, 'MINUTE') ! Spark does not have TIME_SLICE
CURRENT_DATE > DATE '2024-01-01' | true
CURRENT_TIMESTAMP() > DATE '2024-01-01' | true
d - d ~ a number of days there
DATE '2024-03-01' - DATE '2024-02-28' | 2
# Snowflake: RLIKE, REGEXP_LIKE (anchored at both ends); String functions (regular expressions)
'abc' RLIKE 'b' | false
'abc' RLIKE 'a.c' | true
RLIKE('abc', 'a|abc') | true
REGEXP_LIKE('ABC', 'abc', 'i') | true
'abc' REGEXP 'ab' | false
REGEXP_LIKE(s, 'a', 'e') ! only the flags
s RLIKE '\\d' ~ differ slightly from Java
REGEXP_SUBSTR('abc', '[bc]+') | bc
REGEXP_SUBSTR('abc', 'x') | NULL
REGEXP_SUBSTR('a,b', '[^,]+', 1, 1) | a
REGEXP_SUBSTR(s, 'x', 2) ! a position, an occurrence
REGEXP_SUBSTR(s, 'x', 1, 2) ! a position, an occurrence
REGEXP_SUBSTR(s, 'x', 1, 1, 'i') ! a position, an occurrence
REGEXP_REPLACE('abc', '(b)', '<\\1>') | a<b>c
REGEXP_REPLACE('abc', 'b') | ac
REGEXP_COUNT('abab', 'b') | 2
REGEXP_INSTR('abab', 'b') | 2
REGEXP_COUNT('abab', 'b', 3) ! a position, an occurrence
REGEXP_INSTR('abab', 'b', 3) ! a position, an occurrence
REGEXP_INSTR('abab', 'b', 1, 1) | 2
s LIKE 'c%' | true
s ILIKE 'C%' | true
s SIMILAR TO 'a' ! Spark does not support SIMILAR TO
# Snowflake: String functions
s || n IS NULL | true
CONCAT('a', n) | NULL
CONCAT_WS(',', 'a', n) | NULL
CONTAINS('abc', 'b') | true
STARTSWITH('abc', 'a') | true
ENDSWITH('abc', 'c') | true
CHARINDEX('b', 'abc') | 2
CHARINDEX('x', 'abc') | 0
POSITION('b', 'abc') | 2
LEFT('abc', 2) | ab
RIGHT('abc', 2) | bc
SUBSTR('abc', 2) | bc
SUBSTRING('abc', 2, 1) | b
SUBSTR(s, k) ~ before the first character
SPLIT('a.b', '.')[1] | b
SPLIT_PART('a.b', '.', 3) | ''
SPLIT_PART('a.b', '.', -1) | b
SPLIT_PART(s, '.', k) ~ a part 0 is the first
INSERT('abcdef', 3, 2, 'ZZZ') | abZZZef
LENGTH('aé') | 2
LEN('') | 0
LPAD('abc', 2, 'x') | ab
RPAD('a', 3, 'x') | axx
TRIM('  a ') | a
TRIM('xax', 'x') | a
LTRIM('xa', 'x') | a
RTRIM('ax', 'x') | a
REPLACE('abab', 'b') | aa
REPLACE('abab', s, 'x') ~ an empty search string
REPEAT('ab', 2) | abab
REVERSE('abc') | cba
TRANSLATE('abc', 'ab', 'x') | xc
UPPER('a') | A
LOWER('A') | a
ASCII('A') | 65
CHR(65) | A
INITCAP('a-b') ~ words end at each character
MD5('a') | 0cc175b9c0f1b6a831c399e269772661
SHA2('a') | ca978112ca1bbdcafac231b39a23dc4da786eff8147c4e72b9807785afee48bb
# Snowflake: Numeric functions
TRUNC(-1.9) | -1
TRUNC(x, 1) | -1.2
TRUNCATE(-1.27, 1) | -1.2
ROUND(2.5) | 3
ROUND(-2.5) | -3
CEIL(-1.5) | -1
FLOOR(-1.5) | -2
MOD(-7, 3) | -1
-7 % 3 | -1
DIV0(7, 0) ~ / rounds to six digits more
DIV0NULL(7, n) ~ / rounds to six digits more
ABS(-1) | 1
SIGN(-5) | -1
SQRT(9) | 3
CBRT(27) | 3
SQUARE(3) | 9
EXP(0) | 1
POWER(2, 3) | 8
POW(2, 3) | 8
PI() < 3.2 | true
DEGREES(0) | 0
RADIANS(0) | 0
SIN(0) | 0
COS(0) | 1
TAN(0) | 0
ASIN(0) | 0
ACOS(1) | 0
ATAN(0) | 0
ATAN2(0, 1) | 0
LN(1) | 0
LN(x) ~ a logarithm of 0
LOG(2, 8) | 3
BITAND(6, 3) | 2
WIDTH_BUCKET(5, 0, 10, 5) | 3
k / 3 ~ rounds to six digits more
# Snowflake: Conversion functions
CAST(2.5 AS INT) | 3
2.5::int | 3
f::int ~ rounds there and cuts off here
2.5::number | 3
2.345::number(5, 2) | 2.35
'1234567.89'::real | 1234567.89
CAST('1234567.89' AS FLOAT4) | 1234567.89
ts::timestamp_ntz(0) ~ only 0 digits of a second
ts::timestamp_ntz(9) | 2023-12-31 23:59:59.75
(DATE '2023-12-31')::timestamp_ntz(0) | 2023-12-31 00:00:00
7::string | 7
f::string ~ are formatted differently
TRY_CAST('x' AS INT) | NULL
TO_NUMBER('1.5') | 2
TO_NUMBER('1.25', 10, 1) | 1.3
TRY_TO_NUMBER('x') | NULL
TO_DECIMAL('1.5') | 2
TO_NUMERIC('1.5') | 2
TO_VARCHAR(d, 'YYYY-MM-DD') | 2023-12-31
TO_CHAR(ts, 'YYYY-MM-DD HH24:MI:SS') | 2023-12-31 23:59:59
TO_CHAR(7) | 7
TO_VARCHAR(f) ~ are formatted differently
TO_VARCHAR(d, 'DY') ! formats are those of Java
TO_VARCHAR(d, 'D') ! formats are those of Java
TO_DATE(ts) ~ detects the format
TO_DATE(DATE '2024-01-31') | 2024-01-31
TO_TIMESTAMP(s) ~ detects the format
# Snowflake: Aggregate functions
COUNT(v) | 2
SUM(n) | NULL
MIN(v) | 1
MAX(v) | 2
AVG(v) ~ the average of DECIMALs
ANY_VALUE(id > 0) | true
COUNT_IF(b) | 1
BOOLAND_AGG(b) | false
BOOLOR_AGG(b) | true
MIN_BY(s, v) | ab
MAX_BY(s, v) | NULL
MEDIAN(v) | 1.5
LISTAGG(s) | abcd
LISTAGG(s, ',') | ab,cd
LISTAGG(NULLIF(s, s), ',') | ''
LISTAGG(s) OVER (PARTITION BY k) ~ an empty string there
ARRAY_SIZE(ARRAY_AGG(v)) | 2
ARRAY_AGG(v) WITHIN GROUP (ORDER BY id) ! does not support ORDER BY inside ARRAY_AGG
STDDEV(id) | 1
STDDEV_SAMP(id) | 1
STDDEV_POP(n) | NULL
VARIANCE(id) | 1
VAR_SAMP(id) | 1
VAR_POP(n) | NULL
# Snowflake: Semi-structured data functions
arr[0] | 1
arr[9] | NULL
arr[k] ~ past the end of an array
GET(arr, 9) | NULL
ARRAY_SIZE(arr) | 3
ARRAY_CONTAINS(1, arr) | true
ARRAY_CONSTRUCT(1, 2)[1] | 2
"""

_FLINK = r"""
# Flink: System (Built-in) Functions, Conditional Functions
GREATEST(k, n) | NULL
LEAST(1, n) | NULL
LEAST(2, 1) | 1
COALESCE(n, k) | 7
NULLIF(k, 7) | NULL
IF(n > 1, 'a', 'b') | b
IFNULL(n, 5) | 5
# Flink: Arithmetic Functions
7 / 2 | 3
7 / 2.0 | 3.5
k / v ~ / of two integers cuts off there
MOD(-7, 3) | -1
-7 % 3 | -1
ABS(-1) | 1
CEIL(-1.5) | -1
CEILING(1.2) | 2
FLOOR(-1.5) | -2
ROUND(2.5, 0) | 3
TRUNCATE(-1.27, 1) | -1.2
TRUNCATE(-1.9) | -1
SIGN(-5) | -1
SQRT(9) | 3
EXP(0) | 1
POWER(2, 3) | 8
LN(1) | 0
LN(x) ~ a logarithm of 0
LOG(2, 8) | 3
LOG2(8) | 3
LOG10(100) | 2
DEGREES(0) | 0
RADIANS(0) | 0
SIN(0) | 0
COS(0) | 1
TAN(0) | 0
ASIN(0) | 0
ACOS(1) | 0
ATAN(0) | 0
ATAN2(0, 1) | 0
SINH(0) | 0
COSH(0) | 1
TANH(0) | 0
COT(1) > 0 | true
PI() < 3.2 | true
E() > 2.7 | true
BIN(4) | 100
HEX(20) | 14
DECODE(UNHEX('61'), 'UTF-8') ~ DECODE: its values
UNHEX('61') = CAST('a' AS BYTES) | true
RAND() ~ draws other numbers
RAND_INTEGER(10) ~ draws other numbers
UUID() ~ draws another one
# Flink: String Functions
s || CAST(NULL AS STRING) | NULL
CONCAT('a', CAST(NULL AS STRING)) | NULL
CONCAT_WS('~', 'AA', CAST(NULL AS STRING), 'BB', '', 'CC') | AA~BB~~CC
CONCAT_WS(CAST(NULL AS STRING), 'a', 'b') | NULL
UPPER('a') | A
LOWER('A') | a
CHAR_LENGTH('aé') | 2
CHARACTER_LENGTH('') | 0
POSITION('b' IN 'abc') | 2
POSITION('x' IN 'abc') | 0
TRIM('  a ') | a
TRIM(BOTH 'x' FROM 'xax') | a
LTRIM('  a') | a
RTRIM('a  ') | a
LPAD('hi', 4, '??') | ??hi
LPAD('hi', 1, '??') | h
RPAD('hi', 4, '??') | hi??
REPEAT('ab', 2) | abab
LEFT('abc', 2) | ab
LEFT('abc', -1) | ''
RIGHT('abc', 2) | bc
SUBSTR('abc', 2) | bc
SUBSTRING('abc' FROM 2 FOR 1) | b
SUBSTR(s, k) ~ before the first character
OVERLAY('abcdef' PLACING 'XX' FROM 2 FOR 2) | aXXdef
OVERLAY('xxxxxtest' PLACING 'xxxx' FROM 6) | xxxxxxxxx
REPLACE('hello world', 'world', 'flink') | hello flink
REPLACE('ab', s, 'x') ~ an empty search string
REVERSE('abc') | cba
ASCII('abc') | 97
CHR(97) | a
CHR(k) ~ codes from 256
INSTR('abc', 'b') | 2
LOCATE('b', 'abcb') | 2
LOCATE('b', 'abcb', 3) | 4
INITCAP('a-b') ~ words end at each character
REGEXP('abc', 'b') | true
REGEXP_EXTRACT('foothebar', 'foo(.*?)(bar)', 2) | bar
REGEXP_EXTRACT('abc', 'x') | NULL
REGEXP_REPLACE('foobar', 'oo|ar', '') | fb
SPLIT_INDEX('a.b', '.', 1) | b
SPLIT_INDEX('a.b', '.', 2) | NULL
STR_TO_MAP('u=1,v=2')['v'] | 2
TO_BASE64('hello world') | aGVsbG8gd29ybGQ=
FROM_BASE64('aGVsbG8gd29ybGQ=') | hello world
MD5('a') | 0cc175b9c0f1b6a831c399e269772661
SHA1('a') | 86f7e437faa5a7fce15d1ddcb9eaeaea377667b8
SHA2('a', 256) = SHA256('a') | true
CHAR_LENGTH(SHA224('a')) | 56
CHAR_LENGTH(SHA384('a')) | 96
CHAR_LENGTH(SHA512('a')) | 128
s LIKE 'c%' | true
'c\x' LIKE 'c\_' | true
s SIMILAR TO 'a' ! Spark does not support SIMILAR TO
# Flink: Temporal Functions
DAYOFWEEK(DATE '1994-09-27') | 3
DAYOFWEEK(DATE '2023-12-31') | 1
EXTRACT(DOW FROM d) | 1
EXTRACT(SECOND FROM ts) | 59
EXTRACT(WEEK FROM DATE '2021-01-01') | 53
WEEK(DATE '1994-09-27') | 39
DAYOFMONTH(d) | 31
DAYOFYEAR(DATE '1994-09-27') | 270
YEAR(d) | 2023
QUARTER(d) | 4
MONTH(d) | 12
EXTRACT(DAY FROM d) | 31
HOUR(ts) | 23
MINUTE(ts) | 59
SECOND(ts) | 59
TIMESTAMPDIFF(DAY, TIMESTAMP '2024-01-31 23:30:00', TIMESTAMP '2024-02-01 00:30:00') | 0
TIMESTAMPDIFF(MONTH, ts, ts) ~ the end of one month
TIMESTAMPADD(MONTH, 1, TIMESTAMP '2024-01-31 10:00:00') | 2024-02-29 10:00:00
FLOOR(ts TO MONTH) | 2023-12-01 00:00:00
CEIL(ts TO DAY) | 2024-01-01 00:00:00
TO_DATE('2024-01-31') | 2024-01-31
TO_TIMESTAMP('2024-01-31 10:00:00') | 2024-01-31 10:00:00
TO_TIMESTAMP('no') | NULL
TO_TIMESTAMP_LTZ(1500, 3) | 1970-01-01 00:00:01.5
CONVERT_TZ('1970-01-01 00:00:00', 'UTC', 'America/Los_Angeles') | 1969-12-31 16:00:00
DATE_FORMAT(ts, 'yyyy-MM-dd HH:mm:ss') | 2023-12-31 23:59:59
DATE_FORMAT(ts, 'YYYY') ~ SimpleDateFormat
CURRENT_DATE > DATE '2024-01-01' | true
CURRENT_TIMESTAMP > TIMESTAMP '2024-01-01 00:00:00' | true
CURRENT_ROW_TIMESTAMP() > TIMESTAMP '2024-01-01 00:00:00' | true
NOW() > TIMESTAMP '2024-01-01 00:00:00' | true
LOCALTIMESTAMP > TIMESTAMP '2024-01-01 00:00:00' | true
DATE '2024-01-31' + INTERVAL '1' MONTH | 2024-02-29
# Flink: Type Conversion Functions
CAST(1.9 AS INT) | 1
CAST(1.5 AS DECIMAL) | 2
DECIMAL '1.5' + 0 | 1.5
CAST('abc' AS VARCHAR(2)) | ab
CAST(ts AS TIMESTAMP(3)) ~ only 3 digits of a second
CAST(7 AS STRING) | 7
CAST(f AS STRING) ~ are formatted differently
TRY_CAST('x' AS INT) | NULL
# Flink: Collection Functions, Value Construction Functions
CARDINALITY(arr) | 3
arr[1] | 1
arr[9] | NULL
ARRAY_CONTAINS(arr, 1) | true
ARRAY_JOIN(ARRAY_DISTINCT(ARRAY[1, 1]), ',') ~ ARRAY_JOIN: its values
CARDINALITY(ARRAY_DISTINCT(ARRAY[1, 1])) | 1
ARRAY_POSITION(ARRAY[5, 6], 7) | 0
CARDINALITY(ARRAY_REMOVE(ARRAY[1, 2], 1)) | 1
ARRAY_REVERSE(ARRAY[1, 2])[1] | 2
CARDINALITY(ARRAY_UNION(ARRAY[1], ARRAY[1, 2])) | 2
CARDINALITY(ARRAY_CONCAT(ARRAY[1], ARRAY[2])) | 2
CARDINALITY(MAP_KEYS(m)) | 1
CARDINALITY(MAP_VALUES(m)) | 1
MAP_FROM_ARRAYS(ARRAY['a'], ARRAY[1])['a'] | 1
MAP['k', 7]['k'] | 7
ROW(1, 'a') | {1, a}
JSON_VALUE('{"a": 1}', '$.a') ~ objects and arrays are NULL
JSON_QUERY('{"a": {}}', '$.a') ~ strings and numbers are NULL
JSON_EXISTS('{"a": 1}', '$.a') ~ a null of JSON
# Flink: Aggregate Functions; AvgAggFunction of its planner has the type of its argument, and divides integers
AVG(CAST(A.v AS INT)) | 1
AVG(v) ~ an integer there
AVG(CAST(x AS DECIMAL(5, 1))) ~ AVG of DECIMALs has another scale
AVG(CAST(v AS DOUBLE)) | 1.5
COUNT(v) | 2
SUM(n) | NULL
MIN(v) | 1
MAX(v) | 2
STDDEV_POP(1E0 * v) | 0.5
STDDEV_POP(CAST(v AS FLOAT)) ~ have the type of their argument there
STDDEV_POP(v) ~ have the type of their argument there
STDDEV_SAMP(1E0 * id) | 1
VAR_POP(1E0 * v) | 0.25
VAR_SAMP(1E0 * id) | 1
VARIANCE(1E0 * id) | 1
LISTAGG(s) | ab,cd
LISTAGG(DISTINCT s, ';') | ab;cd
ARRAY_AGG(v) ~ keeps NULLs there
"""

# the values of these were read from DuckDB itself
_DUCKDB = r"""
# DuckDB: Functions
greatest(k, n) | 7
least(k, n) | 7
coalesce(n, k) | 7
nullif(k, 7) | NULL
if(n > 1, 'a', 'b') | b
ifnull(n, 5) | 5
7 // 2 | 3
-7 // 2 | -3
k / 2 ~ by 0 is Infinity
-7 % 3 | -1
mod(-7, 3) | -1
abs(-1) | 1
ceil(-1.5) | -1
ceiling(1.2) | 2
floor(-1.5) | -2
round(2.5) | 3
round(-2.5) | -3
trunc(-1.9) | -1
sign(-5) | -1
sqrt(9) | 3
exp(0) | 1
power(2, 3) | 8
pow(2, 3) | 8
pi() < 3.2 | true
degrees(0) | 0
radians(0) | 0
sin(0) | 0
cos(0) | 1
tan(0) | 0
asin(0) | 0
acos(1) | 0
atan(0) | 0
atan2(0, 1) | 0
ln(1) | 0
log(100) | 2
log2(8) | 3
log10(100) | 2
CAST(2.5 AS INTEGER) | 3
CAST(f AS INTEGER) ~ rounds there
CAST(1.25 AS DECIMAL) | 1.250
ts::timestamp_s ~ only 0 digits of a second
7::VARCHAR | 7
TRY_CAST('x' AS INTEGER) | NULL
# DuckDB: Text Functions
s || CAST(NULL AS VARCHAR) | NULL
concat('a', CAST(NULL AS VARCHAR)) | a
concat_ws(',', 'a', CAST(NULL AS VARCHAR), 'b') | a,b
upper('a') | A
lower('A') | a
length('aé') | 2
len('') | 0
reverse('abc') | cba
strpos('abc', 'b') | 2
instr('abc', 'x') | 0
position('b' IN 'abc') | 2
contains('abc', 'b') | true
starts_with('abc', 'a') | true
ends_with('abc', 'c') | true
lpad('abc', 2, 'x') | ab
rpad('a', 3, 'x') | axx
repeat('ab', 2) | abab
ascii('A') | 65
translate('abc', 'ab', 'x') | xc
replace('abab', 'b', 'x') | axax
replace('abab', s, 'x') ~ an empty search string
substr('abc', 2) | bc
substring('abc', 2, 1) | b
substr(s, k) ~ before the first character
string_split('a.b', '.')[2] | b
split_part('a.b', '.', 3) | ''
regexp_matches('abc', 'b') | true
regexp_extract('abc', 'x') | ''
regexp_extract('abc', '[bc]+') | bc
s LIKE 'c%' | true
'c\x' LIKE 'c\_' | true
s ILIKE 'C%' | true
s SIMILAR TO 'a' ! Spark does not support SIMILAR TO
s GLOB 'c*' ~ GLOB: its values
# DuckDB: Date Functions, Date Part Functions
date_diff('day', TIMESTAMP '2024-01-31 23:30:00', TIMESTAMP '2024-02-01 00:30:00') | 1
date_diff('month', DATE '2024-01-31', DATE '2024-02-01') | 1
date_diff('year', DATE '2023-12-31', DATE '2024-01-01') | 1
date_diff('week', d, d) ! cannot count weeks
datediff('hour', TIMESTAMP '2024-01-31 23:30:00', TIMESTAMP '2024-02-01 00:10:00') | 1
dayofweek(DATE '2023-12-31') | 0
weekday(DATE '2023-12-31') | 0
isodow(DATE '2023-12-31') | 7
extract(dow FROM DATE '2024-01-03') | 3
extract(isodow FROM d) | 7
extract(second FROM ts) | 59
dayofmonth(d) | 31
dayofyear(d) | 365
week(DATE '2021-01-01') | 53
weekofyear(DATE '2021-01-01') | 53
year(d) | 2023
quarter(d) | 4
month(d) | 12
day(d) | 31
hour(ts) | 23
minute(ts) | 59
second(ts) | 59
date_trunc('month', DATE '2024-02-29') | 2024-02-01 00:00:00
datetrunc('week', TIMESTAMP '2023-12-31 10:00:00') | 2023-12-25 00:00:00
DATE '2024-01-31' + INTERVAL 1 MONTH | 2024-02-29 00:00:00
d + INTERVAL 1 DAY ~ a TIMESTAMP there, and a DATE here
last_day(DATE '2024-02-01') | 2024-02-29
d - d ~ a number of days there
DATE '2024-03-01' - DATE '2024-02-28' | 2
current_date > DATE '2024-01-01' | true
now() > TIMESTAMP '2024-01-01 00:00:00' | true
current_timestamp > TIMESTAMP '2024-01-01 00:00:00' | true
# DuckDB: Aggregate Functions, List Functions
any_value(v) | 1
count(v) | 2
sum(n) | NULL
min(v) | 1
max(v) | 2
avg(v) ~ of DECIMALs is a DOUBLE there
avg(length(s)) | 2
avg(1e0 * v) | 1.5
count_if(b) | 1
bool_and(b) | false
bool_or(b) | true
median(v) | 1.5
min_by(s, v) ~ are left out there
max_by(s, v) ~ are left out there
arg_min(s, v) ~ are left out there
arg_max(s, v) ~ are left out there
string_agg(s, ',') | ab,cd
listagg(s, ',') | ab,cd
stddev(id) | 1
stddev_samp(id) | 1
stddev_pop(n) | NULL
variance(id) | 1
var_samp(id) | 1
var_pop(n) | NULL
array_agg(v) ~ keeps NULLs
list(v) ~ keeps NULLs
arr[1] | 1
arr[9] | NULL
arr[-1] | 3
arr[id] | 3
arr[k] | NULL
list_contains(arr, 1) ~ a list with NULLs
array_contains(arr, 1) ~ a list with NULLs
array_length(list_value(1, 2)) | 2
array_length(list_distinct([1, 1])) | 1
"""

_BIGQUERY = r"""
# BigQuery: Conditional expressions; Mathematical functions
GREATEST(k, n) | NULL
LEAST(1, n) | NULL
IF(n > 1, 'a', 'b') | b
IFNULL(n, 5) | 5
COALESCE(n, k) | 7
NULLIF(k, 7) | NULL
MOD(-7, 3) | -1
DIV(-7, 2) | -3
SAFE_DIVIDE(7, 0) | NULL
ABS(-1) | 1
CEIL(-1.5) | -1
CEILING(1.2) | 2
FLOOR(-1.5) | -2
0.1 + 0.2 | 0.30000000000000004
ROUND(2.5) | 3
ROUND(-2.5) | -3
TRUNC(-1.9) | -1
TRUNC(x, 1) | -1.2
SIGN(-5) | -1
SQRT(9) | 3
EXP(0) | 1
POWER(2, 3) | 8
POW(2, 3) | 8
SIN(0) | 0
COS(0) | 1
TAN(0) | 0
ASIN(0) | 0
ACOS(1) | 0
ATAN(0) | 0
ATAN2(0, 1) | 0
LN(1) | 0
LOG(8, 2) | 3
LOG10(100) | 2
# BigQuery: Conversion functions
CAST(2.5 AS INT64) | 3
CAST(f AS INT64) ~ rounds there
CAST(1.25 AS NUMERIC) | 1.25
SAFE_CAST('x' AS INT64) | NULL
CAST(f AS STRING) ~ are formatted differently
# BigQuery: String functions
CONCAT('a', CAST(NULL AS STRING)) | NULL
UPPER('a') | A
LOWER('A') | a
LENGTH('aé') | 2
REVERSE('abc') | cba
STRPOS('abc', 'b') | 2
STARTS_WITH('abc', 'a') | true
ENDS_WITH('abc', 'c') | true
LPAD('abc', 2, 'x') | ab
RPAD('a', 3, 'x') | axx
REPEAT('ab', 2) | abab
TRANSLATE('abc', 'ab', 'x') | xc
REPLACE('abab', 'b', 'x') | axax
SUBSTR('abc', 2) | bc
SUBSTRING('abc', 2, 1) | b
SUBSTR(s, k) ~ before the first character
REGEXP_CONTAINS('abc', 'b') | true
# BigQuery: Date functions (DATE_DIFF counts boundaries, weeks begin on Sunday)
DATE_DIFF(DATE '2024-02-01', DATE '2024-01-31', MONTH) | 1
DATE_DIFF(DATE '2024-01-01', DATE '2023-12-31', YEAR) | 1
DATE_DIFF(DATE '2024-01-07', DATE '2024-01-06', WEEK) | 1
DATE_DIFF(DATE '2024-01-08', DATE '2024-01-07', WEEK) | 0
DATE_DIFF(DATE '2024-01-08', DATE '2024-01-07', ISOWEEK) | 1
DATETIME_DIFF(TIMESTAMP '2024-02-01 00:30:00', TIMESTAMP '2024-01-31 23:30:00', DAY) | 1
DATE_ADD(DATE '2024-01-31', INTERVAL 1 MONTH) | 2024-02-29
DATE_SUB(DATE '2024-03-01', INTERVAL 1 DAY) | 2024-02-29
DATE_TRUNC(DATE '2024-02-29', MONTH) | 2024-02-01
DATE_TRUNC(d, WEEK) ! weeks begin on Monday
EXTRACT(DAYOFWEEK FROM DATE '2023-12-31') | 1
EXTRACT(ISOWEEK FROM DATE '2021-01-01') | 53
EXTRACT(WEEK FROM d) ! EXTRACT does not have a part WEEK
CURRENT_DATE() > DATE '2024-01-01' | true
CURRENT_TIMESTAMP() > TIMESTAMP '2024-01-01 00:00:00' | true
# BigQuery: Aggregate functions, Array functions
COUNT(v) | 2
SUM(n) | NULL
MIN(v) | 1
MAX(v) | 2
AVG(v) ~ the average of DECIMALs
COUNTIF(b) | 1
LOGICAL_AND(b) | false
LOGICAL_OR(b) | true
STRING_AGG(s) | ab,cd
ANY_VALUE(id > 0) | true
STDDEV(id) | 1
STDDEV_SAMP(id) | 1
STDDEV_POP(n) | NULL
VARIANCE(id) | 1
VAR_SAMP(id) | 1
VAR_POP(n) | NULL
ARRAY_AGG(v) ~ keeps NULLs
ARRAY_LENGTH(arr) | 3
"""


@dataclass(frozen=True)
class Line:
    """``mark``: ``|`` before a value, ``~`` before a note, ``!`` before an error."""

    read: str
    expression: str
    mark: str
    text: str
    source: str


def _lines(read: str, block: str) -> list[Line]:
    out, source = [], ""
    for line in block.strip().split("\n"):
        if line.startswith("# "):
            source = line[2:]
            continue
        at, mark = max((line.rfind(f" {mark} "), mark) for mark in "|~!")
        out.append(Line(read, line[:at], mark, line[at + 3 :], source))
    return out


BLOCKS = {"trino": _TRINO, "oracle": _ORACLE, "snowflake": _SNOWFLAKE, "flink": _FLINK, "duckdb": _DUCKDB, "bigquery": _BIGQUERY}
LINES = [line for read, block in BLOCKS.items() for line in _lines(read, block)]
