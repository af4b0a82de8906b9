"""``python -m tests.benchmarks [PART] [--rows N] [--json FILE] ...``: kernels, whole queries, the suite of query shapes
(docs/benchmarks.md), the goals of columns through the exchange, the experiments of the papers (sase, acep, cpr, afa, budget), many
open partitions, sliding windows, streams, statements of the shell, the first query of a session, the rewriting of statements, the
language server, a cluster of one and of two workers, aggregates of long matches, unfinished matches, the answers of sparkcep.why,
and the V pattern beside DuckDB and Polars."""

from __future__ import annotations

import argparse
import json
import platform
import tempfile
from pathlib import Path

from .shapes import chosen
from .stream import DATA

SASE_SHARE = 5  # sase takes one in so many of the rows


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks", description=__doc__)
    parser.add_argument("part", nargs="?", choices=["kernels", "query", "suite", "sase", "acep", "cpr", "afa", "budget", "open", "sliding", "streams", "shell", "cold", "rewriting", "editor", "cluster", "aggregates", "why", "elsewhere", "exchange", "sequences", "unfinished", "all"], default="all")
    parser.add_argument("--rows", type=int, default=2_000_000)
    parser.add_argument("--figures", help="folder of the figures of sase, acep, afa and budget; a temporary one by default")
    parser.add_argument("--json", help="file of the results; benchmarks.json in a temporary folder by default")
    parser.add_argument("--shapes", help="suite, and exchange and streams by themselves: names of shapes with commas between them; aggregates: a regular expression of cases; default: all")
    parser.add_argument("--data", choices=DATA, default=DATA[0], help="suite: 1000 symbols in turn, the same rows in random order, one symbol, 1000 as often as Zipf has it, or symbols of eight rows each")
    parser.add_argument("--partitions", type=int, default=4, help="suite: partitions of an exchange")
    parser.add_argument("--ways", default="floor,sparkcep,rows,plain", help="suite: which of these ways are measured")
    parser.add_argument("--figure", choices=["8d"], help="sase: this figure alone")
    parser.add_argument("--time", action="store_true", help="budget: by time instead of checks")
    parser.add_argument("--repeats", type=int, default=5, help="suite, exchange, cold, and aggregates and streams by themselves: rounds that count")
    parser.add_argument("--flink", metavar="PYTHON", help="streams: a Python that has apache-flink, whose MATCH_RECOGNIZE takes the same rows")
    parser.add_argument("--plots", help="suite and exchange: folder of their plots; for suite a half, a fifth and a tenth of the rows are measured too")
    options = parser.parse_args()
    if options.rows < 10 or options.repeats < 1:
        parser.error("needed: at least 10 rows and 1 repeat")
    if options.shapes and options.part not in ("streams", "exchange"):
        try:
            chosen(options.shapes)
        except ValueError as error:
            parser.error(str(error))
    if options.part in ("sase", "all"):
        from . import sase

        if problem := sase.too_few(options.rows // SASE_SHARE):
            parser.error(f"{problem}; write --rows {SASE_SHARE * sase.LEAST_ROWS} or more")
    if options.figures is None or options.json is None:
        folder = Path(tempfile.mkdtemp(prefix="sparkcep-benchmarks-"))
        print(f"results are written to {folder}")
        options.figures, options.json = options.figures or str(folder / "figures"), options.json or str(folder / "benchmarks.json")
    results: dict = {"python": platform.python_version(), "rows": options.rows}
    if options.part in ("kernels", "all"):
        from . import kernels

        results["kernels"] = kernels.run(options.rows)
    if options.part in ("query", "all"):
        from . import query

        results["query"] = query.run(options.rows)
    if options.part in ("suite", "all"):
        from . import suite

        results["suite"] = suite.run(
            options.rows, names=options.shapes, data=options.data, repeats=options.repeats, plots=options.plots, partitions=options.partitions, ways=options.ways.split(",")
        )
    if options.part in ("exchange", "all"):
        from . import exchange

        results["exchange"] = exchange.run(options.shapes.split(",") if options.shapes and options.part == "exchange" else (), options.repeats, options.plots)
    if options.part in ("sase", "all"):
        of_figure = options.part == "sase" and options.figure is not None
        results["sase"] = sase.figure_8d(options.rows // SASE_SHARE) if of_figure else sase.run(options.rows // SASE_SHARE, options.figures)
    if options.part in ("acep", "all"):
        from . import acep

        results["acep"] = acep.run(options.rows // 2, options.figures)
    if options.part in ("sequences", "all"):
        from . import sequences

        results["sequences"] = sequences.run()
    if options.part in ("unfinished", "all"):
        from . import unfinished

        results["unfinished"] = unfinished.run(options.rows, options.repeats)
    if options.part in ("cpr", "all"):
        from . import cpr

        results["cpr"] = cpr.run()
    if options.part in ("budget", "all"):
        from . import budget, budget_time

        results["budget"] = (budget_time if options.time else budget).run(options.rows, options.figures)
    if options.part in ("afa", "all"):
        from . import afa

        results["afa"] = afa.run(options.rows // 20, options.figures)
    if options.part in ("open", "all"):
        from . import open_partitions

        results["open"] = open_partitions.run()
    if options.part in ("sliding", "all"):
        from . import sliding

        results["sliding"] = sliding.run()
    if options.part in ("streams", "all"):
        from . import streams

        results["streams"] = streams.run(options.rows, options.shapes.split(",") if options.shapes and options.part == "streams" else (), options.repeats if options.part == "streams" else 3, options.flink)
    if options.part in ("shell", "all"):
        from . import shell

        results["shell"] = shell.run()
    if options.part in ("aggregates", "all"):
        from . import aggregates

        results["aggregates"] = aggregates.run(options.repeats if options.part == "aggregates" else 3, cases=options.shapes or "")
    if options.part in ("why", "all"):
        from . import why

        results["why"] = why.run(options.rows)
    if options.part in ("elsewhere", "all"):
        from . import elsewhere

        results["elsewhere"] = elsewhere.run(options.rows, options.repeats, options.data)
    if options.part in ("cold", "all"):
        from . import cold

        results["cold"] = cold.run(options.repeats)
    if options.part in ("editor", "all"):
        from . import editor

        results["editor"] = editor.run()
    if options.part in ("rewriting", "all"):
        from . import rewriting

        results["rewriting"] = rewriting.run()
    if options.part in ("cluster", "all"):
        from . import cluster

        results["cluster"] = cluster.run(options.rows)
    with open(options.json, "w") as out:
        json.dump(results, out, indent=1)
    print(f"\nwritten to {options.json}")


main()
