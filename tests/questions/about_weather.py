"""Questions about weather: cold snaps, thresholds that last, missing hours, days of local time over the end of summer time."""

from __future__ import annotations

import collections
import datetime
from zoneinfo import ZoneInfo

import sparkcep
from tests.questions import data
from tests.questions.data import DAY, HOUR
from tests.questions.question import Stream, by, question, spans, streaks

NEW_YORK = ZoneInfo("America/New_York")
IN_NEW_YORK = {"spark.sql.session.timeZone": "America/New_York"}


def _local(time: datetime.datetime) -> datetime.datetime:
    """What a clock in New York shows at an instant of UTC."""
    return time.replace(tzinfo=datetime.UTC).astimezone(NEW_YORK).replace(tzinfo=None)


@question(
    of={"weather": data.weather},
    sql="""
        SELECT origin, began, ended, from_f - to_f AS fell
        FROM weather MATCH_RECOGNIZE (
          PARTITION BY origin ORDER BY time
          MEASURES FIRST(time) AS began, LAST(time) AS ended, FIRST(temp) AS from_f, LAST(temp) AS to_f
          PATTERN (A COLDER{5,})
          DEFINE COLDER AS temp < PREV(temp)
        )
        WHERE from_f - to_f > 8""",
    stream=Stream("time", "origin"),
)
def cold_snaps(weather):
    """When does the temperature fall for five hours or more, by more than eight degrees in all?"""
    for hours in by(weather, "origin", order="time"):
        for fall in streaks(hours, lambda a, b: a.temp is not None and b.temp is not None and b.temp < a.temp):
            if len(fall) >= 6 and fall[0].temp - fall[-1].temp > 8:
                yield fall[0].origin, fall[0].time, fall[-1].time, fall[0].temp - fall[-1].temp


@question(
    of={"weather": data.weather},
    sql="""
        SELECT * FROM weather MATCH_RECOGNIZE (
          PARTITION BY origin ORDER BY time
          MEASURES LAST(A.time) AS last_seen, B.time AS seen_again, timestampdiff(HOUR, A.time, B.time) - 1 AS missing
          AFTER MATCH SKIP TO LAST B
          PATTERN (A B)
          DEFINE B AS time > A.time + INTERVAL '1' HOUR
        )""",
    stream=Stream("time", "origin"),
)
def missing_hours_of_weather(weather):
    """For which hours does an airport have no weather?"""
    for hours in by(weather, "origin", order="time"):
        for a, b in zip(hours, hours[1:]):
            if b.time - a.time > HOUR:
                yield a.origin, a.time, b.time, (b.time - a.time) // HOUR - 1


@question(
    of={"weather": data.weather},
    sql="""
        SELECT origin, hours, wettest, total
        FROM weather MATCH_RECOGNIZE (
          PARTITION BY origin ORDER BY time
          MEASURES count(*) AS hours, max(RAIN.precip) AS wettest, sum(precip) AS total
          PATTERN (RAIN (RAIN | DRY RAIN)+)
          DEFINE RAIN AS precip > 0, DRY AS precip = 0
        )""",
    stream=Stream("time", "origin"),
)
def rain_with_pauses_of_an_hour(weather):
    """How long does it rain, how much in all and in the wettest hour, if a pause of one hour does not end the rain?"""
    for hours in by(weather, "origin", order="time"):
        at = 0
        while at < len(hours):
            end = at
            if hours[at].precip > 0:
                while end + 1 < len(hours):
                    if hours[end + 1].precip > 0:
                        end += 1
                    elif end + 2 < len(hours) and hours[end + 2].precip > 0:
                        end += 2
                    else:
                        break
                if end > at:
                    rain = [h.precip for h in hours[at : end + 1]]
                    yield hours[at].origin, len(rain), max(rain), sum(rain)
            at = end + 1


@question(
    of={"weather": data.weather},
    sql="""
        SELECT * FROM weather MATCH_RECOGNIZE (
          PARTITION BY origin, CAST(time AS DATE) ORDER BY time
          MEASURES date_format(FIRST(time), 'HH:mm') AS since, count(*) AS hours, max(temp) - min(temp) AS rise
          PATTERN (A WARMER{6,})
          DEFINE WARMER AS temp >= PREV(temp)
        )""",
    settings=IN_NEW_YORK,
)
def mornings_that_warm_up(weather):
    """From which local time on does it get no colder for six hours or more of a day, and how much warmer?"""
    local = [data.Row(h, local=_local(h.time), date=_local(h.time).date()) for h in weather]
    for hours in by(local, "origin", "date", order="time"):
        for rise in streaks(hours, lambda a, b: a.temp is not None and b.temp is not None and b.temp >= a.temp):
            if len(rise) >= 7:
                temps = [h.temp for h in rise]
                yield rise[0].origin, rise[0].date, f"{rise[0].local:%H:%M}", len(rise), max(temps) - min(temps)


