"""Readings like those of the Intel Berkeley Research lab, over which CPR's experiments run (2011, section 4.1), and a reader of the
real file.

The schema is the file's: date, time, epoch, moteid, temperature, humidity, light, voltage. Some motes fail now and then and tell
any temperature, so that changes from one reading to the next are of every class of Table 4.1.
"""

from __future__ import annotations

import datetime
from pathlib import Path

import numpy as np

COLUMNS = ["date", "time", "epoch", "moteid", "temperature", "humidity", "light", "voltage"]
CLASSES = {name: (20.0 * i - 160, 20.0 * i - 140) for i, name in enumerate(["EA", "EB", "EC", "ED", "EE", "EF", "EG", "EH"])}
CLASSES |= {name: (20.0 * i, 20.0 * i + 20) for i, name in enumerate(["EJ", "EK", "EL", "EM", "EN", "EO", "EP", "EQ"])}


def readings(epochs: int, motes: int = 4, seed: int = 1, failing: float = 0.4) -> dict[str, list]:
    """The columns of ``epochs`` times ``motes`` readings, by epoch and mote; a reading in twenty is lost."""
    rng = np.random.default_rng(seed)
    epoch, mote = (a.ravel() for a in np.meshgrid(np.arange(1, epochs + 1), np.arange(1, motes + 1), indexing="ij"))
    kept = rng.random(len(epoch)) > 0.05
    epoch, mote = epoch[kept], mote[kept]
    usual = 20 + mote
    drift = rng.integers(-1, 2, len(epoch))
    wrong = np.where(rng.random(len(epoch)) < 0.6, rng.uniform(-38, 40, len(epoch)), rng.uniform(60, 122, len(epoch)))
    temperature = np.where(rng.random(len(epoch)) < failing, np.round(wrong, 2), (usual + drift).astype(float))
    begin = datetime.datetime(2004, 2, 28)
    at = [begin + datetime.timedelta(seconds=30 * int(e) + int(m)) for e, m in zip(epoch, mote)]
    return {
        "date": [f"{t:%Y-%m-%d}" for t in at],
        "time": [f"{t:%H:%M:%S}.000" for t in at],
        "epoch": epoch.tolist(),
        "moteid": mote.tolist(),
        "temperature": temperature.tolist(),
        "humidity": np.round(rng.uniform(30, 50, len(epoch)), 2).tolist(),
        "light": np.round(rng.uniform(0, 600, len(epoch)), 2).tolist(),
        "voltage": np.round(rng.uniform(2.0, 2.8, len(epoch)), 2).tolist(),
    }


def places(motes: int = 4) -> dict[str, list]:
    """Where the motes stand: ``moteid``, ``x``, ``y`` in metres."""
    numbers = range(1, motes + 1)
    return {"moteid": list(numbers), "x": [0.5 + 7.0 * (m * 3 % 5) for m in numbers], "y": [2.5 * (m % 7) for m in numbers]}


def load(path: str | Path) -> dict[str, list]:
    """The real file (``data.txt`` of http://db.csail.mit.edu/labdata/labdata.html): columns apart by blanks, lines with a missing
    value left out."""
    columns: dict[str, list] = {name: [] for name in COLUMNS}
    kinds = [str, str, int, int, float, float, float, float]
    with open(path, encoding="ascii") as lines:
        for line in lines:
            values = line.split()
            if len(values) == len(COLUMNS):
                for name, kind, value in zip(COLUMNS, kinds, values):
                    columns[name].append(kind(value))
    return columns


def in_class(name: str, change: float | None) -> bool:
    """Whether a change of temperature is of a class of Table 4.1."""
    if change is None:
        return False
    if name == "EI":
        return change == 0
    low, high = CLASSES[name]
    return low <= change < high if low < 0 else low < change <= high
