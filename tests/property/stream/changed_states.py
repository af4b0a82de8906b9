"""``python -m tests.property.stream.changed_states [--changes N] [--families WORDS ...] [--seed TEXT]``: states of streams with
random changes, counted.

A state comes from a file that a fault or a person can change. Each family of ``stream_cases`` runs its random streams. Before a
micro-batch goes on from its states, it goes on from states that are changed: flipped bits, other numbers, bytes that are missing or
too many, halves of two states. Half of the changes give the state its right checksum again, so that the checks of numbers are
tried, too. Each must end in STATE_FORMAT, in another error of the data, or in rows; a flipped bit in STATE_FORMAT. Then the stream
goes on from its own states, and its rows are compared as ever.

Each family runs in a process of its own, so that a crash, a hang or a huge allocation is a failure and not the end. The last change
before it is in the output. Set NUMBA_BOUNDSCHECK=1 and a NUMBA_CACHE_DIR of its own to find what kernels read outside of arrays.
"""

from __future__ import annotations

import argparse
import contextlib
import faulthandler
import itertools
import json
import random
import resource
import struct
import subprocess
import sys
import traceback
import zlib
from collections import Counter
from collections.abc import Callable, Iterator, Sequence

import numpy as np
import pyarrow as pa

from sparkcep.columns.comparable import as_bytes, with_leaves
from sparkcep.engine.automaton import arc_history
from sparkcep.engine.core import state_codec
from sparkcep.engine.stream.key_buckets import Bucket
from sparkcep.engine.stream.keyed_stream import KeyedStream
from sparkcep.errors import ClauseError
from tests.property.in_process import drained

SECONDS = 60  # for one change
MEMORY = 3 << 30  # bytes of address space more than at the start
AHEAD = 1 << 40  # microseconds that the watermark moves after a changed state
_NUMBERS = [-1, 0, 1, 2, -2, 1 << 31, -(1 << 31), (1 << 31) - 1, (1 << 32) - 1, 1 << 62, -(1 << 62), (1 << 63) - 1, -(1 << 63)]
_RIGHT, _WRONG = "with its checksum", "as it is"
JOURNALS, BUCKETS = "a journal of arcs", "a bucket of keys"


# -- changes ----------------------------------------------------------------------------------------------------------


def parts_of(bytes_of_key: bytes) -> list[tuple[int, int]]:
    """From where to where each of the engine's states goes in that of a key."""
    found, at = [], bytes_of_key.find(b"SCEP")
    while at >= 0:
        size = struct.unpack_from("<I", bytes_of_key, at - 4)[0] if at >= 4 else 0
        end = at + size if size and size % 8 == 0 and at + size <= len(bytes_of_key) else len(bytes_of_key)
        found.append((at, end))
        at = bytes_of_key.find(b"SCEP", at + 4)
    return found


def with_checksum(part: bytes) -> bytes:
    """One of the engine's states with the checksum of its bytes."""
    if len(part) % 8 or len(part) < 16:
        return part
    return state_codec._checked(pa.array([part[:-8] + b"\0" * 8], pa.large_binary()))[0].as_py()


