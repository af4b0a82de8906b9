"""Questions about tickets, machines, meters, a chat, football and cards."""

from __future__ import annotations

import datetime
import itertools
import zoneinfo
from decimal import Decimal

from tests.questions import data
from tests.questions.data import HOUR, MINUTE
from tests.questions.question import Stream, by, question, streaks

BERLIN = zoneinfo.ZoneInfo("Europe/Berlin")


@question(
    of={"tickets": data.tickets},
    sql="""
        SELECT ticket, hours FROM tickets MATCH_RECOGNIZE (
          PARTITION BY ticket ORDER BY at, seq
          MEASURES timestampdiff(MINUTE, O.at, coalesce(A.at, LAST(at))) / 60 AS hours, count(A.*) AS answered
          PATTERN (O X*? (A | $))
          DEFINE O AS match = 'opened', A AS match = 'answered', X AS match <> 'answered'
        )
        WHERE hours > 4 OR answered = 0""",
)
def tickets_that_wait(tickets):
    """Which tickets are not answered within four hours, or not at all, and how long do they wait?"""
    for events in by(tickets, "ticket", order=lambda e: (e.at, e.seq)):
        opened = next(i for i, e in enumerate(events) if e.match == "opened")
        answer = next((e for e in events[opened:] if e.match == "answered"), None)
        hours = ((answer or events[-1]).at - events[opened].at) // MINUTE / 60
        if hours > 4 or answer is None:
            yield events[0].ticket, hours


@question(
    of={"tickets": data.tickets},
    sql="""
        SELECT ticket, again FROM tickets MATCH_RECOGNIZE (
          PARTITION BY ticket ORDER BY at, seq
          MEASURES count(R.*) AS again, FIRST(at) AS since
          PATTERN ((N*? A N*? R)+ N* C) WITHIN INTERVAL '60' DAY
          DEFINE A AS match = 'answered', R AS match = 'reopened', N AS match NOT IN ('answered', 'reopened', 'closed'), C AS match = 'closed'
        )""",
    stream=Stream("at", "ticket"),
    quick=True,
)
def tickets_opened_again_and_again(tickets):
    """How often is a ticket answered and opened again before it is closed?"""
    for events in by(tickets, "ticket", order=lambda e: (e.at, e.seq)):
        steps = [e.match for e in events if e.match in ("answered", "reopened", "closed")]
        while steps:  # pairs from the first answer on that a closing follows
            again = 0
            while steps[2 * again : 2 * again + 2] == ["answered", "reopened"]:
                again += 1
            if again and steps[2 * again : 2 * again + 1] == ["closed"]:
                yield events[0].ticket, again
                steps = steps[2 * again + 1 :]
            else:
                steps = steps[1:]


@question(
    of={"machines": data.machines},
    sql="""
        SELECT key, since, until, peak FROM machines MATCH_RECOGNIZE (
          PARTITION BY key ORDER BY time
          MEASURES FIRST(time) AS since, LAST(time) AS until, max(temperature) AS peak
          PATTERN (ON STAY*) WINDOW INTERVAL '1' DAY
          DEFINE ON AS temperature > 80, STAY AS temperature >= 70
        )""",
    stream=Stream("time", "key"),
)
def alarms_with_hysteresis(machines):
    """From when to when is an alarm on that comes on above 80 degrees and goes off below 70?"""
    for readings in by(machines, "key", order="time"):
        on = []
        for r in [*readings, None]:
            if r is not None and r.temperature is not None and r.temperature > (80 if not on else 69.99):
                on.append(r)
            elif on:
                yield on[0].key, on[0].time, on[-1].time, max(x.temperature for x in on)
                on = []


