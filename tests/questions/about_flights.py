"""Questions about flights: delays along an aircraft's day, cancelled flights in a row, turnarounds."""

from __future__ import annotations

import collections
import datetime

import sparkcep
from tests.questions import data
from tests.questions.data import HOUR, MINUTE
from tests.questions.question import Stream, by, question, spans, streaks


def _flown(flights):
    return [f for f in flights if f.tailnum is not None and f.dep_delay is not None]


LAST = {"dep_delay": -99, "arr_delay": -99, "tailnum": "last", "origin": "LGA", "day": datetime.date(2013, 1, 9)}


@question(
    of={"flights": data.flights},
    sql="""
        SELECT tailnum, day, legs, first_delay, last_delay
        FROM (SELECT * FROM flights WHERE tailnum IS NOT NULL AND dep_delay IS NOT NULL)
        MATCH_RECOGNIZE (
          PARTITION BY tailnum, day ORDER BY sched
          MEASURES count(*) AS legs, FIRST(dep_delay) AS first_delay, LAST(dep_delay) AS last_delay
          PATTERN (ONTIME WORSE{2,})
          DEFINE ONTIME AS dep_delay <= 15, WORSE AS dep_delay > PREV(dep_delay)
        )""",
    stream=Stream("sched", "tailnum day", LAST),
    quick=True,
)
def delays_that_build_up(flights):
    """Which aircraft leave on time and then later and later on at least two more legs of the day?"""
    for legs in by(_flown(flights), "tailnum", "day", order="sched"):
        at = 0
        while at < len(legs):
            last = at
            while last + 1 < len(legs) and legs[last + 1].dep_delay > legs[last].dep_delay:
                last += 1
            if legs[at].dep_delay <= 15 and last - at >= 2:
                yield legs[at].tailnum, legs[at].day, last - at + 1, legs[at].dep_delay, legs[last].dep_delay
                at = last
            at += 1


@question(
    of={"flights": data.flights},
    sql="""
        SELECT * FROM flights
        MATCH_RECOGNIZE (
          PARTITION BY tailnum ORDER BY sched
          MEASURES OUT.arr_delay AS came_late, BACK.dep_delay AS left_late, BACK.sched AS at
          AFTER MATCH SKIP TO LAST BACK
          PATTERN (OUT BACK)
          DEFINE
            OUT AS arr_delay > 30 AND tailnum IS NOT NULL,
            BACK AS origin = PREV(origin) AND dep_delay > 30 AND timestampdiff(HOUR, PREV(sched), sched) < 12
        )""",
)
def delay_that_the_next_flight_inherits(flights):
    """Which aircraft arrive half an hour late and leave late, within 12 hours, on their next flight from the same airport?"""
    for legs in by([f for f in flights if f.tailnum is not None], "tailnum", order="sched"):
        for a, b in zip(legs, legs[1:]):
            late = a.arr_delay is not None and a.arr_delay > 30 and b.dep_delay is not None and b.dep_delay > 30
            if late and b.origin == a.origin and b.sched - a.sched < 12 * HOUR:
                yield a.tailnum, a.arr_delay, b.dep_delay, b.sched


@question(
    of={"flights": data.storm_flights, "airlines": data.airlines},
    sql="""
        WITH departures AS (
          SELECT f.*, a.name FROM flights f JOIN airlines a ON f.carrier = a.carrier
        )
        SELECT name, origin, since, until, cancelled
        FROM departures MATCH_RECOGNIZE (
          PARTITION BY name, origin ORDER BY sched, flight
          MEASURES FIRST(sched) AS since, LAST(sched) AS until, count(*) AS cancelled
          PATTERN (GONE{8,})
          DEFINE GONE AS dep_delay IS NULL
        )
        WHERE cancelled >= 10""",
    stream=Stream("sched", "carrier origin", LAST | {"carrier": "AA"}),
    cached=True,
)
def cancelled_in_a_row(flights, airlines):
    """Which airline cancels ten flights or more of an airport in a row, from when to when?"""
    names = {a.carrier: a.name for a in airlines}
    for departures in by(flights, "carrier", "origin", order=lambda f: (f.sched, f.flight)):
        for row in spans(departures, lambda f: f.dep_delay is None):
            if len(row) >= 10:
                yield names[row[0].carrier], row[0].origin, row[0].sched, row[-1].sched, len(row)


