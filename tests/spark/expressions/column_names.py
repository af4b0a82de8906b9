"""Names of columns that are words of SQL or of the clause, and what they are tried in: shapes of expressions, calls of functions,
whole clauses. ``{n}`` is the name, and a neutral name of the same length gives what is expected."""

from __future__ import annotations

from collections.abc import Iterable

# words that Spark's list of keywords lacks: units, words of the clause, names of functions
WORDS = """dayofweek weekofyear millennium century decade epoch isoyear doy dow nanosecond
    pattern define measures subset prev next permute running final match one per past skip omit empty matches event selection window within approx weights proxy bundles
    history budget checks explore sketch pref top overall combine product automaton register state arc arcs emit arrival consecutive punctuate lifetime report speculate
    match_recognize classifier match_number match_count match_graph match_score match_rank prior extra slide error changes size none
    count sum avg max min abs datediff date_sub trim substr coalesce value id ts price symbol kwh""".split()
# words that are reserved under spark.sql.ansi.enforceReservedKeywords
ANSI_RESERVED = """all and any as authorization both case cast check collate column constraint create cross current_date current_time current_timestamp current_user distinct else end escape
    except execute false fetch filter for foreign from full grant group having in inner intersect into is join lateral leading left natural not null offset on only or order outer overlaps primary
    references right select session_user some table then time to trailing true union unique unknown user using when where with within""".split()
CONSTANTS = frozenset(["true", "false", "null", "current_path"])  # not names of columns without quotes
NAMED_FUNCTIONS = "current_date current_timestamp current_time current_user session_user".split()
UNITS = frozenset("year quarter month week day dayofyear hour minute second millisecond microsecond".split())
UNIT_FUNCTIONS = frozenset("timestampadd dateadd date_add timestampdiff datediff date_diff timediff".split())

SHAPES = """{n}
{n} > 4
{n} - 1 > 2
-{n} < +{n}
~{n} = {n} * {n}
a + {n} / {n} % {n}
{n} div {n}
{n} || {n} = a
{n} & {n} | {n} ^ {n} << {n}
not {n}
not {n} = a
not ({n} > 1)
! {n}
{n} is null
{n} is not null
not {n} is null
{n} is true
{n} is distinct from {n}
{n} is not distinct from a
{n} and a
a and {n}
{n} or {n} and {n}
{n} between {n} and {n}
{n} not between 1 and {n}
{n} in ({n}, a)
a not in ({n})
{n} like {n}
{n} not like a
a rlike {n}
a like any ({n}, b)
{n} <=> {n}
({n})
({n}, a)
(a, {n})
({n} > 1)
{n}.p > 1
p.{n} > 1
p.{n}.{n}
{n}[1]
a[{n}]
{n}[{n}]
{n}::int
cast({n} as int)
try_cast(a + {n} as decimal(10, 2))
case {n} when {n} then {n} else {n} end
case when {n} then {n} when a then 1 end
case when {n} > 1 then {n} end
case when a then 1 else {n} end
case a when 1 then {n} end
if({n}, {n}, {n})
coalesce({n}, a)
abs({n})
abs({n} - 1)
abs(1 - {n})
f({n})
f({n}, {n})
f({n}, {n}, {n})
f(a, {n}, b)
f({n} > 1, b)
f({n} is null)
f({n}.p, {n}[1])
count({n})
count(distinct {n})
count(all {n})
count(distinct {n}, {n})
count(distinct {n} > 1)
sum({n}) filter (where {n} > 1)
sum(a) filter (where {n})
first({n})
last({n} ignore nulls)
any_value({n})
max_by({n}, {n})
listagg({n}, a) within group (order by {n} desc nulls last, {n})
percentile_cont(0.5) within group (order by {n})
datediff({n}, a)
datediff(a, {n})
datediff({n}, {n})
datediff(day, {n}, a)
datediff(month, a, {n})
timediff(hour, {n}, {n})
timestampdiff(minute, {n}, {n})
dateadd(day, {n}, a)
date_add({n}, {n})
timestampadd(day, 1, {n})
date_sub({n}, 1)
date_sub({n}, {n})
extract(day from {n})
extract({n} from a)
extract({n} from {n})
trim({n})
trim({n}, a)
trim({n} from a)
trim(both {n} from {n})
trim(both from {n})
trim(leading {n} from a)
trim(trailing from {n})
substring({n}, 1)
substring({n}, {n}, {n})
substring({n} from 2)
substring(a from {n} for {n})
substr({n} from {n} for 2)
overlay({n} placing {n} from {n} for {n})
overlay({n} placing a from 1)
overlay({n}, a, 1)
position({n} in {n})
position({n}, a)
struct({n}, a as {n})
named_struct(a, {n})
transform({n}, x -> x + {n})
transform(a, {n} -> {n} + b)
aggregate({n}, 0, (x, y) -> x + {n} - y)
filter({n}, x -> x > {n})
exists({n}, x -> x > 1)
array({n}, {n})
make_interval(years => {n})
{n} + interval 1 day
interval 1 day + {n}
{n} - interval -2 hours
date_trunc(a, {n})
{n} collate utf8_lcase = a
a in (select {n} from t)
exists (select 1 from t where {n} > 1)
(select max({n}) from t) > {n}""".split("\n")