def flipped(data: bytes, rng: random.Random) -> bytes:
    changed = bytearray(data)
    for _ in range(rng.choice([1, 1, 1, 2, 3, 8])):
        changed[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
    return bytes(changed)


def numbered(data: bytes, rng: random.Random) -> bytes:
    """With another number somewhere, of 1, 4 or 8 bytes."""
    size, form = rng.choice([(8, "<q"), (8, "<q"), (4, "<i"), (4, "<i"), (1, "<b")])
    at = rng.choice([range(20, max(len(data) - size, 21), size), range(0, max(len(data) - size, 1), 4)])
    at = rng.choice(at)
    if at + size > len(data):
        return data
    (before,) = struct.unpack_from(form, data, at)
    number = rng.choice([*_NUMBERS, before + 1, before - 1, -before, before + 7, rng.randint(0, 40)])
    changed = bytearray(data)
    struct.pack_into(form, changed, at, (number + (1 << 8 * size - 1)) % (1 << 8 * size) - (1 << 8 * size - 1))
    return bytes(changed)


def cut(data: bytes, rng: random.Random) -> bytes:
    return data[: rng.randrange(len(data))]


def longer(data: bytes, rng: random.Random) -> bytes:
    at, size = rng.randrange(len(data) + 1), rng.choice([1, 4, 8, 8, 16, 64])
    return data[:at] + rng.choice([b"\0" * size, rng.randbytes(size), (data * 64)[:size]]) + data[at:]


def crossed(data: bytes, other: bytes, rng: random.Random) -> bytes:
    at = rng.randrange(len(data))
    return data[:at] + other[at:]


CHANGES = (flipped, numbered, cut, longer, crossed)


def changed(states: Sequence[bytes], rng: random.Random) -> tuple[list[bytes], str, bool]:
    """The states with one of them changed, how it was changed, and whether it must be refused."""
    states = list(states)
    which = rng.choice([i for i, one in enumerate(states) if one])
    data, change = states[which], rng.choice([*CHANGES, numbered, numbered])
    right = rng.random() < (0.7 if change is numbered else 0.4)
    begin, end = rng.choice(parts_of(data) or [(0, len(data))]) if right else (0, len(data))
    part = data[begin:end]
    if change is crossed:
        other = rng.choice([one for one in states if one])
        new = crossed(part, other[begin : begin + len(part)] if right else other, rng)
    else:
        new = change(part, rng)
    if right:
        new = with_checksum(new)
        size = struct.pack("<I", len(new)) if begin >= 4 and struct.unpack_from("<I", data, begin - 4)[0] == end - begin else data[max(begin - 4, 0) : begin]
        new = data[: max(begin - 4, 0)] + size + new + data[end:]
    states[which] = new
    # a state may lack a whole part, or have one of another key, and of several flipped bits two may leave a sum as it is
    bits = int.from_bytes(new, "little") ^ int.from_bytes(data, "little") if len(new) == len(data) else 0
    return states, f"{change.__name__} {_RIGHT if right else _WRONG}", not right and (change is numbered or change is flipped and bits.bit_count() == 1) and bits > 0


# -- what comes of them -----------------------------------------------------------------------------------------------


class Tally:
    """Counts what came of changes. ``last`` is written before each change, so that it is known if the change was the end."""

    def __init__(self, rng: random.Random, each: int) -> None:
        self.rng, self.each = rng, each
        self.came: Counter[str] = Counter()
        self.failed: list[tuple[str, str]] = []

    @property
    def count(self) -> int:
        return sum(self.came.values())

    def of(self, kind: str, must: bool, tables: Iterator[pa.Table]) -> None:
        """Counts what comes of a change of a kind, which ``must`` be refused or may be read."""
        faulthandler.dump_traceback_later(SECONDS, exit=True)
        try:
            for table in tables:
                table.cast(pa.schema([field.with_type(with_leaves(field.type, as_bytes)) for field in table.schema])).validate(full=True)  # strings may have any bytes
            came = "read"
        except ClauseError as error:
            came = error.error_class.removeprefix("SPARKCEP.")
        except Exception:
            came = "failed"
            self.failed.append((kind, traceback.format_exc()))
        finally:
            faulthandler.cancel_dump_traceback_later()
        if must and came == "read":  # an error of the rows may come before the state is read
            self.failed.append((kind, "was read, must be STATE_FORMAT"))
        self.came[f"{kind}: {came}"] += 1

    def said(self, kind: str) -> None:
        print(f"# {kind}", file=sys.stderr, flush=True)


def _tried(stream: KeyedStream, advance, rows: pa.Table, keys: np.ndarray, states: list[bytes], watermark: int) -> Iterator[pa.Table]:
    """The rows that a stream gives after a changed state, and when all windows have ended."""
    tables, kept = drained(advance(stream, rows, keys, states, watermark))
    yield from tables
    tables, kept = drained(advance(stream, rows.slice(0, 0), keys[:0], kept.states, watermark + AHEAD))
    yield from tables


@contextlib.contextmanager
def changing(tally: Tally) -> Iterator[None]:
    """Inside, each micro-batch goes on from changed states first."""
    advance = KeyedStream.advance

    def advanced(self, rows, keys, states, watermark):
        given = states.to_pylist() if isinstance(states, pa.Array) else list(states)
        if any(given):
            for _ in range(tally.each):
                new, kind, must = changed(given, tally.rng)
                tally.said(kind)
                tally.of(kind, must, _tried(self, advance, rows, keys, new, watermark))
        return (yield from advance(self, rows, keys, states, watermark))

    KeyedStream.advance = advanced
    try:
        yield
    finally:
        KeyedStream.advance = advance


@contextlib.contextmanager
def changing_buckets(tally: Tally) -> Iterator[None]:
    """Inside, each bucket is read from changed bytes first."""
    read = Bucket.read

    def changed_first(data: bytes) -> Bucket:
        for _ in range(tally.each):
            change = tally.rng.choice([flipped, numbered, cut, longer])
            right = tally.rng.random() < 0.5
            new = change(data, tally.rng)
            if right and len(new) > 10:
                new = b"SCEB" + struct.pack("<HI", 2, zlib.crc32(new[10:])) + new[10:]
            kind = f"{change.__name__} {_RIGHT if right else _WRONG}"
            tally.said(kind)
            # what has not the magic number is of the layout before, without a checksum
            tally.of(kind, not right and new != data and new[:4] == data[:4] and new[4:6] != b"\1\0", _keys(read, new))
        return read(data)

    Bucket.read = staticmethod(changed_first)
    try:
        yield
    finally:
        Bucket.read = staticmethod(read)


def _keys(read: Callable[[bytes], Bucket], data: bytes) -> Iterator[pa.Table]:
    yield read(data).keys


@contextlib.contextmanager
def changing_journals(tally: Tally) -> Iterator[None]:
    """Inside, arcs are read from changed journals first."""
    from sparkcep.spark.stream.micro_batch import _read
    from sparkcep.spark.stream.start_checks import ARCS

    of = arc_history.JournalArcs.of

    def changed_first(prepared, journal, *more):
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, journal.schema) as out:
            out.write_table(journal)
        data = sink.getvalue().to_pybytes()
        for _ in range(tally.each):
            change = tally.rng.choice([flipped, numbered, cut, longer])
            new = change(data, tally.rng)
            tally.said(change.__name__)

            def read(new=new):
                table = _read(new, ARCS)
                if table.schema == journal.schema:  # another one is of another statement
                    of(prepared, table)
                yield table

            tally.of(change.__name__, False, read())
        return of(prepared, journal, *more)

    arc_history.JournalArcs.of = staticmethod(changed_first)
    try:
        yield
    finally:
        arc_history.JournalArcs.of = staticmethod(of)