@question(
    of={"flights": data.storm_flights},
    sql="""
        SELECT origin, day, hour, flights, late
        FROM (
          SELECT origin, day, hour, count(*) AS flights, count_if(dep_delay > 15) AS late
          FROM flights WHERE dep_delay IS NOT NULL GROUP BY origin, day, hour
        ) MATCH_RECOGNIZE (
          PARTITION BY origin, day ORDER BY hour
          ALL ROWS PER MATCH
          PATTERN (BAD{3,})
          DEFINE BAD AS late / flights > 0.3 AND hour - coalesce(PREV(hour), hour - 1) = 1
        )""",
)
def hours_in_which_many_leave_late(flights):
    """At which airports does a third of the flights leave late for three hours or more without a pause?"""
    counts = collections.defaultdict(lambda: [0, 0])
    for f in flights:
        if f.dep_delay is not None:
            counts[f.origin, f.day, f.hour][0] += 1
            counts[f.origin, f.day, f.hour][1] += f.dep_delay > 15
    days = collections.defaultdict(list)
    for (origin, day, hour), (all_, late) in sorted(counts.items()):
        days[origin, day].append((hour, all_, late))
    for (origin, day), hours in days.items():
        bad = []
        for i, (hour, all_, late) in enumerate(hours):
            adjacent = i == 0 or hour - hours[i - 1][0] == 1
            if not (late / all_ > 0.3 and adjacent):
                yield from bad if len(bad) >= 3 else []
                bad = []
            else:
                bad.append((origin, day, hour, all_, late))
        yield from bad if len(bad) >= 3 else []


@question(
    of={"flights": data.flights, "planes": data.planes},
    sql="""
        CREATE OR REPLACE TEMP VIEW known AS
        SELECT f.tailnum, f.day, f.sched, f.origin, f.dest, p.seats
        FROM flights f LEFT JOIN planes p USING (tailnum)
        WHERE f.tailnum IS NOT NULL;
        SELECT m.tailnum, m.airports, m.seats
        FROM known MATCH_RECOGNIZE (
          PARTITION BY tailnum ORDER BY sched
          MEASURES array_agg(dest) AS airports, FIRST(seats) AS seats
          PATTERN (START HOP HOP+)
          DEFINE HOP AS origin <> PREV(origin) AND datediff(day, FIRST(day)) <= 1
        ) AS m
        WHERE size(m.airports) >= 3""",
)
def aircraft_that_change_the_airport(flights, planes):
    """Which aircraft leave New York three times in two days, each time from another airport than before?"""
    seats = {p.tailnum: p.seats for p in planes}
    for legs in by([f for f in flights if f.tailnum is not None], "tailnum", order="sched"):
        at = 0
        while at < len(legs):
            end = at + 1
            while end < len(legs) and legs[end].origin != legs[end - 1].origin and (legs[end].day - legs[at].day).days <= 1:
                end += 1
            if end - at >= 3:
                yield legs[at].tailnum, tuple(f.dest for f in legs[at:end]), seats.get(legs[at].tailnum)
                at = end
            else:
                at += 1


@question(
    of={"flights": data.flights},
    frame=lambda spark, frames: sparkcep.match_recognize(
        frames["flights"].where("arr_delay IS NOT NULL AND carrier = 'B6'"),
        partition_by=["origin", "dest"],
        order_by=["sched", "flight"],
        clause="""MEASURES EARLY.flight AS flight, LAST(LATE.flight) AS last_flight, avg(LATE.arr_delay) AS delay
                  PATTERN (EARLY LATE{3,}) DEFINE EARLY AS arr_delay <= 0, LATE AS arr_delay > 0""",
    ),
    stream=Stream("sched", "origin dest", LAST | {"carrier": "B6"}),
)
def routes_that_turn_late(flights):
    """On which routes of JetBlue come three flights or more late after one that was early?"""
    flown = [f for f in flights if f.arr_delay is not None and f.carrier == "B6"]
    for row in by(flown, "origin", "dest", order=lambda f: (f.sched, f.flight)):
        for late in spans(row, lambda f: f.arr_delay > 0):
            before = row.index(late[0]) - 1
            if before >= 0 and len(late) >= 3:
                yield late[0].origin, late[0].dest, row[before].flight, late[-1].flight, sum(f.arr_delay for f in late) / len(late)


