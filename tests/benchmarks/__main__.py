"""``python -m tests.benchmarks [kernels|query|sase|acep|cpr|shell] [--rows N] [--json FILE] [--figures FOLDER]``."""

from __future__ import annotations

import argparse
import json
import platform


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks", description=__doc__)
    parser.add_argument("part", nargs="?", choices=["kernels", "query", "sase", "acep", "cpr", "shell", "all"], default="all")
    parser.add_argument("--rows", type=int, default=2_000_000)
    parser.add_argument("--figures", default="benchmarks", help="folder of the figures of sase and acep")
    parser.add_argument("--json", default="benchmarks.json")
    options = parser.parse_args()
    results: dict = {"python": platform.python_version(), "rows": options.rows}
    if options.part in ("kernels", "all"):
        from . import kernels

        results["kernels"] = kernels.run(options.rows)
    if options.part in ("query", "all"):
        from . import query

        results["query"] = query.run(options.rows)
    if options.part in ("sase", "all"):
        from . import sase

        results["sase"] = sase.run(options.rows // 5, options.figures)
    if options.part in ("acep", "all"):
        from . import acep

        results["acep"] = acep.run(options.rows // 2, options.figures)
    if options.part in ("cpr", "all"):
        from . import cpr

        results["cpr"] = cpr.run()
    if options.part in ("shell", "all"):
        from . import shell

        results["shell"] = shell.run()
    with open(options.json, "w") as out:
        json.dump(results, out, indent=1)
    print(f"\nwritten to {options.json}")


main()
