"""How long the language server takes to diagnose 2,000 lines of SQL with ten clauses, and to answer requests about them."""

from __future__ import annotations

import asyncio
import statistics
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

from lsprotocol import types as lsp
from pygls.lsp.client import LanguageClient

from sparkcep.tools.lint import lint

LINES, CLAUSES, REPEATS = 2_000, 10, 7
URI = "file:///tmp/benchmark.sql"
EXAMPLES = Path(__file__).resolve().parents[2] / "sql_examples"
PLAIN = "SELECT a, b, c, count(*) AS n\nFROM t\nWHERE a > 1 AND b IN ('x', 'y')\nGROUP BY a, b, c;\n"


def text() -> str:
    """Statements of the examples with a clause each, among plain ones."""
    clauses = [path.read_text("utf-8").rstrip().rstrip(";") for path in sorted(EXAMPLES.glob("*.sql"))]
    chosen = [clause for clause in clauses if clause.count("MATCH_RECOGNIZE (") == 1][:CLAUSES]
    assert len(chosen) == CLAUSES
    left = LINES - sum(clause.count("\n") + 1 for clause in chosen)
    return "".join(f"{clause};\n{PLAIN * (left // CLAUSES // 4)}" for clause in chosen)


async def _measured() -> dict[str, float]:
    client = LanguageClient("benchmark", "1")
    published: asyncio.Queue[lsp.PublishDiagnosticsParams] = asyncio.Queue()

    @client.feature(lsp.TEXT_DOCUMENT_PUBLISH_DIAGNOSTICS)
    def received(params: lsp.PublishDiagnosticsParams) -> None:
        published.put_nowait(params)

    await client.start_io(sys.executable, "-m", "sparkcep", "lsp")
    start = time.perf_counter()
    await client.initialize_async(lsp.InitializeParams(capabilities=lsp.ClientCapabilities()))
    client.initialized(lsp.InitializedParams())
    times: dict[str, list[float]] = {"start of the server": [time.perf_counter() - start]}
    sql = text()
    print(f"\neditor: {sql.count(chr(10))} lines, {sql.count('MATCH_RECOGNIZE (')} clauses")

    async def timed(name: str, work: Callable[[], Awaitable[object]]) -> None:
        start = time.perf_counter()
        await work()
        times.setdefault(name, []).append(time.perf_counter() - start)

    async def shown(uri: str, sql: str) -> None:
        client.text_document_did_open(lsp.DidOpenTextDocumentParams(lsp.TextDocumentItem(uri, "sql", 1, sql)))
        await published.get()

    await timed("its parser", lambda: shown(f"{URI}.short.sql", "SELECT 1"))
    for version in range(REPEATS):
        changed = f"-- {version}\n{sql}"
        await timed("diagnostics, the first" if version == 0 else "diagnostics", lambda changed=changed: shown(URI, changed))
    document, offset = lsp.TextDocumentIdentifier(URI), changed.rindex("PATTERN (") + len("PATTERN (")
    line = changed.count("\n", 0, offset)
    at = lsp.Position(line, offset - changed.rindex("\n", 0, offset) - 1)
    for _ in range(REPEATS):
        await timed("completion", lambda: client.text_document_completion_async(lsp.CompletionParams(document, at)))
        await timed("hover", lambda: client.text_document_hover_async(lsp.HoverParams(document, at)))
        await timed("symbols", lambda: client.text_document_document_symbol_async(lsp.DocumentSymbolParams(document)))
        await timed(
            "formatting",
            lambda: client.text_document_formatting_async(lsp.DocumentFormattingParams(document, lsp.FormattingOptions(2, True))),
        )
    await client.shutdown_async(None)
    client.exit(None)
    await client.stop()
    return {name: statistics.median(found) * 1e3 for name, found in times.items()}


def _processor() -> dict[str, float]:
    """Milliseconds of processor time of the diagnostics alone: of new statements, and after a change outside of the clauses."""
    lint("SELECT * FROM t MATCH_RECOGNIZE (ORDER BY a PATTERN (A))")
    times = []
    for number in range(REPEATS + 1):
        changed = f"{text()}-- {number}"
        start = time.process_time()
        lint(changed)
        times.append((time.process_time() - start) * 1e3)
    return {"lint, processor time": times[0], "lint again": statistics.median(times[1:])}


def run() -> dict[str, float]:
    """Milliseconds of each request, the median of REPEATS."""
    results = {**asyncio.run(_measured()), **_processor()}
    for name, value in results.items():
        print(f"  {name:24}{value:8.0f} ms")
    return results


if __name__ == "__main__":
    run()
