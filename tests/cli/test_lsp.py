"""``sparkcep lsp`` as an editor meets it: a process that speaks the protocol over its standard input and output."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from pathlib import Path

import pytest
import pytest_lsp
from lsprotocol import types as lsp
from pygls.exceptions import JsonRpcException
from pytest_lsp import ClientServerConfig, LanguageClient, client_capabilities

pytestmark = [pytest.mark.process, pytest.mark.asyncio(loop_scope="module")]

SQL = """SELECT low FROM ticks MATCH_RECOGNIZE (
  PARTITION BY symbol ORDER BY day
  MEASURES LAST(DOWN.price) AS low
  PATTERN (STRT DOWN+ UP)
  DEFINE DOWN AS price < PREV(price), UP AS price > PREV(price)
)"""
WRONG = SQL.replace("UP AS", "PU AS")


@pytest_lsp.fixture(
    scope="module",
    config=ClientServerConfig(server_command=[sys.executable, "-m", "sparkcep", "lsp", "--stdio"]),
)
async def client(lsp_client: LanguageClient):
    await lsp_client.initialize_session(
        lsp.InitializeParams(
            capabilities=client_capabilities("visual-studio-code"),
            root_uri=None,
            initialization_options={"docs": "https://docs.example"},
        )
    )
    yield
    await lsp_client.shutdown_session()


async def opened(client: LanguageClient, text: str, uri: str, language: str = "sql") -> list[lsp.Diagnostic]:
    client.text_document_did_open(lsp.DidOpenTextDocumentParams(lsp.TextDocumentItem(uri, language, 1, text)))
    return await published(client, uri)


async def published(client: LanguageClient, uri: str) -> list[lsp.Diagnostic]:
    """The next diagnostics of a document."""
    async with asyncio.timeout(60):
        while uri not in client.diagnostics:
            await asyncio.sleep(0.01)
    return list(client.diagnostics.pop(uri))


def at(text: str, word: str, which: int = 1) -> lsp.Position:
    """The position in the middle of a word."""
    offset = -1
    for _ in range(which):
        offset = text.index(word, offset + 1)
    offset += len(word) // 2
    return lsp.Position(text.count("\n", 0, offset), offset - text.rfind("\n", 0, offset) - 1)


def where(text: str, found: lsp.Range) -> tuple[str, int, int]:
    line = text.split("\n")[found.start.line]
    return line[found.start.character : found.end.character], found.start.line, found.start.character


async def test_diagnostics_and_the_fix(client, tmp_path):
    uri = (tmp_path / "wrong.sql").as_uri()
    (found,) = await opened(client, WRONG, uri)
    assert (found.code, found.source, found.severity) == ("SPARKCEP.UNKNOWN_VARIABLE", "sparkcep", lsp.DiagnosticSeverity.Error)
    assert where(WRONG, found.range) == ("PU", 4, 38)
    assert found.code_description.href == "https://docs.example/reference_settings.html#errors"
    text = WRONG.replace("PATTERN", "PATERN")
    change = lsp.TextDocumentContentChangePartial(lsp.Range(lsp.Position(3, 2), lsp.Position(3, 9)), "PATERN")
    client.text_document_did_change(
        lsp.DidChangeTextDocumentParams(lsp.VersionedTextDocumentIdentifier(uri=uri, version=2), [change])
    )
    (found,) = await published(client, uri)
    assert where(text, found.range)[0] == "PATERN"
    actions = await client.text_document_code_action_async(
        lsp.CodeActionParams(lsp.TextDocumentIdentifier(uri), found.range, lsp.CodeActionContext([found]))
    )
    (edit,) = actions[0].edit.changes[uri]
    assert (actions[0].title, edit.new_text, edit.range) == ("Replace PATERN by PATTERN", "PATTERN", found.range)


async def test_a_burst_of_changes_gives_the_last_diagnostics(client, tmp_path):
    uri = (tmp_path / "burst.sql").as_uri()
    await opened(client, WRONG, uri)
    for version, text in enumerate((WRONG + " ", WRONG + "  ", SQL), 2):
        client.text_document_did_change(
            lsp.DidChangeTextDocumentParams(
                lsp.VersionedTextDocumentIdentifier(uri=uri, version=version), [lsp.TextDocumentContentChangeWholeDocument(text)]
            )
        )
    assert [found.code for found in await published(client, uri)] == ["ANY_ROW"]


async def test_completion(client, tmp_path):
    (tmp_path / "sparkcep.columns.json").write_text(json.dumps({"ticks": ["symbol", "price"]}))
    uri, text = (tmp_path / "open.sql").as_uri(), SQL.replace("price < ", "p")
    await opened(client, text, uri)
    place = at(text, "pPREV")
    found = await client.text_document_completion_async(
        lsp.CompletionParams(lsp.TextDocumentIdentifier(uri), lsp.Position(place.line, text.split("\n")[4].index("pPREV") + 1))
    )
    price = next(item for item in found.items if item.label == "price")
    assert price.kind == lsp.CompletionItemKind.Field and price.text_edit.new_text == "price"
    prev = next(item for item in found.items if item.label == "PREV(")
    assert "before or after in the partition" in prev.documentation.value


async def test_hover_definition_references_rename_symbols(client, tmp_path):
    uri = (tmp_path / "right.sql").as_uri()
    await opened(client, SQL, uri)
    document, place = lsp.TextDocumentIdentifier(uri), at(SQL, "DOWN")
    found = await client.text_document_hover_async(lsp.HoverParams(document, place))
    assert "price < PREV(price)" in found.contents.value and where(SQL, found.range)[0] == "DOWN"
    found = await client.text_document_hover_async(lsp.HoverParams(document, at(SQL, "ORDER BY")))
    assert "https://docs.example/reference_standard.html#partition-by-order-by" in found.contents.value
    found = await client.text_document_definition_async(lsp.DefinitionParams(document, place))
    assert where(SQL, found.range) == ("DOWN", 4, 9)
    found = await client.text_document_references_async(lsp.ReferenceParams(lsp.ReferenceContext(False), document, place))
    assert [where(SQL, one.range)[1:] for one in found] == [(2, 16), (3, 16)]
    found = await client.text_document_document_highlight_async(lsp.DocumentHighlightParams(document, place))
    assert len(found) == 3
    found = await client.text_document_prepare_rename_async(lsp.PrepareRenameParams(document, place))
    assert where(SQL, found)[0] == "DOWN"
    edit = await client.text_document_rename_async(lsp.RenameParams(document, place, "fall of"))
    assert [one.new_text for one in edit.changes[uri]] == ["`fall of`"] * 3
    with pytest.raises(JsonRpcException, match="UP is already a name of this clause"):
        await client.text_document_rename_async(lsp.RenameParams(document, place, "UP"))
    (symbol,) = await client.text_document_document_symbol_async(lsp.DocumentSymbolParams(document))
    assert [(one.name, one.detail) for one in symbol.children] == [
        ("DOWN", "variable"),
        ("UP", "variable"),
        ("STRT", "variable"),
        ("low", "measure"),
    ]


async def test_formatting(client, tmp_path):
    uri, text = (tmp_path / "untidy.sql").as_uri(), SQL.replace("PATTERN", "pattern") + ";\n" + SQL
    await opened(client, text, uri)
    (edit,) = await client.text_document_formatting_async(
        lsp.DocumentFormattingParams(lsp.TextDocumentIdentifier(uri), lsp.FormattingOptions(2, True))
    )
    assert "\n  PATTERN (STRT" in edit.new_text and edit.range.end.line == 5


async def test_a_notebook(client, tmp_path):
    notebook = (tmp_path / "a.ipynb").as_uri()
    cells = [f"{notebook.replace('file:', 'vscode-notebook-cell:')}#{i}" for i in range(2)]
    texts = ["import sparkcep", "%%sql --limit 5\n" + WRONG]
    client.notebook_document_did_open(
        lsp.DidOpenNotebookDocumentParams(
            lsp.NotebookDocument(
                notebook, "jupyter-notebook", 1, [lsp.NotebookCell(lsp.NotebookCellKind.Code, cell) for cell in cells]
            ),
            [lsp.TextDocumentItem(cell, "python", 1, text) for cell, text in zip(cells, texts)],
        )
    )
    assert await published(client, cells[0]) == []
    (found,) = await published(client, cells[1])
    assert where(texts[1], found.range) == ("PU", 5, 38)
    change = lsp.TextDocumentContentChangePartial(lsp.Range(lsp.Position(5, 38), lsp.Position(5, 40)), "UP")
    client.notebook_document_did_change(
        lsp.DidChangeNotebookDocumentParams(
            lsp.VersionedNotebookDocumentIdentifier(version=2, uri=notebook),
            lsp.NotebookDocumentChangeEvent(
                cells=lsp.NotebookDocumentCellChanges(
                    text_content=[
                        lsp.NotebookDocumentCellContentChanges(
                            lsp.VersionedTextDocumentIdentifier(uri=cells[1], version=2), [change]
                        )
                    ]
                )
            ),
        )
    )
    assert [one.code for one in await published(client, cells[1])] == ["ANY_ROW"]


async def test_a_wrong_file_of_columns_is_shown(client, tmp_path):
    (tmp_path / "sparkcep.columns.json").write_text("{")
    uri = (tmp_path / "a.sql").as_uri()
    await opened(client, SQL, uri)
    for _ in range(2):
        await client.text_document_completion_async(lsp.CompletionParams(lsp.TextDocumentIdentifier(uri), at(SQL, "day")))
    assert len([shown for shown in client.messages if "sparkcep.columns.json" in shown.message]) == 1


async def test_closing_removes_diagnostics(client, tmp_path):
    uri = (tmp_path / "closed.sql").as_uri()
    assert await opened(client, WRONG, uri)
    client.text_document_did_close(lsp.DidCloseTextDocumentParams(lsp.TextDocumentIdentifier(uri)))
    assert await published(client, uri) == []
    with pytest.raises(JsonRpcException, match="is not open"):
        await client.text_document_hover_async(lsp.HoverParams(lsp.TextDocumentIdentifier(uri), lsp.Position(0, 0)))


async def test_without_the_library_the_error_says_what_to_install(tmp_path):
    (tmp_path / "pygls").mkdir()
    (tmp_path / "pygls" / "__init__.py").write_text("raise ModuleNotFoundError('pygls', name='pygls')")
    command = [
        sys.executable,
        "-c",
        f"import sys; sys.path.insert(0, {str(tmp_path)!r}); from sparkcep.cli import main; sys.exit(main(['lsp']))",
    ]
    ended = await asyncio.to_thread(
        subprocess.run, command, capture_output=True, text=True, cwd=Path(__file__).parents[2], check=False
    )
    assert (ended.returncode, ended.stdout) == (2, "")
    assert "pip install 'sparkcep[lsp]'" in ended.stderr
