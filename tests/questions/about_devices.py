"""Questions about devices: missing beats, states that flap, thresholds that last, readings that are NULL."""

from __future__ import annotations

import sparkcep
from tests.questions import data
from tests.questions.data import MINUTE, SECOND
from tests.questions.question import Stream, by, question, spans, streaks


@question(
    of={"heartbeats": data.heartbeats},
    sql="""
        SELECT device, last_beat, next_beat, silent FROM heartbeats MATCH_RECOGNIZE (
          PARTITION BY device ORDER BY ts
          MEASURES A.ts AS last_beat, B.ts AS next_beat, unix_timestamp(B.ts) - unix_timestamp(A.ts) AS silent
          AFTER MATCH SKIP TO LAST B
          PATTERN (A B)
          DEFINE B AS ts > PREV(ts) + INTERVAL '5' MINUTE
        )""",
    stream=Stream("ts", "device"),
    settings={"spark.sql.session.timeZone": "Europe/Berlin"},
    quick=True,
)
def missing_beats(heartbeats):
    """Which devices are silent for more than five minutes, in a night in which a local hour comes twice?"""
    for beats in by(heartbeats, "device", order="ts"):
        for a, b in zip(beats, beats[1:]):
            if b.ts - a.ts > 5 * MINUTE:
                yield a.device, a.ts, b.ts, (b.ts - a.ts) // SECOND


@question(
    of={"heartbeats": data.heartbeats},
    sql="""
        SELECT * FROM heartbeats MATCH_RECOGNIZE (
          PARTITION BY device ORDER BY ts
          MEASURES date_format(FIRST(ts), 'HH:mm xxx') AS since, count(*) AS beats, min(voltage) AS least
          PATTERN (LOW{4,})
          DEFINE LOW AS voltage < 3.7 AND (PREV(ts) IS NULL OR ts < PREV(ts) + INTERVAL '3' MINUTE)
        )""",
    stream=Stream("ts", "device"),
    settings={"spark.sql.session.timeZone": "Europe/Berlin"},
)
def low_voltage(heartbeats):
    """Since what local time and offset is a voltage below 3.7 for four beats or more without a pause of three minutes?"""
    change = data.datetime.datetime(2024, 10, 27, 1)
    for beats in by(heartbeats, "device", order="ts"):
        at = 0
        while at < len(beats):
            end = at
            while end < len(beats) and beats[end].voltage < 3.7 and (end == 0 or beats[end].ts - beats[end - 1].ts < 3 * MINUTE):
                end += 1
            if end - at >= 4:
                hours = 2 if beats[at].ts < change else 1
                local = beats[at].ts + hours * data.HOUR
                yield beats[at].device, f"{local:%H:%M} +0{hours}:00", end - at, min(b.voltage for b in beats[at:end])
            at = max(end, at + 1)


@question(
    of={"sensors": data.sensors},
    sql="""
        SELECT sensor, since, readings, average FROM sensors MATCH_RECOGNIZE (
          PARTITION BY sensor ORDER BY timestamp
          MEASURES FIRST(timestamp) AS since, count(*) AS readings, avg(value) AS average
          PATTERN (HIGH{6,})
          DEFINE HIGH AS value > 70
        )""",
    stream=Stream("timestamp", "sensor"),
    cached=True,
)
def high_for_a_minute(sensors):
    """Which sensor is above 70 for a minute or longer without a missing reading?"""
    for readings in by(sensors, "sensor", order="timestamp"):
        for high in spans(readings, lambda r: r.value is not None and r.value > 70):
            if len(high) >= 6:
                yield high[0].sensor, high[0].timestamp, len(high), sum(r.value for r in high) / len(high)


