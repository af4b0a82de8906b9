"""Questions about what did not happen in time: deadlines, funnels, heartbeats and second factors, with SHOW UNFINISHED MATCHES."""

from __future__ import annotations

import datetime
import random
from collections import Counter
from functools import cache

from tests.questions.data import DAY, HOUR, MINUTE
from tests.questions.question import Row, Rows, Stream, by, question, spans

BEGIN = datetime.datetime(2026, 3, 1, 8)
TICKETS = "`end` STRING, `rank` INT, ts TIMESTAMP, event STRING, cost INT"
_NAMES = ("end", "rank", "ts", "event", "cost")


def _drawn(seed: int, events: str, keys: int, most: int, step: int) -> list[Row]:
    """Rows of keys, with ties in time that the rank breaks, and a last row of a key of its own a month later."""
    rng, rows = random.Random(seed), []
    for key in range(keys):
        at = BEGIN + rng.randrange(300) * MINUTE
        for rank in range(rng.randrange(1, most)):
            at += rng.choice([0, 0, 1, 2, 3]) * step * MINUTE
            rows.append(Row(zip(_NAMES, (f"k{key}", rank, at, rng.choice(events.split()), rng.randrange(100)), strict=True)))
    rows.append(Row(zip(_NAMES, ("last", 0, BEGIN + 30 * DAY, "note", 0), strict=True)))
    return rows


@cache
def desk_tickets() -> Rows:
    return Rows(TICKETS, _drawn(5, "opened opened answered closed note", 80, 9, 12))


@cache
def undated_tickets() -> Rows:
    """Tickets. Every sixth row lacks its time."""
    return Rows(TICKETS, [Row(row, ts=None) if i % 6 == 3 else row for i, row in enumerate(desk_tickets().rows)])


@cache
def host_beats() -> Rows:
    return Rows(TICKETS, _drawn(9, "beat", 25, 14, 1))


def _order(row: Row) -> tuple:
    return row.ts is not None, row.ts or BEGIN, row.rank


def _waits(rows: list[Row], first: str, then: str, size: datetime.timedelta):
    """(row, the row that came in time or None) of each first row that begins a match or an unfinished one."""
    i = 0
    while i < len(rows):
        row = rows[i]
        if row.event == first and row.ts is not None:
            at = next((j for j in range(i + 1, len(rows)) if rows[j].event == then), None)
            if at is not None and rows[at].ts - row.ts < size:
                yield row, rows[at]
                i = at + 1
                continue
            yield row, None
        i += 1


ANSWERED = """
          PARTITION BY `end` ORDER BY ts, `rank`
          MEASURES OPENED.ts AS since, ANSWERED.ts AS came, MATCH_STATUS() AS status, MATCH_ENDED_AT() AS ended, OPENED.cost AS cost
          ONE ROW PER MATCH SHOW {} MATCHES
          EVENT SELECTION SKIP TILL NEXT MATCH
          PATTERN (OPENED ANSWERED)
          WINDOW INTERVAL '30' MINUTE
          DEFINE OPENED AS event = 'opened', ANSWERED AS event = 'answered'"""


def _answered(rows: list[Row], size: datetime.timedelta = 30 * MINUTE):
    """(key, when opened, when answered, status, when it ended, cost)"""
    for some in by(rows, "end", order=_order):
        for row, came in _waits(some, "opened", "answered", size):
            yield (row.end, row.ts, came and came.ts, "MATCHED" if came else "TIMED OUT", came.ts if came else row.ts + size, row.cost)


@question(of={"tickets": desk_tickets}, sql=f"SELECT * FROM tickets MATCH_RECOGNIZE ({ANSWERED.format('UNFINISHED')})", stream=Stream("ts", "end"), quick=True)
def tickets_and_their_answers(tickets):
    """Which tickets were answered within half an hour, and which ones ran out of time, and when?"""
    yield from _answered(tickets)


@question(of={"tickets": desk_tickets}, sql=f"SELECT `end`, since FROM tickets MATCH_RECOGNIZE ({ANSWERED.format('TIMEOUT')}) WHERE status = 'TIMED OUT' AND cost > 40", stream=Stream("ts", "end"))
def dear_tickets_without_an_answer(tickets):
    """Which tickets of more than 40 were not answered within half an hour?"""
    yield from ((end, since) for end, since, _, status, _, cost in _answered(tickets) if status == "TIMED OUT" and cost > 40)


