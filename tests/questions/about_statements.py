"""Questions whose statements have more around the clause: subqueries, several clauses, aggregates of many kinds, nested values."""

from __future__ import annotations

import collections
import statistics

from tests.questions import data
from tests.questions.data import MINUTE
from tests.questions.question import Stream, by, question, spans, streaks


def _sessions(visits):
    for pages in by(visits, "user", order="timestamp"):
        yield from streaks(pages, lambda a, b: b.timestamp - a.timestamp <= 30 * MINUTE)


@question(
    of={"visits": data.visits},
    sql="""
        SELECT user, pages, places, middle, first_pages, pays FROM visits MATCH_RECOGNIZE (
          PARTITION BY user ORDER BY timestamp
          MEASURES
            count(*) AS pages,
            count(DISTINCT page) AS places,
            median(clicks) AS middle,
            slice(array_agg(page), 1, 3) AS first_pages,
            count_if(page = 'pay') AS pays
          PATTERN (ENTRY MORE*)
          DEFINE MORE AS timestamp - PREV(timestamp) <= INTERVAL '30' MINUTE
        )
        WHERE pages > 3""",
)
def figures_of_sessions(visits):
    """How many different pages, which median of clicks and which first pages have sessions of more than three pages?"""
    for some in _sessions(visits):
        if len(some) > 3:
            pages = [p.page for p in some]
            yield some[0].user, len(some), len(set(pages)), float(statistics.median(p.clicks for p in some)), tuple(pages[:3]), pages.count("pay")


@question(
    of={"visits": data.visits},
    sql="""
        SELECT page, count(*) AS n FROM visits
        WHERE user IN (
          SELECT user FROM visits MATCH_RECOGNIZE (
            PARTITION BY user ORDER BY timestamp
            MEASURES count(*) AS n
            PATTERN (HELP+)
            DEFINE HELP AS page = 'help'
          ) WHERE n >= 2
        )
        GROUP BY page ORDER BY n DESC, page LIMIT 3""",
    ordered=True,
)
def pages_of_those_who_need_help(visits):
    """Which three pages do users see most who have asked for help twice in a row?"""
    users = set()
    for pages in by(visits, "user", order="timestamp"):
        if any(len(s) >= 2 for s in spans(pages, lambda p: p.page == "help")):
            users.add(pages[0].user)
    counted = collections.Counter(p.page for p in visits if p.user in users)
    yield from sorted(counted.items(), key=lambda item: (-item[1], item[0]))[:3]


@question(
    of={"heartbeats": data.heartbeats, "sensors": data.sensors},
    sql="""
        SELECT 'silent' AS what, device AS who, count(*) AS times FROM heartbeats MATCH_RECOGNIZE (
          PARTITION BY device ORDER BY ts MEASURES B.ts AS at AFTER MATCH SKIP TO LAST B PATTERN (A B)
          DEFINE B AS unix_timestamp(ts) - unix_timestamp(PREV(ts)) > 600
        ) GROUP BY device
        UNION ALL
        SELECT 'down', concat('s', sensor), count(*) FROM sensors MATCH_RECOGNIZE (
          PARTITION BY sensor ORDER BY timestamp MEASURES count(*) AS n PATTERN (DOWN{4,}) DEFINE DOWN AS state = 'down'
        ) GROUP BY sensor""",
    cached=True,
)
def silent_or_down(heartbeats, sensors):
    """How often is each device silent for ten minutes, and each sensor down for four readings or more?"""
    for beats in by(heartbeats, "device", order="ts"):
        times = sum((b.ts - a.ts).total_seconds() > 600 for a, b in zip(beats, beats[1:]))
        if times:
            yield "silent", beats[0].device, times
    for readings in by(sensors, "sensor", order="timestamp"):
        times = sum(len(s) >= 4 for s in spans(readings, lambda r: r.state == "down"))
        if times:
            yield "down", f"s{readings[0].sensor}", times