@question(
    of={"sensors": data.sensors},
    sql="""
        SELECT sensor, began, changes FROM sensors MATCH_RECOGNIZE (
          PARTITION BY sensor ORDER BY timestamp
          MEASURES FIRST(timestamp) AS began, count(FLAP.*) AS changes
          PATTERN (STEADY FLAP{3,})
          DEFINE FLAP AS state <> PREV(state)
        )""",
    stream=Stream("timestamp", "sensor"),
)
def sensors_that_flap(sensors):
    """Which sensors change their state with each of three readings or more?"""
    for readings in by(sensors, "sensor", order="timestamp"):
        for row in streaks(readings, lambda a, b: a.state != b.state):
            if len(row) >= 4:
                yield row[0].sensor, row[0].timestamp, len(row) - 1


@question(
    of={"sensors": data.sensors},
    sql="""
        SELECT sensor, from_value, to_value, lost FROM sensors MATCH_RECOGNIZE (
          PARTITION BY sensor ORDER BY timestamp
          MEASURES BEFORE.value AS from_value, AFTER.value AS to_value, count(LOST.*) AS lost
          AFTER MATCH SKIP TO LAST AFTER
          PATTERN (BEFORE LOST+ AFTER)
          DEFINE BEFORE AS value IS NOT NULL, LOST AS value IS NULL, AFTER AS abs(value - BEFORE.value) > 10
        )""",
    stream=Stream("timestamp", "sensor"),
)
def jumps_over_missing_readings(sensors):
    """Which readings around missing ones differ by more than ten?"""
    for readings in by(sensors, "sensor", order="timestamp"):
        for lost in spans(readings, lambda r: r.value is None):
            first, last = readings.index(lost[0]), readings.index(lost[-1])
            if first > 0 and last + 1 < len(readings):
                a, b = readings[first - 1], readings[last + 1]
                if abs(b.value - a.value) > 10:
                    yield a.sensor, a.value, b.value, len(lost)


@question(
    of={"sensors": data.sensors},
    sql="""
        SELECT sensor, timestamp, value, count FROM sensors MATCH_RECOGNIZE (
          PARTITION BY sensor ORDER BY timestamp
          MEASURES LAST(timestamp) AS timestamp, LAST(value) AS value, LAST(count) AS count
          PATTERN (A RISE)
          DEFINE A AS count > 0, RISE AS count > 0 AND value / count > 1.9 * (PREV(value) / PREV(count))
        )""",
)
def load_a_client_that_doubles(sensors):
    """When does the load of a client nearly double from one reading to the next, where some readings have no clients?"""
    for readings in by(sensors, "sensor", order="timestamp"):
        at = 0
        while at + 1 < len(readings):
            a, b = readings[at], readings[at + 1]
            both = a["count"] and b["count"] and a.value is not None and b.value is not None
            if both and b.value / b["count"] > 1.9 * (a.value / a["count"]):
                yield b.sensor, b.timestamp, b.value, b["count"]
                at += 2
            else:
                at += 1


@question(
    of={"sensors": data.sensors},
    sql="""
        SELECT sensor, down, up, seconds FROM sensors MATCH_RECOGNIZE (
          PARTITION BY sensor ORDER BY timestamp
          MEASURES FIRST(DOWN.timestamp) AS down, OK.timestamp AS up, unix_timestamp(OK.timestamp) - unix_timestamp(FIRST(DOWN.timestamp)) AS seconds
          EVENT SELECTION SKIP TILL NEXT MATCH
          PATTERN (DOWN+ OK)
          WINDOW INTERVAL '2' MINUTE
          DEFINE DOWN AS state = 'down', OK AS state = 'ok'
        )""",
    stream=Stream("timestamp"),
)
def repaired_in_two_minutes(sensors):
    """Which failures are over in less than two minutes, with warnings between or without?"""
    for readings in by(sensors, "sensor", order="timestamp"):
        at = 0
        while at < len(readings):
            first = readings[at]
            if first.state == "down":
                end = next((i for i in range(at, len(readings)) if readings[i].state == "ok"), None)
                if end is not None and readings[end].timestamp - first.timestamp < 120 * SECOND:
                    yield first.sensor, first.timestamp, readings[end].timestamp, (readings[end].timestamp - first.timestamp) // SECOND
                    at = end
            at += 1