@question(of={"tickets": desk_tickets}, sql=f"SELECT status, count(*) AS n, sum(cost) AS cost FROM tickets MATCH_RECOGNIZE ({ANSWERED.format('UNFINISHED')}) GROUP BY status")
def share_of_answers_in_time(tickets):
    """How many tickets were answered in time and how many were not, and what do they cost?"""
    found = list(_answered(tickets))
    for status, n in Counter(one[3] for one in found).items():
        yield status, n, sum(one[5] for one in found if one[3] == status)


@question(of={"undated": undated_tickets}, sql=f"SELECT * FROM undated MATCH_RECOGNIZE ({ANSWERED.format('UNFINISHED')})")
def tickets_without_a_time(undated):
    """Which tickets were answered in time, if some rows lack their time and so begin nothing?"""
    yield from _answered(undated)


@question(
    of={"tickets": desk_tickets},
    sql=f"""
        CREATE OR REPLACE TEMPORARY VIEW late AS SELECT * FROM tickets MATCH_RECOGNIZE ({ANSWERED.format('TIMEOUT')}) WHERE status = 'TIMED OUT';
        SELECT l.`end`, l.since, l.cost, count(*) AS further FROM late AS l JOIN tickets AS t ON l.`end` = t.`end` AND t.ts > l.ended GROUP BY l.`end`, l.since, l.cost""",
)
def events_after_a_missed_deadline(tickets):
    """How many events has a ticket after its deadline, of the tickets that have any?"""
    for end, since, _, status, ended, cost in _answered(tickets):
        further = sum(row.end == end and row.ts > ended for row in tickets)
        if status == "TIMED OUT" and further:
            yield end, since, cost, further


@question(
    of={"tickets": desk_tickets},
    sql=f"""
        WITH some AS (SELECT * FROM tickets WHERE cost < 70 OR `end` = 'last'),
             told AS (SELECT * FROM some MATCH_RECOGNIZE ({ANSWERED.format('UNFINISHED')}) AS m)
        SELECT a.`end`, a.since, b.since AS later FROM told AS a JOIN told AS b ON a.`end` = b.`end` AND a.since < b.since
        WHERE a.status = 'TIMED OUT' AND b.status = 'MATCHED'""",
)
def late_tickets_with_a_better_successor(tickets):
    """Which late tickets have a later one with the same key that was answered in time, of those below 70?"""
    found = list(_answered([row for row in tickets if row.cost < 70]))
    for end, since, _, status, _, _ in found:
        yield from ((end, since, other[1]) for other in found if status == "TIMED OUT" and other[0] == end and other[1] > since and other[3] == "MATCHED")


@question(of={"tickets": desk_tickets}, sql=f"SELECT `end`, since, ended FROM (SELECT * FROM tickets WHERE `end` <> 'last') MATCH_RECOGNIZE ({ANSWERED.format('UNFINISHED')}) WHERE status = 'OPEN'")
def tickets_that_still_have_time(tickets):
    """Which tickets are still open when the last event of all tickets comes?"""
    rows = [row for row in tickets if row.end != "last"]
    clock = max(row.ts for row in rows)
    yield from ((end, since, None) for end, since, came, _, ended, _ in _answered(rows) if came is None and ended > clock)


NOON = datetime.datetime(2026, 3, 1, 12)


@question(of={"tickets": desk_tickets}, sql=f"SELECT `end`, since, status FROM (SELECT * FROM tickets WHERE ts < TIMESTAMP'2026-03-01 12:00:00') MATCH_RECOGNIZE ({ANSWERED.format('UNFINISHED').replace('UNFINISHED MATCHES', 'UNFINISHED MATCHES AS OF TIMESTAMP_LTZ' + chr(39) + '2026-03-01 12:00:00' + chr(39))})")
def tickets_as_of_noon(tickets):
    """Which status has each ticket at noon, with the events before noon?"""
    for end, since, came, status, ended, _ in _answered([row for row in tickets if row.ts < NOON]):
        yield end, since, "OPEN" if came is None and ended > NOON else status