@question(
    of={"flights": data.flights},
    sql="""
        SELECT tailnum, count(*) AS turns, max(minutes) AS longest
        FROM flights MATCH_RECOGNIZE (
          PARTITION BY tailnum ORDER BY sched
          MEASURES (unix_timestamp(B.sched) - unix_timestamp(A.sched)) / 60 AS minutes
          AFTER MATCH SKIP TO NEXT ROW
          PATTERN (A B)
          DEFINE A AS tailnum IS NOT NULL, B AS origin = A.origin AND unix_timestamp(sched) - unix_timestamp(A.sched) < 5 * 3600
        )
        GROUP BY tailnum HAVING count(*) > 1""",
)
def aircraft_that_are_back_within_five_hours(flights):
    """Which aircraft leave an airport twice within five hours, how often, and after how many minutes at most?"""
    for legs in by([f for f in flights if f.tailnum is not None], "tailnum", order="sched"):
        pairs = zip(legs, legs[1:])
        minutes = [(b.sched - a.sched) / MINUTE for a, b in pairs if b.origin == a.origin and b.sched - a.sched < 5 * HOUR]
        if len(minutes) > 1:
            yield legs[0].tailnum, len(minutes), max(minutes)


@question(
    of={"flights": data.flights},
    sql="""
        SELECT day, round(lost / flown, 6) AS share FROM (
          SELECT day, sum(greatest(coalesce(dep_delay, 0), 0)) AS lost, count(dep_delay) AS flown
          FROM flights GROUP BY day
        ) MATCH_RECOGNIZE (
          ORDER BY day
          ALL ROWS PER MATCH
          PATTERN (A BETTER*)
          DEFINE BETTER AS lost / flown < PREV(lost) / PREV(flown)
        )""",
)
def average_minutes_lost_a_day(flights):
    """What are the average minutes lost a departure, day by day?"""
    days = collections.defaultdict(list)
    for f in flights:
        if f.dep_delay is not None:
            days[f.day].append(max(f.dep_delay, 0))
    for day, delays in days.items():
        yield day, round(sum(delays) / len(delays), 6)


@question(
    of={"flights": data.flights},
    sql="""
        SELECT origin, day, hour, tailnum, air_time, speed
        FROM (SELECT *, distance / nullif(air_time, 0) AS speed FROM flights WHERE carrier = 'UA' AND air_time IS NOT NULL)
        MATCH_RECOGNIZE (
          PARTITION BY origin, day, dest ORDER BY sched, flight
          MEASURES FIRST(tailnum) AS tail, count(*) AS n
          ALL ROWS PER MATCH
          PATTERN (SLOW FASTER{2,})
          DEFINE FASTER AS speed > PREV(speed) AND hour >= PREV(hour)
        )""",
)
def flights_of_a_route_that_are_faster_and_faster(flights):
    """Which flights of United are each faster than the one before on the route, three in a row on one day?"""
    some = [f for f in flights if f.carrier == "UA" and f.air_time]
    for route in by(some, "origin", "day", "dest", order=lambda f: (f.sched, f.flight)):
        for row in streaks(route, lambda a, b: b.distance / b.air_time > a.distance / a.air_time and b.hour >= a.hour):
            if len(row) >= 3:
                for f in row:
                    yield f.origin, f.day, f.hour, f.tailnum, f.air_time, f.distance / f.air_time


@question(
    of={"flights": data.storm_flights},
    sql="""
        SELECT origin, label, number, sched, dep_delay
        FROM (SELECT * FROM flights WHERE carrier = 'AA' AND origin <> 'EWR')
        MATCH_RECOGNIZE (
          PARTITION BY origin ORDER BY sched, flight
          MEASURES CLASSIFIER() AS label, MATCH_NUMBER() AS number
          ALL ROWS PER MATCH WITH UNMATCHED ROWS
          AFTER MATCH SKIP PAST LAST ROW
          PATTERN (OFF{3,} BACK)
          DEFINE OFF AS dep_delay IS NULL, BACK AS dep_delay IS NOT NULL
        )""",
    stream=Stream("sched", "origin carrier", LAST | {"carrier": "AA"}),
)
def first_flight_after_a_closure(flights):
    """Which flights of American are cancelled three or more in a row, which one is the first that leaves, and which are neither?"""
    some = [f for f in flights if f.carrier == "AA" and f.origin != "EWR"]
    for row in by(some, "origin", order=lambda f: (f.sched, f.flight)):
        at = number = 0
        while at < len(row):
            end = at
            while end < len(row) and row[end].dep_delay is None:
                end += 1
            if end - at >= 3 and end < len(row):
                number += 1
                for f in row[at:end]:
                    yield f.origin, "OFF", number, f.sched, None
                yield row[end].origin, "BACK", number, row[end].sched, row[end].dep_delay
                at = end + 1
            else:
                yield row[at].origin, None, None, row[at].sched, row[at].dep_delay
                at += 1