@question(
    of={"sensors": data.sensors},
    sql="""
        SELECT sensor, began, count FROM (
          SELECT sensor, began, ended FROM sensors MATCH_RECOGNIZE (
            PARTITION BY sensor ORDER BY timestamp
            MEASURES FIRST(timestamp) AS began, LAST(timestamp) AS ended
            PATTERN (BAD{2,})
            DEFINE BAD AS state <> 'ok'
          )
        ) AS spells MATCH_RECOGNIZE (
          PARTITION BY sensor ORDER BY began
          MEASURES FIRST(began) AS began, count(*) AS count
          PATTERN (SPELL AGAIN{2,})
          DEFINE AGAIN AS began - PREV(ended) < INTERVAL '90' SECOND
        )""",
)
def spells_that_come_again_and_again(sensors):
    """Which sensors have three bad spells or more, with less than a minute and a half between one and the next?"""
    for readings in by(sensors, "sensor", order="timestamp"):
        spells = [s for s in spans(readings, lambda r: r.state != "ok") if len(s) >= 2]
        rows = [data.Row(began=s[0].timestamp, ended=s[-1].timestamp) for s in spells]
        for row in streaks(rows, lambda a, b: (b.began - a.ended).total_seconds() < 90):
            if len(row) >= 3:
                yield readings[0].sensor, row[0].began, len(row)


@question(
    of={"orders": data.orders},
    sql="""
        SELECT customer, months, best.amount AS amount, best.order AS order FROM (
          SELECT *, struct(amount, order) AS value, year(date) * 12 + month(date) AS month FROM orders
        ) MATCH_RECOGNIZE (
          PARTITION BY customer ORDER BY date, order
          MEASURES count(DISTINCT month) AS months, max(value) AS best
          PATTERN (A (SAME | NEXT_MONTH)+)
          DEFINE SAME AS month = PREV(month), NEXT_MONTH AS month = PREV(month) + 1
        ) WHERE months >= 4""",
)
def customers_of_each_month(orders):
    """Who orders in four months or more without leaving one out, and which is the dearest order of that time?"""
    for of in by(orders, "customer", order=lambda o: (o.date, o.order)):
        for row in streaks(of, lambda a, b: (b.date.year * 12 + b.date.month) - (a.date.year * 12 + a.date.month) <= 1):
            months = {(o.date.year, o.date.month) for o in row}
            if len(row) >= 2 and len(months) >= 4:
                best = max((o.amount, o.order) for o in row)
                yield row[0].customer, len(months), *best


@question(
    of={"baskets": data.baskets},
    sql="""
        SELECT product, next, count(*) AS times FROM baskets MATCH_RECOGNIZE (
          PARTITION BY basket ORDER BY position
          MEASURES A.product AS product, B.product AS next
          ONE ROW PER MATCH
          AFTER MATCH SKIP TO NEXT ROW
          PATTERN (A B)
          DEFINE B AS B.product <> A.product AND B.price BETWEEN A.price - 1.00 AND A.price + 1.00
        )
        GROUP BY product, next
        HAVING count(*) >= 3
        ORDER BY times DESC, product, next""",
    ordered=True,
    quick=True,
)
def pairs_of_like_prices(baskets):
    """Which two products that differ in price by one at most are scanned one after the other most often?"""
    counted = collections.Counter()
    for goods in by(baskets, "basket", order="position"):
        for a, b in zip(goods, goods[1:]):
            if a.product != b.product and abs(a.price - b.price) <= 1:
                counted[a.product, b.product] += 1
    often = [(a, b, times) for (a, b), times in counted.items() if times >= 3]
    yield from sorted(often, key=lambda row: (-row[2], row[0], row[1]))


@question(
    of={"weather": data.weather, "flights": data.flights},
    sql="""
        SELECT w.origin, w.since, w.hours, f.flights
        FROM weather MATCH_RECOGNIZE (
          PARTITION BY origin ORDER BY time
          MEASURES FIRST(time) AS since, count(*) AS hours
          PATTERN (FOG{2,})
          DEFINE FOG AS visib < 2
        ) AS w
        LEFT JOIN (SELECT origin, count(*) AS flights FROM flights WHERE hour(sched) < 12 GROUP BY origin) AS f
          ON f.origin = w.origin""",
)
def fog_and_flights(weather, flights):
    """When is there fog for two hours or more, and how many flights leave that airport before noon of UTC in other days?"""
    counted = collections.Counter(f.origin for f in flights if f.sched.hour < 12)
    for hours in by(weather, "origin", order="time"):
        for fog in spans(hours, lambda h: h.visib < 2):
            if len(fog) >= 2:
                yield fog[0].origin, fog[0].time, len(fog), counted[fog[0].origin]