@question(
    of={"sensors": data.sensors},
    sql="""
        SELECT sensor, peak, place FROM sensors MATCH_RECOGNIZE (
          PARTITION BY sensor ORDER BY timestamp
          MEASURES PEAK.value AS peak, MATCH_NUMBER() AS place
          AFTER MATCH SKIP TO LAST DOWN
          PATTERN (START UP{2,} PEAK DOWN{2,})
          DEFINE
            UP AS value > PREV(value) AND PREV(value) < 60,
            PEAK AS value > PREV(value) AND value >= 60,
            DOWN AS value < PREV(value)
        )""",
    stream=Stream("timestamp", "sensor"),
)
def peaks(sensors):
    """Which peaks of 60 or more does a sensor reach in three rises or more, and then fall at least twice?"""
    for readings in by(sensors, "sensor", order="timestamp"):
        values = [r.value for r in readings]
        at = number = 0

        def rises(i, values=values):
            return i < len(values) and None not in (values[i], values[i - 1]) and values[i] > values[i - 1]

        def falls(i, values=values):
            return i < len(values) and None not in (values[i], values[i - 1]) and values[i] < values[i - 1]

        while at < len(values):
            top = at
            while rises(top + 1) and values[top] < 60:
                top += 1
            # the peak is the last of the rises, or one more rise from 60 or above
            tops = [t for t in (top + 1, top) if rises(t) and values[t] >= 60 and t - at >= 3]
            found = None
            for t in tops:
                down = t
                while falls(down + 1):
                    down += 1
                if down - t >= 2:
                    found = (t, down)
                    break
            if found:
                number += 1
                yield readings[0].sensor, values[found[0]], number
                at = found[1]
            else:
                at += 1


@question(
    of={"sensors": data.sensors},
    frame=lambda spark, frames: sparkcep.match_recognize(
        frames["sensors"],
        clause="""PARTITION BY sensor ORDER BY timestamp
                  MEASURES WARN.timestamp AS warned, DOWN.timestamp AS failed
                  EVENT SELECTION SKIP TILL NEXT MATCH
                  PATTERN (WARN ~OK DOWN) WINDOW INTERVAL '1' MINUTE
                  DEFINE WARN AS state = 'warn', OK AS state = 'ok', DOWN AS state = 'down'""",
    ),
    stream=Stream("timestamp"),
)
def warned_and_failed(sensors):
    """After which warnings does a sensor fail within a minute without having been well between?"""
    for readings in by(sensors, "sensor", order="timestamp"):
        at = 0
        while at < len(readings):
            first = readings[at]
            if first.state == "warn":
                end = next((i for i in range(at, len(readings)) if readings[i].state == "down"), None)
                if end is not None and readings[end].timestamp - first.timestamp < 60 * SECOND:
                    if all(r.state != "ok" for r in readings[at:end]):
                        yield first.sensor, first.timestamp, readings[end].timestamp
                        at = end
            at += 1


@question(
    of={"sensors": data.sensors},
    sql="""
        SELECT sensor, start, value FROM (SELECT sensor, timestamp AS start, value, NULL AS end FROM sensors WHERE sensor < 3)
        MATCH_RECOGNIZE (
          PARTITION BY sensor ORDER BY start
          ALL ROWS PER MATCH
          AFTER MATCH SKIP TO NEXT ROW
          PATTERN (LOWEST HIGHER{4})
          DEFINE HIGHER AS value - FIRST(value) > 12
        )
        WHERE value > 85""",
)
def readings_far_above_one_before(sensors):
    """Which readings above 85 are among four in a row that lie more than twelve above the reading before them?"""
    for readings in by([r for r in sensors if r.sensor < 3], "sensor", order="timestamp"):
        for at in range(len(readings) - 4):
            first, *higher = readings[at : at + 5]
            if first.value is not None and all(r.value is not None and r.value - first.value > 12 for r in higher):
                for r in (first, *higher):
                    if r.value > 85:
                        yield r.sensor, r.timestamp, r.value
