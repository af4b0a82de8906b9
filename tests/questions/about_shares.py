"""Questions about shares and other figures by day, month or year: V shapes, double bottoms, streaks, drawdowns."""

from __future__ import annotations

import collections

import sparkcep
from tests.questions import data
from tests.questions.question import by, question, streaks


@question(
    of={"shares": data.shares},
    sql="""
        SELECT symbol, top, bottom, back FROM shares MATCH_RECOGNIZE (
          PARTITION BY symbol ORDER BY date
          MEASURES TOP.price AS top, LAST(DOWN.price) AS bottom, LAST(UP.date) AS back
          AFTER MATCH SKIP TO LAST UP
          PATTERN (TOP DOWN{2,} UP{2,})
          DEFINE DOWN AS price < PREV(price), UP AS price > PREV(price)
        )""",
    cached=True,
    quick=True,
)
def v_shapes(shares):
    """Which share falls for two months or more and rises for two months or more directly after it?"""
    for months in by(shares, "symbol", order="date"):
        at = 0
        while at < len(months):
            bottom = at
            while bottom + 1 < len(months) and months[bottom + 1].price < months[bottom].price:
                bottom += 1
            end = bottom
            while end + 1 < len(months) and months[end + 1].price > months[end].price:
                end += 1
            if bottom - at >= 2 and end - bottom >= 2:
                yield months[at].symbol, months[at].price, months[bottom].price, months[end].date
                at = end
            else:
                at += 1


@question(
    of={"google": data.google},
    sql="""
        SELECT first_low, second_low FROM google MATCH_RECOGNIZE (
          ORDER BY date
          MEASURES LAST(D1.date) AS first_low, LAST(D2.date) AS second_low
          AFTER MATCH SKIP TO NEXT ROW
          PATTERN (START D1+ U1+ D2+ U2)
          DEFINE
            D1 AS close < PREV(close),
            U1 AS close > PREV(close),
            D2 AS close < PREV(close),
            U2 AS close > PREV(close) AND abs(LAST(D2.close) / LAST(D1.close) - 1) < 0.002 AND LAST(U1.close) > LAST(D1.close) * 1.03
        )""",
)
def double_bottoms(google):
    """When does Google's share have a double bottom, with lows within 0.2 % and a peak at least 3 % above the first?"""
    days = sorted(google, key=lambda d: d.date)

    def turn(at, sign):
        """Where a fall (-1) or rise (1) that begins at a day ends."""
        while at + 1 < len(days) and sign * (days[at + 1].close - days[at].close) > 0:
            at += 1
        return at

    for start in range(len(days)):
        low = turn(start, -1)
        peak = turn(low, 1)
        second = turn(peak, -1)
        if start < low < peak < second < turn(second, 1) and abs(days[second].close / days[low].close - 1) < 0.002:
            if days[peak].close > days[low].close * 1.03:
                yield days[low].date, days[second].date


@question(
    of={"google": data.google},
    sql="""
        SELECT since, days, round(gain, 4) AS gain FROM google MATCH_RECOGNIZE (
          ORDER BY date
          MEASURES FIRST(date) AS since, count(*) AS days, LAST(close) / FIRST(open) - 1 AS gain
          PATTERN (UP{6,})
          DEFINE UP AS close > open AND close > coalesce(PREV(close), 0)
        )""",
)
def winning_streaks(google):
    """When does Google's share rise on six days or more in a row, both during the day and from day to day?"""
    days = sorted(google, key=lambda d: d.date)
    at = 0
    while at < len(days):
        end = at
        while end < len(days) and days[end].close > days[end].open and (end == 0 or days[end].close > days[end - 1].close):
            end += 1
        if end - at >= 6:
            yield days[at].date, end - at, round(days[end - 1].close / days[at].open - 1, 4)
        at = max(end, at + 1)