@question(
    of={"machines": data.machines},
    sql="""
        SELECT key, last_codes, total FROM machines MATCH_RECOGNIZE (
          PARTITION BY key ORDER BY time
          MEASURES LAST(F.codes) AS last_codes, aggregate(flatten(array_agg(codes)), 0, (sum, x) -> sum + x) AS total
          PATTERN (F{2,})
          DEFINE F AS state = 'fail' AND exists(codes, x -> x > 6)
        )""",
)
def failures_with_a_high_code(machines):
    """What are the last codes, and their total, of failures in a row that each have a code above 6?"""
    for readings in by(machines, "key", order="time"):
        for failed, spell in itertools.groupby(readings, key=lambda r: r.state == "fail" and max(r.codes, default=0) > 6):
            spell = list(spell)
            if failed and len(spell) >= 2:
                yield spell[0].key, spell[-1].codes, sum(sum(r.codes) for r in spell)


@question(
    of={"machines": data.machines},
    sql="""
        SELECT key, at, min(errors) AS errors FROM machines MATCH_RECOGNIZE (
          PARTITION BY key ORDER BY time
          MEASURES LAST(time) AS at, MATCH_ERRORS() AS errors
          EVENT SELECTION STRICT CONTIGUITY
          PATTERN (R I F S)
          APPROX 1
          DEFINE R AS state = 'run', I AS state = 'idle', F AS state = 'fail', S AS state = 'setup'
        ) GROUP BY key, at""",
)
def nearly_a_cycle(machines):
    """Where does a cycle of run, idle, fail and setup end, of which one reading may be wrong, missing or too much?"""
    cycle = ["run", "idle", "fail", "setup"]
    for readings in by(machines, "key", order="time"):
        states = [r.state for r in readings]
        for end in range(1, len(states) + 1):
            costs = []
            for size in (3, 4, 5):
                some = states[end - size : end] if end >= size else []
                if size == 4 and some:
                    costs.append(sum(a != b for a, b in zip(some, cycle, strict=True)))
                elif size == 3 and some in [cycle[:i] + cycle[i + 1 :] for i in range(4)]:
                    costs.append(1)
                elif size == 5 and cycle in [some[:i] + some[i + 1 :] for i in (1, 2, 3)]:
                    costs.append(1)
            if min(costs, default=2) <= 1:
                yield readings[0].key, readings[end - 1].time, min(costs)


@question(
    of={"meters": data.meters},
    sql="""
        SELECT meter, day, total, hours FROM meters MATCH_RECOGNIZE (
          PARTITION BY meter ORDER BY hour
          MEASURES to_date(FIRST(hour)) AS day, sum(kwh) AS total, count(*) AS hours
          PATTERN (A SAME*)
          DEFINE SAME AS to_date(hour) = to_date(PREV(hour))
        )
        WHERE hours >= 24""",
    settings={"spark.sql.session.timeZone": "Europe/Berlin"},
)
def whole_days_of_a_meter(meters):
    """How much does a meter count on local days, one of them of 25 hours, of which 24 hours or more are there?"""

    def day(r) -> datetime.date:
        return r.hour.replace(tzinfo=datetime.UTC).astimezone(BERLIN).date()

    for readings in by(meters, "meter", order="hour"):
        for hours in streaks(readings, lambda a, b: day(a) == day(b)):
            if len(hours) >= 24:
                yield hours[0].meter, day(hours[0]), sum((r.kwh for r in hours if r.kwh is not None), Decimal(0)), len(hours)


@question(
    of={"messages": data.messages},
    sql="""
        SELECT room, a, b, n FROM messages MATCH_RECOGNIZE (
          PARTITION BY room ORDER BY ts, id
          MEASURES FIRST(X.author) AS a, FIRST(Y.author) AS b, count(*) AS n, LAST(ts) AS until
          PATTERN (X Y (X Y)+) WINDOW INTERVAL '100' DAY
          DEFINE X AS author = FIRST(X.author), Y AS author = FIRST(Y.author) AND author <> FIRST(X.author)
        )""",
    stream=Stream("ts", "room"),
)
def dialogues(messages):
    """Between whom, and for how many messages, do two authors take turns at least twice each?"""
    for of in by(messages, "room", order=lambda m: (m.ts, m.id)):
        at = 0
        while at + 3 < len(of):
            pair, end = [of[at].author, of[at + 1].author], at
            while pair[0] != pair[1] and [m.author for m in of[end : end + 2]] == pair:
                end += 2
            if end - at >= 4:
                yield of[0].room, *pair, end - at
                at = end
            else:
                at += 1