def families() -> list[str]:
    from tests.property.stream.stream_cases import FAMILIES

    return [*FAMILIES, BUCKETS, JOURNALS]


def some(family: str, changes: int, seed: str, each: int) -> Tally:
    """So many changes of the states of a family's streams."""
    from tests.property.stream import stream_cases

    own = {BUCKETS: ("late rows (buckets)", changing_buckets), JOURNALS: ("ARCS FROM a table that changes", changing_journals)}
    cases, inside = own.get(family, (family, changing))
    tally = Tally(random.Random(f"{seed} {family}"), each)
    for number in itertools.count():
        with inside(tally):
            _, differs = stream_cases.tried(cases, number, f"changed {seed}")
        if differs:
            tally.failed.append((f"case {number}", differs[2]))
        if tally.count >= changes or len(tally.failed) > 20 or number > 20 * changes:
            return tally


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.property.stream.changed_states", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--changes", type=int, default=10_000, help="of each family")
    parser.add_argument("--families", nargs="*", default=[], metavar="WORDS", help="only families of these names, or with these words; all by default")
    parser.add_argument("--each", type=int, default=4, help="changes of a micro-batch")
    parser.add_argument("--seed", default="0")
    parser.add_argument("--inside", action="store_true", help="in this process")
    options = parser.parse_args(arguments)
    chosen = [family for family in families() if family in options.families]
    chosen = chosen or [family for family in families() if not options.families or any(words in family for words in options.families)]
    if options.inside:
        return _inside(chosen, options)
    failed = 0
    for family in chosen:
        arguments = ["--changes", str(options.changes), "--each", str(options.each), "--seed", options.seed, "--families", family]
        code, said = in_process(arguments)
        print(said, end="", flush=True)
        failed += code != 0
    return int(failed > 0)


def in_process(arguments: list[str]) -> tuple[int, str]:
    """The exit code of a process with these arguments, and what it printed; after a crash also its last words."""
    ran = subprocess.run([sys.executable, "-m", "tests.property.stream.changed_states", *arguments, "--inside"], capture_output=True, text=True)
    return ran.returncode, ran.stdout + ("" if ran.returncode in (0, 1) else f"ended with {ran.returncode}\n{ran.stderr[-4000:]}\n")


def _inside(chosen: list[str], options: argparse.Namespace) -> int:
    faulthandler.enable()
    size = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (size + MEMORY, resource.RLIM_INFINITY))
    failed = False
    for family in chosen:
        tally = some(family, options.changes, options.seed, options.each)
        came = Counter()
        for kind, count in tally.came.items():
            came[kind.rpartition(": ")[2]] += count
        print(json.dumps({"family": family, "changes": tally.count, "came": came, "failed": len(tally.failed)}), flush=True)
        for kind, text in tally.failed[:4]:
            print(f"-- {family}, {kind}\n{text}", flush=True)
        failed |= bool(tally.failed)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
