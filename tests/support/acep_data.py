"""Streams like those of ACEP's experiments (VLDB 2016, section 6.1): letters out of tweets, and events of electric vehicles.

One row in four is a letter of a query, each as likely as the others. Behind these rows stand planted words, as far from each other
as ``gap`` rows that are no letters, with one such row between two of their letters: what a query finds there is known.
"""

from __future__ import annotations

import numpy as np

TWEET_LETTERS = ["S", "a", "G", "E", *"bdwrhtc", *"geu", "t1", "t2", *"RHBD"]
OTHER_LETTERS = [f"o{i}" for i in range(43 - len(TWEET_LETTERS))]  # 43 in all, as in the paper

# what a row shows where it is a letter, and where it is none: a speed between two classes, some power, a road
NEUTRAL = {"speed": 10.5, "power": 1.0, "parked": False, "place": "road"}
VEHICLE_LETTERS = {
    "l": {"power": 4.0}, "n": {"power": 0.0}, "p": {"parked": True},
    "d": {"place": "downtown"}, "c": {"place": "depot"}, "a": {"place": "airport"},
    "z": {"speed": 0.0}, "L": {"speed": 6.0}, "M1": {"speed": 15.0}, "M2": {"speed": 25.0}, "H": {"speed": 40.0},
}  # fmt: skip
STATIONS = ["downtown", "depot", "airport"]


def _stream(rows: int, letters: list, planted: list, gap: int, rng: np.random.Generator) -> tuple[list, list[int]]:
    """(what stands in each row, None for no letter; the row of each planted word's last letter)."""
    matching = rng.random(rows) < 0.25
    which = rng.integers(0, len(letters), rows)
    stream = [letters[w] if m else None for m, w in zip(matching, which)]
    ends = []
    for word in planted:
        stream += [None] * gap
        for letter in word:
            stream += [letter, None]
        ends.append(len(stream) - 2)
    return stream, ends


def tweets(rows: int, planted: list = (), gap: int = 100, seed: int = 1) -> tuple[dict[str, np.ndarray], list[int]]:
    """(``ts``, ``user``, ``letter``; the ts of each planted word's last letter). A planted word is a list of letters."""
    rng = np.random.default_rng(seed)
    stream, ends = _stream(rows, TWEET_LETTERS, planted, gap, rng)
    others = rng.integers(0, len(OTHER_LETTERS), len(stream))
    letter = np.array([OTHER_LETTERS[o] if x is None else x for x, o in zip(stream, others)])
    return {"ts": np.arange(len(stream)), "user": rng.integers(0, 50, len(stream)), "letter": letter}, ends


def vehicles(
    rows: int, planted: list = (), gap: int = 300, count: int = 4, seed: int = 1
) -> tuple[dict[str, np.ndarray], list[int]]:
    """(``id`` of the vehicle, ``ts``, ``speed``, ``power``, ``parked``, ``place``; the ts of each planted word's last letter). A
    planted word is a list of (vehicle, letter, place), the place None for that of the letter. Loading vehicles stand at a
    station."""
    rng = np.random.default_rng(seed)
    stream, ends = _stream(rows, [(None, x, None) for x in VEHICLE_LETTERS], planted, gap, rng)
    columns: dict[str, list] = {"id": [], **{name: [] for name in NEUTRAL}}
    for event in stream:
        vehicle, letter, place = event or (None, None, None)
        shown = NEUTRAL | (VEHICLE_LETTERS[letter] if letter else {})
        if letter == "l":
            shown["place"] = place or STATIONS[rng.integers(0, len(STATIONS))]
        columns["id"].append(rng.integers(0, count) if vehicle is None else vehicle)
        for name in NEUTRAL:
            columns[name].append(shown[name])
    return {"ts": np.arange(len(stream)), **{name: np.array(values) for name, values in columns.items()}}, ends