@question(
    of={"moves": data.moves},
    sql="""
        SELECT game, goal, last_loss FROM moves MATCH_RECOGNIZE (
          PARTITION BY game ORDER BY ts
          MEASURES G.number AS goal, LAST(L.number) AS last_loss
          PATTERN ((L | O)+? G) WINDOW INTERVAL '1' DAY
          DEFINE L AS kind = 'loss', G AS kind = 'goal', O AS kind IS NOT NULL
        )""",
    stream=Stream("ts", "game"),
    quick=True,
)
def last_loss_before_a_goal(moves):
    """When was the ball lost last before each goal?"""
    for of in by(moves, "game", order="ts"):
        lost, since = None, 0
        for m in of:
            if m.kind == "goal" and since:
                yield m.game, m.number, lost
                lost, since = None, 0
                continue
            lost, since = m.number if m.kind == "loss" else lost, since + 1


@question(
    of={"moves": data.moves},
    sql="""
        SELECT game, team, passes FROM moves MATCH_RECOGNIZE (
          PARTITION BY game ORDER BY ts
          MEASURES FIRST(team) AS team, count(P.*) AS passes
          PATTERN (P{5,} D* S)
          DEFINE P AS kind = 'pass' AND team = FIRST(team), D AS kind = 'dribble' AND team = FIRST(P.team), S AS kind IN ('shot', 'goal') AND team = FIRST(P.team)
        )""",
)
def passes_before_a_shot(moves):
    """How many passes, five at least, lead to a shot of the same team, perhaps after dribbles?"""
    for of in by(moves, "game", order="ts"):
        passes, dribbled, team = 0, False, None
        for m in of:
            if m.team != team:
                passes, dribbled, team = 0, False, m.team
            if m.kind == "pass":
                passes, dribbled = 1 if dribbled else passes + 1, False
            elif m.kind == "dribble" and passes:
                dribbled = True
            else:
                if m.kind in ("shot", "goal") and passes >= 5:
                    yield m.game, m.team, passes
                passes, dribbled = 0, False


@question(
    of={"payments": data.payments},
    sql="""
        SELECT card, since, score, a, b FROM payments MATCH_RECOGNIZE (
          PARTITION BY card ORDER BY ts, id
          MEASURES WINDOW_START() AS since, MATCH_SCORE() AS score, A.id AS a, B.id AS b
          EVENT SELECTION SKIP TILL ANY MATCH
          PATTERN (A B)
          WINDOW INTERVAL '1' HOUR SLIDE INTERVAL '30' MINUTE
          PREF MAX (A.amount + B.amount)
          TOP 1
          DEFINE B AS shop = A.shop
        )""",
    stream=Stream("ts", "card"),
)
def most_at_one_shop_in_an_hour(payments):
    """Which two payments of a card at one shop are the most of each hour, every half hour?"""
    epoch, step = datetime.datetime(1970, 1, 1), 30 * MINUTE
    for of in by(payments, "card", order=lambda p: (p.ts, p.id)):
        begins = {epoch + step * ((p.ts - epoch) // step - back) for p in of for back in (0, 1)}
        for begin in begins:
            inside = [(place, p) for place, p in enumerate(of) if begin <= p.ts < begin + HOUR]
            pairs = [(-(a.amount + b.amount), i, j) for (i, a), (j, b) in itertools.combinations(inside, 2) if a.shop == b.shop]
            if pairs:
                score, i, j = min(pairs)
                yield of[0].card, begin, -score, of[i].id, of[j].id