@question(
    of={"tickets": desk_tickets},
    sql="""
        SELECT `end`, opened_at, closed_at FROM tickets MATCH_RECOGNIZE (
          PARTITION BY `end` ORDER BY ts, `rank`
          MEASURES OPENED.ts AS opened_at, MATCH_ENDED_AT() AS closed_at, MATCH_STATUS() AS status
          ALL ROWS PER MATCH SHOW UNFINISHED MATCHES
          AFTER MATCH SKIP TO NEXT ROW
          EVENT SELECTION SKIP TILL NEXT MATCH
          PATTERN (OPENED CLOSED)
          WINDOW INTERVAL '1' HOUR
          DEFINE OPENED AS event = 'opened', CLOSED AS event = 'closed'
        ) WHERE status = 'MATCHED'""",
)
def rows_of_tickets_that_are_closed_within_an_hour(tickets):
    """Which events belong to tickets that are closed within an hour, counted from each time that they are opened?"""
    for rows in by(tickets, "end", order=_order):
        for i, row in enumerate(rows):
            came = next((other for other in rows[i + 1 :] if other.event == "closed"), None)
            if row.event == "opened" and came is not None and came.ts - row.ts < HOUR:
                yield from [(row.end, row.ts, came.ts)] * 2


# -- funnels ----------------------------------------------------------------------------------------------------------

FUNNEL = """
          PARTITION BY `end` ORDER BY ts, `rank`
          MEASURES OPENED.`rank` AS began, LAST(CLASSIFIER()) AS step, MATCH_EXPECTED() AS lacking, MATCH_STATUS() AS status, count(*) AS n
          ONE ROW PER MATCH SHOW UNFINISHED MATCHES
          EVENT SELECTION SKIP TILL NEXT MATCH
          PATTERN (OPENED ANSWERED CLOSED)
          {}
          DEFINE OPENED AS event = 'opened', ANSWERED AS event = 'answered', CLOSED AS event = 'closed'"""
STEPS = ("opened", "answered", "closed")


def _funnels(rows: list[Row], size: datetime.timedelta | None = None):
    """(first row, taken rows) of each match and unfinished match"""
    for some in by(rows, "end", order=_order):
        i, told = 0, -1
        while i < len(some):
            taken = [i] if some[i].event == STEPS[0] else []
            while taken and len(taken) < 3:
                at = next((j for j in range(taken[-1] + 1, len(some)) if some[j].event == STEPS[len(taken)]), None)
                if at is None or size is not None and some[at].ts - some[i].ts >= size:
                    break
                taken.append(at)
            if len(taken) == 3 or taken and i > told:
                yield some[i], [some[j] for j in taken]
                told = taken[-1]
            i = taken[-1] + 1 if len(taken) == 3 else i + 1


@question(of={"tickets": desk_tickets}, sql=f"SELECT `end`, began, step, lacking, status FROM tickets MATCH_RECOGNIZE ({FUNNEL.format('')})", quick=True)
def steps_of_tickets(tickets):
    """How far did each ticket get, and what does it lack?"""
    for first, taken in _funnels(tickets):
        n = len(taken)
        yield first.end, first.rank, STEPS[n - 1].upper(), tuple(step.upper() for step in STEPS[n : n + 1]), "MATCHED" if n == 3 else "OPEN"


_TIMED_FUNNEL = FUNNEL.format("WINDOW INTERVAL '40' MINUTE")


@question(of={"tickets": desk_tickets}, sql=f"SELECT `end`, began, step, status, n FROM tickets MATCH_RECOGNIZE ({_TIMED_FUNNEL})", stream=Stream("ts", "end"))
def steps_of_tickets_in_time(tickets):
    """How far does each ticket get within forty minutes?"""
    for first, taken in _funnels(tickets, 40 * MINUTE):
        yield first.end, first.rank, STEPS[len(taken) - 1].upper(), "MATCHED" if len(taken) == 3 else "TIMED OUT", len(taken)