@question(
    of={"google": data.google},
    sql="""
        SELECT date, open, closed FROM (SELECT date, open, close, high, low FROM google)
        MATCH_RECOGNIZE (
          ORDER BY date
          MEASURES GAP.date AS date, GAP.open AS open, FILL.date AS closed
          AFTER MATCH SKIP TO NEXT ROW
          EVENT SELECTION SKIP TILL NEXT MATCH
          PATTERN (BEFORE GAP FILL)
          WINDOW INTERVAL '10' DAY
          DEFINE
            GAP AS open > BEFORE.high * 1.01 AND low > BEFORE.high AND PREV(date) = BEFORE.date,
            FILL AS low <= BEFORE.high
        )""",
)
def gaps_that_are_filled(google):
    """Which gaps of more than one percent between two days' trading are filled before ten days have passed?"""
    days = sorted(google, key=lambda d: d.date)
    for i, (before, gap) in enumerate(zip(days, days[1:])):
        if gap.open > before.high * 1.01 and gap.low > before.high:
            later = [d for d in days[i + 2 :] if d.low <= before.high]
            if later and (later[0].date - before.date).days < 10:
                yield gap.date, gap.open, later[0].date


@question(
    of={"google": data.google},
    sql="""
        SELECT date, volume, average FROM google MATCH_RECOGNIZE (
          ORDER BY date
          MEASURES SPIKE.date AS date, SPIKE.volume AS volume, avg(USUAL.volume) AS average
          AFTER MATCH SKIP TO NEXT ROW
          PATTERN (USUAL{20} SPIKE)
          DEFINE SPIKE AS volume > 3 * avg(USUAL.volume)
        )""",
)
def volume_spikes(google):
    """On which days is three times as much traded as on the average of the twenty days before?"""
    days = sorted(google, key=lambda d: d.date)
    for i in range(20, len(days)):
        average = sum(d.volume for d in days[i - 20 : i]) / 20
        if days[i].volume > 3 * average:
            yield days[i].date, days[i].volume, average


@question(
    of={"google": data.google},
    sql="""
        SELECT day, value FROM (SELECT date AS day, CAST(close AS DECIMAL(10,2)) AS value FROM google)
        MATCH_RECOGNIZE (
          ORDER BY day
          MEASURES LAST(day) AS day, LAST(value) AS value
          AFTER MATCH SKIP TO LAST LOSS
          PATTERN (START LOSS{5,})
          DEFINE LOSS AS value <= PREV(value) AND datediff(day, PREV(day)) <= 3
        )""",
    cached=True,
)
def five_losses_in_a_row(google):
    """When does a streak of five days or more without a gain end, with neighbours at most three days apart?"""
    days = sorted(google, key=lambda d: d.date)
    for row in streaks(days, lambda a, b: b.close <= a.close and (b.date - a.date).days <= 3):
        if len(row) >= 6:
            yield row[-1].date, data.Decimal(str(row[-1].close))


@question(
    of={"shares": data.shares},
    sql="""
        SELECT symbol, peak, depth, months FROM shares MATCH_RECOGNIZE (
          PARTITION BY symbol ORDER BY date
          MEASURES
            PEAK.date AS peak,
            round(1 - min(BELOW.price) / PEAK.price, 4) AS depth,
            count(BELOW.*) AS months
          PATTERN (PEAK BELOW{6,})
          DEFINE BELOW AS price < PEAK.price
        )""",
)
def drawdowns_of_half_a_year(shares):
    """For how many months, six or more, does a share stay below an earlier price, and how far does it fall?"""
    for months in by(shares, "symbol", order="date"):
        at = 0
        while at < len(months):
            end = at + 1
            while end < len(months) and months[end].price < months[at].price:
                end += 1
            if end - at > 6:
                lowest = min(m.price for m in months[at + 1 : end])
                yield months[at].symbol, months[at].date, round(1 - lowest / months[at].price, 4), end - at - 1
                at = end
            else:
                at += 1


@question(
    of={"shares": data.shares},
    sql="""
        SELECT date, symbols FROM (
          SELECT date, symbol, price, price / lag(price) OVER (PARTITION BY symbol ORDER BY date) - 1 AS change FROM shares
        ) MATCH_RECOGNIZE (
          PARTITION BY date ORDER BY symbol
          MEASURES concat_ws(',', array_agg(symbol)) AS symbols
          PATTERN (^ DOWN{3,} $)
          DEFINE DOWN AS change < -0.03
        )""",
)
def months_in_which_all_fall(shares):
    """In which months does each of the five shares lose more than three percent?"""
    changes = collections.defaultdict(dict)
    for months in by(shares, "symbol", order="date"):
        for i, m in enumerate(months):
            changes[m.date][m.symbol] = m.price / months[i - 1].price - 1 if i else None
    for date, of in changes.items():
        if len(of) >= 3 and all(change is not None and change < -0.03 for change in of.values()):
            yield date, ",".join(sorted(of))