@question(
    of={"google": data.google},
    sql="""
        SELECT year, quarter, rises, round(gain, 6) AS gain
        FROM (SELECT *, year(date) AS year, quarter(date) AS quarter FROM google)
        MATCH_RECOGNIZE (
          PARTITION BY year, quarter ORDER BY date
          MEASURES count(UP.*) AS rises, FINAL LAST(close) / FIRST(open) - 1 AS gain
          PATTERN (^ (UP | DOWN)+ $)
          DEFINE UP AS close > open
        )""",
    cached=True,
)
def quarters(google):
    """On how many days of each quarter does Google's share rise during the day, and how much does it gain in all?"""
    for days in by([data.Row(d, quarter=(d.date.month + 2) // 3, year=d.date.year) for d in google], "year", "quarter", order="date"):
        gain = days[-1].close / days[0].open - 1
        yield days[0].year, days[0].quarter, sum(d.close > d.open for d in days), round(gain, 6)


@question(
    of={"events": data.events},
    sql="""
        SELECT account, n, kinds, first_details.type AS type FROM events MATCH_RECOGNIZE (
          PARTITION BY account ORDER BY ts
          MEASURES
            count(*) AS n,
            array_sort(collect_set(type)) AS kinds,
            min_by(struct(type, details), ts) AS first_details
          PATTERN (A QUICK{3,})
          DEFINE QUICK AS ts < PREV(ts) + INTERVAL '100' SECOND AND isnotnull(details)
        )""",
    stream=Stream("ts", "account"),
)
def bursts(events):
    """Which events of an account come less than a hundred seconds after the one before, three times or more?"""
    for some in by(events, "account", order="ts"):
        for row in streaks(some, lambda a, b: (b.ts - a.ts).total_seconds() < 100 and b.details is not None):
            if len(row) >= 4:
                yield row[0].account, len(row), tuple(sorted({e.type for e in row})), row[0].type


@question(
    of={"shares": data.shares},
    sql="""
        CREATE TABLE falls USING parquet AS
        SELECT symbol, year(first) AS year, months FROM shares MATCH_RECOGNIZE (
          PARTITION BY symbol ORDER BY date
          MEASURES FIRST(FALL.date) AS first, count(FALL.*) AS months
          PATTERN (A FALL{3,})
          DEFINE FALL AS price < PREV(price)
        );
        SELECT * FROM falls PIVOT (max(months) FOR year IN (2000, 2001, 2002, 2008))""",
)
def longest_falls_by_year(shares):
    """How many months, three or more, does the longest fall of each share last that begins in 2000, 2001, 2002 or 2008?"""
    for months in by(shares, "symbol", order="date"):
        found = collections.defaultdict(int)
        falls = [s for s in streaks(months, lambda a, b: b.price < a.price) if len(s) >= 4]
        for fall in falls:
            found[fall[1].date.year] = max(found[fall[1].date.year], len(fall) - 1)
        if falls:
            yield months[0].symbol, *(found.get(year) for year in (2000, 2001, 2002, 2008))


@question(
    of={"rentals": data.rentals},
    sql="""
        SELECT car, number, label, start, km, total, running FROM rentals MATCH_RECOGNIZE (
          PARTITION BY car ORDER BY start, km
          MEASURES MATCH_NUMBER() AS number, CLASSIFIER() AS label, FINAL sum(km) AS total, sum(km) AS running
          ALL ROWS PER MATCH
          PATTERN (SHORT+? LONG)
          SUBSET BOTH = (SHORT, LONG)
          DEFINE LONG AS km > 400 AND km > avg(SHORT.km)
        )""",
)
def short_rentals_before_a_long_one(rentals):
    """Which short rentals precede one over 400 km that is longer than their average, and how do the kilometres add up?"""
    for of in by(rentals, "car", order=lambda r: (r.start, r.km)):
        at = number = 0
        while at < len(of):
            end = next((e for e in range(at + 1, len(of)) if of[e].km > 400 and of[e].km > sum(r.km for r in of[at:e]) / (e - at)), None)
            if end is None:
                at += 1
                continue
            number, running = number + 1, 0
            for i, r in enumerate(of[at : end + 1], at):
                running += r.km
                yield r.car, number, "LONG" if i == end else "SHORT", r.start, r.km, sum(r.km for r in of[at : end + 1]), running
            at = end + 1
