"""Questions about visits and accounts: sessions, funnels, bots, failed logins, amounts in JSON text."""

from __future__ import annotations

import collections
import datetime
import json
from zoneinfo import ZoneInfo

import sparkcep
from tests.questions import data
from tests.questions.data import MINUTE, SECOND
from tests.questions.question import Stream, by, question, streaks


@question(
    of={"visits": data.visits},
    sql="""
        SELECT user, since, until, pages, clicks FROM visits MATCH_RECOGNIZE (
          PARTITION BY user ORDER BY timestamp
          MEASURES FIRST(timestamp) AS since, LAST(timestamp) AS until, count(*) AS pages, sum(clicks) AS clicks
          PATTERN (ENTRY MORE*)
          DEFINE MORE AS timestamp - PREV(timestamp) <= INTERVAL '30' MINUTE
        )""",
    stream=Stream("timestamp", "user"),
    quick=True,
)
def sessions(visits):
    """Which sessions does each user have, if half an hour without a page ends a session?"""
    for pages in by(visits, "user", order="timestamp"):
        for some in streaks(pages, lambda a, b: b.timestamp - a.timestamp <= 30 * MINUTE):
            yield some[0].user, some[0].timestamp, some[-1].timestamp, len(some), sum(p.clicks for p in some)


@question(
    of={"visits": data.visits},
    sql="""
        WITH bought AS (
          SELECT user, began, value FROM visits MATCH_RECOGNIZE (
            PARTITION BY user ORDER BY timestamp
            MEASURES CART.timestamp AS began, PAY.value AS value
            EVENT SELECTION SKIP TILL NEXT MATCH
            PATTERN (PRODUCT CART CHECKOUT PAY)
            WINDOW INTERVAL '2' HOUR
            DEFINE PRODUCT AS page = 'product', CART AS page = 'cart', CHECKOUT AS page = 'checkout', PAY AS page = 'pay'
          )
        )
        SELECT user, began, coalesce(value, 0) AS value FROM bought""",
    stream=Stream("timestamp"),
)
def funnel(visits):
    """Who gets from a product to the payment within two hours, with any pages between the steps?"""
    steps = ["product", "cart", "checkout", "pay"]
    for pages in by(visits, "user", order="timestamp"):
        at = 0
        while at < len(pages):
            taken = []
            for i in range(at, len(pages)):
                if pages[i].timestamp - pages[at].timestamp >= 120 * MINUTE:
                    break
                if pages[i].page == steps[len(taken)]:
                    taken.append(i)
                    if len(taken) == 4:
                        break
                elif not taken:
                    break
            if len(taken) == 4:
                yield pages[at].user, pages[taken[1]].timestamp, pages[taken[3]].value or 0
                at = taken[3]
            at += 1


@question(
    of={"visits": data.visits},
    sql="""
        SELECT user, timestamp, minutes FROM visits MATCH_RECOGNIZE (
          PARTITION BY user ORDER BY timestamp
          MEASURES CART.timestamp AS timestamp, timestampdiff(MINUTE, CART.timestamp, LAST(OTHER.timestamp)) AS minutes
          PATTERN (CART OTHER{3,})
          WINDOW INTERVAL '3' HOUR
          DEFINE CART AS page = 'cart', OTHER AS page NOT IN ('checkout', 'pay')
        )""",
    stream=Stream("timestamp"),
)
def carts_left_behind(visits):
    """After which carts do three other pages or more follow without a checkout, within three hours?"""
    for pages in by(visits, "user", order="timestamp"):
        at = 0
        while at < len(pages):
            end = at + 1
            while end < len(pages) and pages[end].page not in ("checkout", "pay") and pages[end].timestamp - pages[at].timestamp < 180 * MINUTE:
                end += 1
            if pages[at].page == "cart" and end - at >= 4:
                yield pages[at].user, pages[at].timestamp, (pages[end - 1].timestamp - pages[at].timestamp) // MINUTE
                at = end
            else:
                at += 1