@question(
    of={"weather": data.weather},
    sql="""
        SELECT origin, a, b, passed FROM weather MATCH_RECOGNIZE (
          PARTITION BY origin ORDER BY time
          MEASURES A.hour AS a, B.hour AS b, unix_timestamp(B.time) - unix_timestamp(A.time) AS passed
          AFTER MATCH SKIP TO NEXT ROW
          PATTERN (A B)
          DEFINE B AS hour <> (PREV(hour) + 1) % 24
        )""",
    stream=Stream("time", "origin"),
    settings=IN_NEW_YORK,
)
def hours_that_a_clock_repeats_or_leaves_out(weather):
    """Between which rows does a clock in New York not go on by one hour?"""
    for hours in by(weather, "origin", order="time"):
        for a, b in zip(hours, hours[1:]):
            if b.hour != (a.hour + 1) % 24:
                yield a.origin, a.hour, b.hour, (b.time - a.time).total_seconds()


@question(
    of={"weather": data.weather},
    sql="""
        SELECT origin, since, days FROM (
          SELECT origin, date_trunc('DAY', time) AS date, min(temp) AS low
          FROM weather GROUP BY origin, date_trunc('DAY', time)
        ) MATCH_RECOGNIZE (
          PARTITION BY origin ORDER BY date
          MEASURES CAST(FIRST(date) AS DATE) AS since, count(*) AS days
          PATTERN (FROST FROST+)
          DEFINE FROST AS low < 36 AND date - INTERVAL '1' DAY = coalesce(PREV(date), date - INTERVAL '1' DAY)
        )""",
    settings=IN_NEW_YORK,
)
def nights_of_frost(weather):
    """On how many days in a row does it get colder than 36 degrees, by New York's days?"""
    lows: dict = collections.defaultdict(dict)
    for h in weather:
        if h.temp is not None:
            day = _local(h.time).date()
            lows[h.origin][day] = min(h.temp, lows[h.origin].get(day, h.temp))
    for origin, days in lows.items():
        cold = [(day, low) for day, low in sorted(days.items())]
        at = 0
        while at < len(cold):
            end = at
            while end < len(cold) and cold[end][1] < 36 and (end == 0 or cold[end][0] - cold[end - 1][0] == DAY):
                end += 1
            if end - at >= 2:
                yield origin, cold[at][0], end - at
            at = max(end, at + 1)


@question(
    of={"weather": data.weather},
    sql="""
        SELECT origin, time_of, gust, before FROM weather MATCH_RECOGNIZE (
          PARTITION BY origin ORDER BY time
          MEASURES STORM.time AS time_of, STORM.wind_gust AS gust, avg(CALM.wind_speed) AS before
          PATTERN (CALM{3} STORM)
          DEFINE CALM AS wind_gust IS NULL, STORM AS wind_gust / nullif(avg(CALM.wind_speed), 0) > 2
        )""",
    stream=Stream("time", "origin"),
)
def gusts_after_three_calm_hours(weather):
    """When does a gust come after three hours without one that is twice as fast as the wind in these hours?"""
    for hours in by(weather, "origin", order="time"):
        at = 0
        while at + 3 < len(hours):
            calm, storm = hours[at : at + 3], hours[at + 3]
            speeds = [h.wind_speed for h in calm if h.wind_speed is not None]
            before = sum(speeds) / len(speeds) if speeds else 0
            if all(h.wind_gust is None for h in calm) and storm.wind_gust is not None and before and storm.wind_gust / before > 2:
                yield storm.origin, storm.time, storm.wind_gust, before
                at += 4
            else:
                at += 1