@question(of={"tickets": desk_tickets}, sql=f"SELECT step, lacking, count(*) AS n FROM tickets MATCH_RECOGNIZE ({_TIMED_FUNNEL}) GROUP BY ALL HAVING step <> 'CLOSED' ORDER BY n DESC, step", ordered=True)
def funnel_of_tickets(tickets):
    """At which step do most tickets stop within forty minutes?"""
    counts = Counter(len(taken) for _, taken in _funnels(tickets, 40 * MINUTE) if len(taken) < 3)
    for n, count in sorted(counts.items(), key=lambda item: (-item[1], STEPS[item[0] - 1])):
        yield STEPS[n - 1].upper(), (STEPS[n].upper(),), count


@question(
    of={"tickets": desk_tickets},
    sql="""
        SELECT `end`, began, status, broken_by FROM tickets MATCH_RECOGNIZE (
          PARTITION BY `end` ORDER BY ts, `rank`
          MEASURES FIRST(`rank`) AS began, MATCH_STATUS() AS status, NEXT(event) AS broken_by
          ONE ROW PER MATCH SHOW UNFINISHED MATCHES
          PATTERN (OPENED ANSWERED CLOSED)
          DEFINE OPENED AS event = 'opened', ANSWERED AS event = 'answered', CLOSED AS event = 'closed'
        ) WHERE status <> 'MATCHED'""",
)
def events_that_break_the_order(tickets):
    """Which event came instead of the next step?"""
    for rows in by(tickets, "end", order=_order):
        i, told = 0, -1
        while i < len(rows):
            n = 0
            while n < 3 and i + n < len(rows) and rows[i + n].event == STEPS[n]:
                n += 1
            if 0 < n < 3 and i > told:
                broken = i + n < len(rows)
                yield rows[i].end, rows[i].rank, "BROKEN" if broken else "OPEN", rows[i + n].event if broken else None
                told = i + n - 1
            i += n if n == 3 else 1


@question(
    of={"tickets": desk_tickets},
    sql="""
        SELECT `end`, `rank`, step, status FROM tickets MATCH_RECOGNIZE (
          PARTITION BY `end` ORDER BY ts, `rank`
          MEASURES CLASSIFIER() AS step, MATCH_STATUS() AS status
          ALL ROWS PER MATCH WITH UNMATCHED ROWS SHOW UNFINISHED MATCHES
          PATTERN (NOTE{2})
          DEFINE NOTE AS event = 'note'
        ) WHERE event = 'note'""",
)
def single_notes(tickets):
    """Which notes come in pairs, and which ones are single?"""
    for rows in by(tickets, "end", order=_order):
        for span in spans(rows, lambda row: row.event == "note"):
            alone = "OPEN" if span[-1] is rows[-1] else "BROKEN"
            for i, row in enumerate(span):
                yield row.end, row.rank, "NOTE", alone if i == len(span) - 1 and len(span) % 2 else "MATCHED"


# -- heartbeats -------------------------------------------------------------------------------------------------------

SILENT = """
          PARTITION BY `end` ORDER BY ts, `rank`
          MEASURES FIRST(ts) AS beat, FIRST(`rank`) AS number, MATCH_STATUS() AS status, MATCH_ENDED_AT() AS silent
          ONE ROW PER MATCH SHOW {} MATCHES
          AFTER MATCH SKIP TO LAST FOLLOWING
          PATTERN (BEAT FOLLOWING)
          WINDOW INTERVAL '3' MINUTE
          DEFINE BEAT AS event = 'beat', FOLLOWING AS event = 'beat'"""


def _silent(rows: list[Row]):
    for some in by(rows, "end", order=_order):
        for i, row in enumerate(some):
            if row.event == "beat" and not (i + 1 < len(some) and some[i + 1].ts - row.ts < 3 * MINUTE):
                yield row.end, row.ts, row.rank, row.ts + 3 * MINUTE


@question(of={"beats": host_beats}, sql=f"SELECT `end`, beat, number, silent FROM beats MATCH_RECOGNIZE ({SILENT.format('TIMEOUT')}) WHERE status = 'TIMED OUT'", stream=Stream("ts", "end"), quick=True)
def hosts_that_fell_silent(beats):
    """Which beats were not followed by another one within three minutes?"""
    yield from _silent(beats)