CALLS = """f({n}) > 1
f({n}, PREV({n})) > 1
f({n} - PREV({n})) > 1
f(PREV({n}), 1) = {n}
f(1, {n}, PREV({n})) IS NOT NULL
f({n}, {n}, FIRST(A.{n})) IS NULL
NOT f({n}) AND f({n}) BETWEEN {n} AND f(PREV({n}))
CASE WHEN f({n}) THEN {n} ELSE f({n}, {n}) END""".split("\n")

CLAUSES = {
    "define": "ORDER BY i MEASURES A.i AS r PATTERN (A B+) DEFINE A AS {n} > 0, B AS {n} > PREV({n}) AND B.{n} - A.{n} < 100 AND abs({n}) <> 5",
    "case": "ORDER BY i MEASURES A.i AS r PATTERN (A B+) DEFINE B AS CASE WHEN {n} > PREV({n}) THEN {n} ELSE FIRST({n}) END > 1 OR NOT {n} = NEXT({n})",
    "aggregates": "ORDER BY i MEASURES A.i AS r PATTERN (A+ B) DEFINE A AS sum({n}) < 20, B AS max(A.{n}) < {n} OR count(DISTINCT {n}) > 3",
    "measures": "ORDER BY i MEASURES {n} AS r, A.{n} AS s, LAST({n}) - FIRST({n}) AS t, max({n}) FILTER (WHERE {n} > 2) AS u, sum(DISTINCT {n}) AS v PATTERN (A+)",
    "dates": "ORDER BY i MEASURES datediff({n}, FIRST({n})) AS r, date_add(LAST({n}), 1) AS s PATTERN (A B+) DEFINE B AS date_sub({n}, 1) = PREV({n}) OR datediff({n}, A.{n}) > 3",
    "keys": "PARTITION BY {n} ORDER BY {n} MEASURES count(*) AS r PATTERN (A+)",
    "all rows": "PARTITION BY {n} ORDER BY i, {n} DESC MEASURES {n} + 1 AS r ALL ROWS PER MATCH PATTERN (A+) DEFINE A AS {n} > 1",
    "order": "PARTITION BY {n} % 2 ORDER BY {n} DESC NULLS LAST, i MEASURES FIRST({n}) AS r PATTERN (A B*) DEFINE B AS {n} <= PREV({n})",
    "pref": "ORDER BY i MEASURES A.{n} AS r, B.{n} AS s, MATCH_SCORE() AS t EVENT SELECTION SKIP TILL ANY MATCH ALL MATCHES PATTERN (A B) PREF MAX (B.{n} - A.{n}) AND MIN (A.{n}) TOP 2 DEFINE B AS {n} > A.{n}",
    "weights": "ORDER BY i MEASURES MATCH_ERRORS() AS r, LAST({n}) AS s EVENT SELECTION SKIP TILL ANY MATCH WINDOW 4 ROWS APPROX 1 WEIGHTS (A 1, EXTRA 1) PROXY MATCHES PATTERN (A B) DEFINE A AS {n} > 1, B AS {n} < 4",
    "automaton": "ORDER BY i MEASURES r AS r AUTOMATON (REGISTER best BIGINT = 0 STATE q1 FINAL ARC A FROM q0 TO q1 WHEN {n} > 1 AND {n} > best SET best = {n} EMIT ({n} AS r) "
    "ARC B FROM q1 TO q1 WHEN {n} > best SET best = best + {n})",
}  # fmt: skip
ROWS = [(1, 3), (2, 1), (3, 4), (4, 1), (5, 5), (6, 9), (7, 2), (8, 6)]


def neutral(name: str) -> str:
    """A name that is no word of any language here, as long as ``name``."""
    assert len(name) > 1
    return "zq".ljust(len(name), "q")


def renamed(text: str, name: str) -> str:
    """``text`` with ``name`` in place of its neutral name."""
    return text.replace(neutral(name), name)


def all_names(keywords: Iterable[str]) -> list[str]:
    """``keywords`` and our own words, in lower case, each once."""
    return sorted({*(word.lower() for word in keywords if len(word) > 1 and word.replace("_", "").isalpha()), *WORDS})