@question(
    of={"seattle": data.seattle},
    sql="""
        SELECT year, days, mm FROM (SELECT *, year(date) AS year FROM seattle)
        MATCH_RECOGNIZE (
          PARTITION BY year ORDER BY date
          MEASURES count(*) AS days, round(sum(precipitation), 1) AS mm
          PATTERN (WET+)
          PREF MAX (count(*))
          TOP 1
          DEFINE WET AS weather IN ('rain', 'drizzle', 'snow') OR precipitation > 0
        )
        ORDER BY year""",
    ordered=True,
)
def longest_wet_spell_of_each_year(seattle):
    """How long is the longest wet spell of each year, and how much rain falls?"""
    for days in by([data.Row(d, year=d.date.year) for d in seattle], "year", order="date"):
        wet = list(spans(days, lambda d: d.weather in ("rain", "drizzle", "snow") or d.precipitation > 0))
        longest = max(wet, key=lambda s: (len(s), -s[0].date.toordinal()))
        yield days[0].year, len(longest), round(sum(d.precipitation for d in longest), 1)


@question(
    of={"seattle": data.seattle},
    sql="""
        SELECT first_day, last_day, hottest FROM seattle MATCH_RECOGNIZE (
          ORDER BY date
          MEASURES FIRST(date) AS first_day, LAST(date) AS last_day, max(temp_max) AS hottest
          PATTERN (HOT{3,})
          DEFINE HOT AS temp_max >= 27 AND datediff(date, coalesce(PREV(date), date_sub(date, 1))) = 1
        )""",
    cached=True,
    quick=True,
)
def heat_waves(seattle):
    """When is it 27 degrees or warmer on three days or more in a row?"""
    for hot in spans(sorted(seattle, key=lambda d: d.date), lambda d: d.temp_max >= 27):
        if len(hot) >= 3:
            yield hot[0].date, hot[-1].date, max(d.temp_max for d in hot)


@question(
    of={"seattle": data.seattle},
    sql="""
        SELECT month, day, kinds FROM (
          SELECT *, month(date) AS month, day(date) AS day FROM seattle WHERE year(date) = 2014
        ) MATCH_RECOGNIZE (
          ORDER BY date
          MEASURES FIRST(month) AS month, FIRST(day) AS day, concat_ws(' ', array_agg(lower(CLASSIFIER()))) AS kinds
          PATTERN (PERMUTE(SUN, FOG, RAIN))
          DEFINE SUN AS weather = 'sun', FOG AS weather = 'fog', RAIN AS weather = 'rain'
        )""",
)
def three_kinds_of_weather_in_three_days(seattle):
    """On which days do sun, fog and rain begin to follow each other, in any order, in 2014?"""
    days = sorted((d for d in seattle if d.date.year == 2014), key=lambda d: d.date)
    at = 0
    while at + 2 < len(days):
        kinds = [d.weather for d in days[at : at + 3]]
        if sorted(kinds) == ["fog", "rain", "sun"]:
            yield days[at].date.month, days[at].date.day, " ".join(kinds)
            at += 3
        else:
            at += 1


@question(
    of={"cities": data.cities},
    sql="""
        SELECT city, timestamp, value, hours FROM cities MATCH_RECOGNIZE (
          PARTITION BY city ORDER BY timestamp
          MEASURES FINAL count(*) AS hours
          ALL ROWS PER MATCH
          PATTERN (WARM{24,})
          DEFINE WARM AS value > 50
        )""",
    stream=Stream("timestamp", "city"),
)
def warm_for_a_whole_day(cities):
    """During which spans of a day or more is it warmer than 50 degrees at every hour?"""
    for hours in by(cities, "city", order="timestamp"):
        for warm in spans(hours, lambda h: h.value > 50):
            if len(warm) >= 24:
                for h in warm:
                    yield h.city, h.timestamp, h.value, len(warm)


@question(
    of={"cities": data.cities},
    frame=lambda spark, frames: sparkcep.match_recognize(
        frames["cities"].where("city = 'Seattle'").cache(),
        clause="""PARTITION BY date_trunc('week', timestamp) ORDER BY timestamp
                  MEASURES LAST(timestamp) AS at, LAST(value) - FIRST(value) AS rise
                  PATTERN (UP{4,}) DEFINE UP AS value >= PREV(value) + 1""",
    ).select("at", "rise"),
)
def quick_rises_of_a_week(cities):
    """When does Seattle's temperature rise by a degree or more an hour, for four hours or more of a week?"""
    weeks = [data.Row(h, week=h.timestamp.isocalendar()[:2]) for h in cities if h.city == "Seattle"]
    for hours in by(weeks, "week", order="timestamp"):
        for rise in streaks(hours, lambda a, b: b.value >= a.value + 1):
            if len(rise) >= 5:
                yield rise[-1].timestamp, rise[-1].value - rise[1].value