@question(of={"beats": host_beats}, sql=f"SELECT `end`, count(*) AS n, max(silent) AS since FROM beats MATCH_RECOGNIZE ({SILENT.format('UNFINISHED')}) WHERE status = 'TIMED OUT' GROUP BY `end` HAVING n > 2")
def hosts_that_often_fall_silent(beats):
    """Which hosts fell silent more than twice, and when last?"""
    found = list(_silent(beats))
    for end, n in Counter(one[0] for one in found).items():
        if n > 2:
            yield end, n, max(one[3] for one in found if one[0] == end)


@question(
    of={"beats": host_beats, "tickets": desk_tickets},
    sql=f"""
        SELECT 'host' AS what, `end`, beat AS since FROM beats MATCH_RECOGNIZE ({SILENT.format('TIMEOUT')}) WHERE status = 'TIMED OUT'
        UNION ALL
        SELECT 'ticket', `end`, since FROM tickets MATCH_RECOGNIZE ({ANSWERED.format('TIMEOUT')}) WHERE status = 'TIMED OUT'""",
    settings={"spark.sql.adaptive.enabled": "false", "spark.sql.shuffle.partitions": "3"},
)
def all_alerts(beats, tickets):
    """Which alerts are there about hosts and tickets together?"""
    yield from (("host", end, beat) for end, beat, _, _ in _silent(beats))
    yield from (("ticket", one[0], one[1]) for one in _answered(tickets) if one[3] == "TIMED OUT")


@question(
    of={"tickets": desk_tickets},
    sql="""
        SELECT `rank`, began, status, ended FROM (SELECT `end` AS `rank`, CAST(ts AS DATE) AS day, `rank` AS n, event FROM tickets) MATCH_RECOGNIZE (
          PARTITION BY `rank` ORDER BY day, n
          MEASURES FIRST(n) AS began, MATCH_STATUS() AS status, MATCH_ENDED_AT() AS ended
          ONE ROW PER MATCH SHOW UNFINISHED MATCHES
          EVENT SELECTION SKIP TILL NEXT MATCH
          PATTERN (OPENED ~CLOSED)
          WINDOW INTERVAL '2' DAY
          DEFINE OPENED AS event = 'opened', CLOSED AS event = 'closed'
        )""",
)
def tickets_that_stay_open_for_two_days(tickets):
    """Which tickets stay open for two days, and on which day were the others closed?"""
    for rows in by(tickets, "end", order=_order):
        for i, row in enumerate(rows):
            if row.event == "opened":
                day = row.ts.date()
                closed = next((other.ts.date() for other in rows[i + 1 :] if other.event == "closed" and other.ts.date() < day + 2 * DAY), None)
                yield row.end, row.rank, "BROKEN" if closed else "MATCHED", closed or day + 2 * DAY


@question(
    of={"tickets": desk_tickets},
    sql="""
        SELECT `end`, began, n, status FROM tickets MATCH_RECOGNIZE (
          PARTITION BY `end` ORDER BY ts DESC, `rank` DESC
          MEASURES FIRST(`rank`) AS began, count(*) AS n, MATCH_STATUS() AS status
          ONE ROW PER MATCH SHOW UNFINISHED MATCHES
          PATTERN (CLOSED OPENED)
          WINDOW INTERVAL '10' MINUTE
          DEFINE CLOSED AS event = 'closed', OPENED AS event = 'opened'
        ) WHERE status <> 'MATCHED'""",
)
def closed_without_being_opened_just_before(tickets):
    """Which closed tickets were not opened just before, looking backwards in time?"""
    clock = min(row.ts for row in tickets)
    for rows in by(tickets, "end", order=_order):
        for i, row in enumerate(rows):
            before = rows[i - 1] if i else None
            inside = before is not None and row.ts - before.ts < 10 * MINUTE
            if row.event == "closed" and not (inside and before.event == "opened"):
                late = before is not None or row.ts - clock >= 10 * MINUTE
                yield row.end, row.rank, 1, "BROKEN" if inside else "TIMED OUT" if late else "OPEN"
