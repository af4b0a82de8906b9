"""The eleven sequences of CPR's experiments (2011, Table 4.3), ``sql_examples/cpr/``, on Spark, against all matches enumerated
here."""

from __future__ import annotations

import itertools
import math
from pathlib import Path

import pytest

from tests.selection import further, slow
from tests.support import cpr_data

FOLDER = Path(__file__).resolve().parents[3] / "sql_examples" / "cpr"
EPOCHS, MOTES = 110, 4
SIZE, STEP, K = 50, 20, 10
SEQUENCES = {
    "s1": "EG EH EN", "s2": "EG EH EO", "s3": "EG EH EJ", "s4": "EG EH", "s5": "EG EH EJ", "s6": "EG EH EJ EI",
    "s7": "EG EH EJ", "s8": "EK EL EM", "s9": "EI EN EO", "s10": "EG EH", "s11": "EJ EK EL EM",
}  # fmt: skip
OF_MOTES = ("s7", "s8", "s9", "s10", "s11")  # sequences of one mote's readings, by temperature


def rows() -> list[dict]:
    """The readings in order, with their change of temperature and their mote's distance."""
    data, places = cpr_data.readings(EPOCHS, MOTES), cpr_data.places(MOTES)
    distance = {m: math.sqrt(x * x + y * y) for m, x, y in zip(places["moteid"], places["x"], places["y"])}
    before: dict[int, float] = {}
    found = []
    for epoch, mote, temperature in zip(data["epoch"], data["moteid"], data["temperature"]):
        change = temperature - before[mote] if mote in before else None
        before[mote] = temperature
        found.append({"epoch": epoch, "moteid": mote, "temperature": temperature, "change": change, "distance": distance[mote]})
    return found


def best(readings: list[dict], sequence: list[str], value: str) -> set[tuple]:
    """(window, rank, score, epochs, motes) of the best matches of each window, from all of them."""
    found = set()
    for start in range(-SIZE + STEP - SIZE % STEP, EPOCHS + 1, STEP):
        inside = [(i, r) for i, r in enumerate(readings) if start <= r["epoch"] < start + SIZE]
        ways: list[tuple] = [((), 0.0)]
        for name in sequence:
            some = [(i, r) for i, r in inside if cpr_data.in_class(name, r["change"])]
            ways = [((*at, i), score + r[value]) for at, score in ways for i, r in some if not at or i > at[-1]]
        for rank, (at, score) in enumerate(sorted(ways, key=lambda w: (-w[1], w[0]))[:K], 1):
            found.add((start, rank, score, tuple(readings[i]["epoch"] for i in at), tuple(readings[i]["moteid"] for i in at)))
    return found


@pytest.fixture(scope="module")
def answers(spark):
    """Of each query its rows as :func:`best` has them."""
    pd = pytest.importorskip("pandas")
    spark.createDataFrame(pd.DataFrame(cpr_data.readings(EPOCHS, MOTES))).coalesce(1).createOrReplaceTempView("readings")
    spark.createDataFrame(pd.DataFrame(cpr_data.places(MOTES))).coalesce(1).createOrReplaceTempView("motes")
    parts = []
    for query in SEQUENCES:
        motes = "transform(epochs, e -> moteid)" if query in OF_MOTES else "motes"
        text = (FOLDER / f"{query}.sql").read_text(encoding="utf-8")
        parts.append(f"SELECT '{query}' AS query, since, rank, score, epochs, {motes} AS motes FROM ({text})")
    found: dict[str, list[tuple]] = {query: [] for query in SEQUENCES}
    for query, since, rank, score, epochs, motes in spark.sql(" UNION ALL ".join(parts)).collect():
        found[query].append((since, rank, score, tuple(epochs), tuple(motes)))
    yield found
    spark.catalog.dropTempView("readings")
    spark.catalog.dropTempView("motes")


@pytest.mark.parametrize("query", [further(query) if i in range(2, 11, 2) else slow(query) for i, query in enumerate(SEQUENCES)])
def test_query(answers, query):
    readings, sequence = rows(), SEQUENCES[query].split()
    assert f"PATTERN ({SEQUENCES[query]})" in (FOLDER / f"{query}.sql").read_text(encoding="utf-8")
    if query in OF_MOTES:
        parts = [[r for r in readings if r["moteid"] == m] for m in range(1, MOTES + 1)]
        wanted = set(itertools.chain.from_iterable(best(part, sequence, "temperature") for part in parts))
    else:
        wanted = best(readings, sequence, "distance")
    assert len(wanted) > K
    assert len(answers[query]) == len(wanted)
    assert set(answers[query]) == wanted


def test_the_real_file(tmp_path):
    file = tmp_path / "data.txt"
    file.write_text("2004-03-31 03:38:15.757551 2 1 122.153 -3.91901 11.04 2.03397\n2004-02-28 00:59:16.02785 3 1 19.9884\n", encoding="ascii")
    assert cpr_data.load(file) == {
        "date": ["2004-03-31"], "time": ["03:38:15.757551"], "epoch": [2], "moteid": [1],
        "temperature": [122.153], "humidity": [-3.91901], "light": [11.04], "voltage": [2.03397],
    }  # fmt: skip