@question(
    of={"flights": data.flights},
    sql="""
        SELECT dest, flight_a, flight_b, gap
        FROM (SELECT * FROM flights WHERE origin = 'LGA' AND day = DATE'2013-01-09')
        MATCH_RECOGNIZE (
          PARTITION BY dest ORDER BY sched, carrier, flight
          MEASURES A.flight AS flight_a, B.flight AS flight_b, B.sched - A.sched AS gap
          AFTER MATCH SKIP TO NEXT ROW
          EVENT SELECTION SKIP TILL NEXT MATCH
          PATTERN (A B)
          WINDOW INTERVAL '2' HOUR
          DEFINE A AS carrier = 'DL', B AS carrier <> 'DL' AND abs(coalesce(distance, 0) - A.distance) = 0
        )""",
    stream=Stream("sched", last=LAST),
)
def competitors_that_leave_soon_after(flights):
    """Which is the first flight of another airline that leaves for the place of a Delta flight within two hours?"""
    some = [f for f in flights if f.origin == "LGA" and f.day.day == 9]
    for row in by(some, "dest", order=lambda f: (f.sched, f.carrier, f.flight)):
        for i, a in enumerate(row):
            later = [b for b in row[i + 1 :] if b.carrier != "DL" and b.sched - a.sched < 2 * HOUR]
            if a.carrier == "DL" and later:
                yield a.dest, a.flight, later[0].flight, later[0].sched - a.sched


@question(
    of={"flights": data.flights},
    sql="""
        SELECT carrier, day, worst, rank
        FROM (SELECT * FROM flights WHERE dep_delay IS NOT NULL AND carrier IN ('EV', 'MQ', '9E'))
        MATCH_RECOGNIZE (
          PARTITION BY carrier, day ORDER BY sched, origin, flight
          MEASURES A.dep_delay + B.dep_delay AS worst, MATCH_RANK() AS rank
          PATTERN (A B)
          PREF MAX (A.dep_delay + B.dep_delay)
          TOP 2
          DEFINE B AS origin = A.origin
        )""",
)
def worst_pairs_of_neighbours(flights):
    """Which two pairs of flights that leave one after the other are the latest of the day, for each regional airline?"""
    some = [f for f in flights if f.dep_delay is not None and f.carrier in ("EV", "MQ", "9E")]
    for row in by(some, "carrier", "day", order=lambda f: (f.sched, f.origin, f.flight)):
        sums = [(-(a.dep_delay + b.dep_delay), i) for i, (a, b) in enumerate(zip(row, row[1:])) if a.origin == b.origin]
        for rank, (worst, _) in enumerate(sorted(sums)[:2], 1):
            yield row[0].carrier, row[0].day, -worst, rank


@question(
    of={"flights": data.flights},
    sql="""
        SELECT dest, since, until, flights FROM flights MATCH_RECOGNIZE (
          PARTITION BY dest ORDER BY sched
          MEASURES FIRST(sched) AS since, LAST(sched) AS until, count(*) AS flights
          PATTERN (FIRST_ONE SOON*)
          DEFINE SOON AS sched <= PREV(sched) + INTERVAL '90' MINUTE
        )
        WHERE flights > 20""",
    stream=Stream("sched", "dest", LAST),
)
def times_of_many_flights_to_a_place(flights):
    """When do more than twenty flights leave for a destination, with pauses of 90 minutes at most?"""
    for row in by(flights, "dest", order="sched"):
        for some in streaks(row, lambda a, b: b.sched - a.sched <= 90 * MINUTE):
            if len(some) > 20:
                yield some[0].dest, some[0].sched, some[-1].sched, len(some)