@question(
    of={"visits": data.visits},
    sql="""
        SELECT user, day, pages FROM visits MATCH_RECOGNIZE (
          PARTITION BY user, date_trunc('DAY', timestamp) ORDER BY timestamp
          MEASURES date_format(FIRST(timestamp), 'MM-dd HH') AS day, count(*) AS pages
          PATTERN (^ P{12,} $)
        )""",
    settings={"spark.sql.session.timeZone": "America/New_York"},
)
def busy_days_of_local_time(visits):
    """On which days of New York, one of which has 23 hours, does a user see twelve pages or more, and from which hour on?"""
    zone = ZoneInfo("America/New_York")
    local = [data.Row(p, local=p.timestamp.replace(tzinfo=datetime.UTC).astimezone(zone)) for p in visits]
    for pages in by([data.Row(p, day=p.local.date()) for p in local], "user", "day", order="timestamp"):
        if len(pages) >= 12:
            yield pages[0].user, f"{pages[0].local:%m-%d %H}", len(pages)


@question(
    of={"visits": data.visits},
    sql="""
        SELECT user, first_page, rate FROM visits MATCH_RECOGNIZE (
          PARTITION BY user ORDER BY timestamp
          MEASURES FIRST(page) AS first_page, round(sum(value) / sum(clicks), 4) AS rate
          PATTERN (NOTHING{2,} SOME)
          DEFINE NOTHING AS clicks = 0, SOME AS clicks > 0 AND coalesce(10 / clicks, 0) < 9
        )""",
    stream=Stream("timestamp", "user"),
)
def clicks_after_none(visits):
    """After which two pages or more without a click comes one with at least two, and what is the value of a click?"""
    for pages in by(visits, "user", order="timestamp"):
        at = 0
        while at < len(pages):
            end = at
            while end < len(pages) and pages[end].clicks == 0:
                end += 1
            if end - at >= 2 and end < len(pages) and 10 / pages[end].clicks < 9:
                some = pages[at : end + 1]
                values = [p.value for p in some if p.value is not None]
                yield some[0].user, some[0].page, round(sum(values) / some[-1].clicks, 4) if values else None
                at = end + 1
            else:
                at += 1


@question(
    of={"visits": data.visits},
    sql="""
        SELECT user, path, count(*) AS times FROM visits MATCH_RECOGNIZE (
          PARTITION BY user ORDER BY timestamp
          MEASURES concat_ws('>', array_agg(page)) AS path
          AFTER MATCH SKIP TO NEXT ROW
          PATTERN (A B C)
          DEFINE B AS page <> A.page, C AS page = A.page AND timestamp < A.timestamp + INTERVAL '1' HOUR
        ) GROUP BY user, path HAVING count(*) > 1""",
)
def to_and_fro(visits):
    """Who goes to another page and back within an hour, more than once for the same two pages?"""
    counted = collections.Counter()
    for pages in by(visits, "user", order="timestamp"):
        for a, b, c in zip(pages, pages[1:], pages[2:]):
            if a.page == c.page != b.page and c.timestamp < a.timestamp + 60 * MINUTE:
                counted[a.user, f"{a.page}>{b.page}>{c.page}"] += 1
    for (user, path), times in counted.items():
        if times > 1:
            yield user, path, times


@question(
    of={"visits": data.visits},
    sql="""
        SELECT user, timestamp, page, label FROM visits MATCH_RECOGNIZE (
          PARTITION BY user ORDER BY timestamp
          MEASURES CLASSIFIER() AS label
          ALL ROWS PER MATCH
          PATTERN (HELP {- OTHER* -} HELP)
          WINDOW INTERVAL '1' HOUR
          DEFINE HELP AS page = 'help', OTHER AS page <> 'help'
        )""",
    stream=Stream("timestamp"),
)
def help_twice_in_an_hour(visits):
    """Who asks for help twice within an hour, with any other pages between?"""
    for pages in by(visits, "user", order="timestamp"):
        helped = [p for p in pages if p.page == "help"]
        at = 0
        while at + 1 < len(helped):
            if helped[at + 1].timestamp - helped[at].timestamp < 60 * MINUTE:
                for p in helped[at : at + 2]:
                    yield p.user, p.timestamp, "help", "HELP"
                at += 2
            else:
                at += 1


