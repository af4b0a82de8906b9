"""Golden listings: what each clause under ``tests/golden/<group>/<name>.txt`` is compiled to, stage by stage.

A file begins with its clause, up to a blank line. Below stand the listings that :func:`listing` makes of it: the plan as JSON, the
program, the automaton (where the clause has one besides its program) and the bytecode of its conditions. ``test_stages.py``
compares them.

To add a clause, write a file with the clause alone. To bring the listings up to date after a deliberate change, run

    python -m tests.golden.stages --write

and read the difference before it is committed: each changed line has to be what the change is for.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import pyarrow as pa

from sparkcep.clause.parser import parse_clause
from sparkcep.engine.core.task import Prepared
from sparkcep.engine.factory import prepare
from sparkcep.plan.build import make_plan
from sparkcep.plan.plan import LETTERS, Plan
from sparkcep.sql.explain.describe import condition_texts
from tests.golden.golden_files import renew
from tests.support.caught import plainly

FOLDER = Path(__file__).resolve().parent

# the table of all clauses
COLUMNS = {
    "k": pa.string(), "i": pa.int32(), "v": pa.int32(), "n": pa.int64(), "x": pa.float64(), "f": pa.float32(), "s": pa.string(), "d": pa.date32(),
    "b": pa.bool_(), "m": pa.decimal128(10, 2), "w": pa.decimal128(30, 4), "ts": pa.timestamp("us", tz="UTC"),
}
MADE = {"made_by", "format"}  # members of a plan that change with the version


def files() -> list[Path]:
    """The golden files, by name."""
    return sorted(FOLDER.glob("*/*.txt"))


def clause_of(text: str) -> str:
    """The clause at the head of a file."""
    return text.partition("\n\n")[0].strip()


def whole(clause: str) -> str:
    """The file of a clause."""
    return f"{clause}\n\n{listing(clause)}\n"


def listing(clause: str) -> str:
    """The stages of a clause over the columns above."""
    plan = make_plan(parse_clause(clause))
    prepared = prepare(plan, _schema(plan))
    sections = {"plan": _plan(plan), "program": prepared.strategy.program.dump(), "automaton": _automaton(prepared)}
    sections["conditions"] = prepared.conditions.dump(prepared.plan.variables)
    return "\n\n".join(f"== {name} ==\n{text}" for name, text in sections.items() if text)


def _plan(plan: Plan) -> str:
    """The members of a plan that are not empty, one value a line as far as its leaves. Places that only a stream's errors have are
    left out."""
    found = json.loads(plan.to_json())
    found["leaf_places"] = [place for place in found["leaf_places"] if place["name"].startswith("__l")]
    members = {name: value for name, value in found.items() if name not in MADE and value not in ([], "", False, None)}
    lines = []
    for name, value in members.items():
        nested = isinstance(value, list) and value and all(isinstance(item, dict) for item in value)
        lines += [f"{name}:", *(f"  {json.dumps(item)}" for item in value)] if nested else [f"{name}: {json.dumps(value)}"]
    return "\n".join(lines)


def _automaton(prepared: Prepared) -> str:
    plan, conditions = prepared.plan, condition_texts(prepared.plan)
    if prepared.strategy.net is None:
        return ""
    ignored = "the strategy says so" if plan.approximate else "" if prepared.strategy.conjoined else "it fulfils none of {variables}"
    return prepared.strategy.net.dump(ignored, conditions, plan.approximate)


def _schema(plan: Plan) -> pa.Schema:
    """Types of the engine's input: those of the columns above, and of expressions by what they begin with."""
    fields = [(name, _type(text)) for name, text in (*plan.inputs, *plan.ordered_inputs)]
    if plan.rows != "one":
        fields += [(name, kind) for name, kind in COLUMNS.items() if name not in dict(fields)]
    return pa.schema([*fields, (LETTERS, pa.int64())])


def _type(text: str) -> pa.DataType:
    """What Spark gives an expression of these clauses."""
    plain = plainly(text)
    if plain == "NULL" or "-> NULL)" in plain:  # whether an expression failed
        return pa.bool_() if plain == "NULL" else pa.list_(pa.bool_())
    text = re.sub(r"^CASE WHEN .* THEN (.*) END$", r"\1", plain)
    return COLUMNS.get(text) or next((kind for pattern, kind in _TYPES if re.search(pattern, text)), pa.int64())


_TYPES = (
    (r"^transform\(", pa.list_(pa.bool_())), (r"AS DATE\)$", pa.date32()), (r"^INTERVAL", pa.duration("us")), (r"[<>=]| LIKE |\bIS\b", pa.bool_()),
)


if __name__ == "__main__":
    sys.exit(renew(files(), FOLDER, lambda text: whole(clause_of(text)), "listings", "--write" in sys.argv[1:]))