@question(
    of={"google": data.google},
    sql="""
        CREATE TABLE swings (low DATE, high DATE, gain DOUBLE) USING parquet;
        INSERT INTO swings
        SELECT low, high, gain FROM google MATCH_RECOGNIZE (
          ORDER BY date
          MEASURES A.date AS low, B.date AS high, B.close / A.close - 1 AS gain
          PATTERN (A B)
          WINDOW 15 ROWS
          EVENT SELECTION SKIP TILL ANY MATCH
          PREF MAX (B.close / A.close)
          TOP 3
        );
        SELECT low, high, round(gain, 6) FROM swings""",
)
def best_trades_of_three_weeks(google):
    """Which three trades that last fifteen days at most gain the most?"""
    days = sorted(google, key=lambda d: d.date)
    pairs = ((days[j].close / days[i].close, -i, -j) for i in range(len(days)) for j in range(i + 1, min(i + 15, len(days))))
    for ratio, i, j in sorted(pairs, reverse=True)[:3]:
        yield days[-i].date, days[-j].date, round(ratio - 1, 6)


@question(
    of={"jobs": data.jobs},
    sql="""
        SELECT since, until, months, lost FROM jobs MATCH_RECOGNIZE (
          ORDER BY month
          MEASURES FIRST(month) AS since, LAST(month) AS until, count(LOSS.*) AS months, FIRST(nonfarm) - LAST(nonfarm) AS lost
          PATTERN (BEFORE LOSS{3,})
          DEFINE LOSS AS nonfarm < PREV(nonfarm) AND months_between(month, PREV(month)) = 1
        )""",
)
def recessions(jobs):
    """When are jobs lost for three months or more in a row, and how many?"""
    months = sorted(jobs, key=lambda m: m.month)
    for row in streaks(months, lambda a, b: b.nonfarm < a.nonfarm):
        if len(row) >= 4:
            yield row[0].month, row[-1].month, len(row) - 1, row[0].nonfarm - row[-1].nonfarm


@question(
    of={"driving": data.driving},
    sql="""
        SELECT label, year, miles, gas FROM driving MATCH_RECOGNIZE (
          ORDER BY year
          MEASURES CLASSIFIER() AS label
          ALL ROWS PER MATCH
          PATTERN ({- BEFORE -} (LESS | DEARER)+)
          DEFINE LESS AS miles < PREV(miles), DEARER AS gas > PREV(gas)
        )""",
)
def years_of_less_driving_or_dearer_gas(driving):
    """In which years is less driven than in the year before, and in which others is gas dearer?"""
    years = sorted(driving, key=lambda y: y.year)
    labels = [None] + ["LESS" if b.miles < a.miles else "DEARER" if b.gas > a.gas else None for a, b in zip(years, years[1:])]
    at = 0
    while at < len(years):
        end = at + 1
        while end < len(years) and labels[end]:
            yield labels[end], years[end].year, years[end].miles, years[end].gas
            end += 1
        at = end


@question(
    of={"google": data.google},
    frame=lambda spark, frames: sparkcep.match_recognize(
        frames["google"].withColumnRenamed("date", "timestamp").where("year(timestamp) = 2008"),
        order_by="timestamp",
        clause="""MEASURES FIRST(BOTH.timestamp) AS since, count(BOTH.*) AS n, sum(UP.volume) AS up, sum(DOWN.volume) AS down
                  PATTERN (UP DOWN UP DOWN UP)
                  SUBSET BOTH = (UP, DOWN)
                  DEFINE UP AS close > PREV(close), DOWN AS close < PREV(close)""",
    ),
)
def zigzags(google):
    """When does Google's share go up and down by turns for five days in 2008, and how much is traded on days up and down?"""
    days = sorted((d for d in google if d.date.year == 2008), key=lambda d: d.date)
    up = [None] + [b.close > a.close if b.close != a.close else None for a, b in zip(days, days[1:])]
    at = 0
    while at + 4 < len(days):
        if up[at : at + 5] == [True, False, True, False, True]:
            volumes = [d.volume for d in days[at : at + 5]]
            yield days[at].date, 5, sum(volumes[::2]), sum(volumes[1::2])
            at += 5
        else:
            at += 1