@question(
    of={"events": data.events},
    sql="""
        SELECT account, first_try, tries FROM events MATCH_RECOGNIZE (
          PARTITION BY account ORDER BY ts
          MEASURES FIRST(ts) AS first_try, count(FAILED.*) AS tries
          PATTERN (FAILED{2,} IN)
          WINDOW INTERVAL '15' MINUTE
          DEFINE FAILED AS type = 'login_failed', IN AS type = 'login'
        )""",
    stream=Stream("ts"),
)
def guessed_passwords(events):
    """Which accounts are logged into right after two or more failed tries within a quarter of an hour?"""
    for some in by(events, "account", order="ts"):
        at = 0
        while at < len(some):
            end = at
            while end < len(some) and some[end].type == "login_failed":
                end += 1
            if end - at >= 2 and end < len(some) and some[end].type == "login" and some[end].ts - some[at].ts < 15 * MINUTE:
                yield some[at].account, some[at].ts, end - at
                at = end + 1
            else:
                at += 1


def _amount(event):
    return json.loads(event.details or "{}").get("amount")


@question(
    of={"events": data.events},
    sql="""
        SELECT account, ts, small, large FROM events MATCH_RECOGNIZE (
          PARTITION BY account ORDER BY ts
          MEASURES
            LAST(ts) AS ts,
            CAST(get_json_object(A.details, '$.amount') AS INT) AS small,
            CAST(get_json_object(B.details, '$.amount') AS INT) AS large
          PATTERN (A B)
          DEFINE
            A AS type = 'transfer',
            B AS type = 'transfer' AND CAST(get_json_object(B.details, '$.amount') AS INT) > 5 * CAST(get_json_object(A.details, '$.amount') AS INT)
        )""",
    stream=Stream("ts", "account"),
)
def transfers_that_grow(events):
    """Which transfer is more than five times as large as the transfer directly before it, with amounts in JSON text?"""
    for some in by(events, "account", order="ts"):
        at = 0
        while at + 1 < len(some):
            a, b = some[at], some[at + 1]
            if a.type == b.type == "transfer" and _amount(a) and _amount(b) and _amount(b) > 5 * _amount(a):
                yield a.account, b.ts, _amount(a), _amount(b)
                at += 2
            else:
                at += 1


@question(
    of={"events": data.events},
    sql="""
        SELECT account, n, total FROM (
          SELECT *, from_json(details, 'amount INT, ip STRING') AS json FROM events
        ) MATCH_RECOGNIZE (
          PARTITION BY account ORDER BY ts
          MEASURES count(T.json.amount) AS n, sum(T.json.amount) AS total
          EVENT SELECTION SKIP TILL NEXT MATCH
          PATTERN (L T+ O)
          WINDOW INTERVAL '10' MINUTE
          DEFINE L AS type = 'login', T AS type = 'transfer' AND json.ip = L.json.ip, O AS type = 'logout'
        )""",
    stream=Stream("ts"),
)
def transfers_between_login_and_logout(events):
    """How much is transferred between a login and the next logout, within ten minutes and from one address?"""
    for some in by(events, "account", order="ts"):
        some = [data.Row(e, ip=json.loads(e.details or "{}").get("ip")) for e in some]
        at = 0
        while at < len(some):
            end = None
            if some[at].type == "login":
                taken = []
                for i in range(at + 1, len(some)):
                    if some[i].ts - some[at].ts >= 10 * MINUTE:
                        break
                    if some[i].type == "transfer" and some[i].ip is not None and some[i].ip == some[at].ip:
                        taken.append(some[i])
                        end = None
                    elif taken and some[i].type == "logout":
                        end = i
                        break
                if end is not None:
                    amounts = [_amount(t) for t in taken if _amount(t) is not None]
                    yield some[at].account, len(amounts), sum(amounts) if amounts else None
                    at = end
            at += 1


@question(
    of={"events": data.events},
    frame=lambda spark, frames: sparkcep.match_recognize(
        frames["events"],
        partition_by="account",
        order_by="ts",
        clause="""MEASURES OUT.ts AS out, IN.ts AS in, unix_timestamp(IN.ts) - unix_timestamp(OUT.ts) AS seconds
                  PATTERN (OUT IN)
                  WINDOW INTERVAL '2' MINUTE
                  DEFINE OUT AS type = 'logout', IN AS type = 'login'""",
    ),
    stream=Stream("ts"),
)
def back_in_two_minutes(events):
    """Who logs in again less than two minutes after the logout, with nothing between?"""
    for some in by(events, "account", order="ts"):
        for a, b in zip(some, some[1:]):
            if a.type == "logout" and b.type == "login" and b.ts - a.ts < 120 * SECOND:
                yield a.account, a.ts, b.ts, (b.ts - a.ts) // SECOND
