"""The language server (``sparkcep lsp``): Language Server Protocol 3.17 over standard input and output, by pygls.

It needs neither Spark nor Java. Diagnostics are those of ``tools/lint``, 250 ms after the last change. Completion is that of
``tools/complete``, formatting that of ``tools/fmt``.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

from lsprotocol import types as lsp
from pygls.exceptions import JsonRpcInvalidParams
from pygls.lsp.server import LanguageServer

import sparkcep
from sparkcep.clause.tokens import Span
from sparkcep.editor.catalog import Catalog, CatalogError, Catalogs
from sparkcep.editor.document import Document, Statement, moved
from sparkcep.editor.fixes import fixes
from sparkcep.editor.hover import described, hover, page, reference
from sparkcep.editor.names import MEASURE, REGISTER, STATE, SUBSET, VARIABLE, Name
from sparkcep.editor.positions import Lines
from sparkcep.editor.rename import RenameError, renamed
from sparkcep.editor.sections import language_of
from sparkcep.errors import ClauseError
from sparkcep.tools.complete import COLUMNS, FUNCTIONS, STATES, TABLES, TYPES, WORDS, complete
from sparkcep.tools.lint import ERROR, RULES, WARNING, Finding, lint
from sparkcep.version import __version__

log = logging.getLogger("sparkcep.editor")
DELAY = 0.25  # seconds from a change to its diagnostics
SOURCE = "sparkcep"
_SEVERITIES = {ERROR: lsp.DiagnosticSeverity.Error, WARNING: lsp.DiagnosticSeverity.Warning}
_KINDS = {
    WORDS: lsp.CompletionItemKind.Keyword, COLUMNS: lsp.CompletionItemKind.Field, TABLES: lsp.CompletionItemKind.Class,
    FUNCTIONS: lsp.CompletionItemKind.Function, TYPES: lsp.CompletionItemKind.TypeParameter,
    STATES: lsp.CompletionItemKind.EnumMember,
}  # fmt: skip
_SYMBOLS = {
    VARIABLE: lsp.SymbolKind.Variable, SUBSET: lsp.SymbolKind.Array, STATE: lsp.SymbolKind.EnumMember,
    REGISTER: lsp.SymbolKind.Property, MEASURE: lsp.SymbolKind.Field,
}  # fmt: skip
_CELLS = [lsp.NotebookCellLanguage(language=language) for language in ("python", "sql")]
_NOTEBOOKS = lsp.NotebookDocumentSyncOptions(notebook_selector=[lsp.NotebookDocumentFilterWithNotebook(notebook="*", cells=_CELLS)])


class Server(LanguageServer):
    """The server, with its open documents.

    Attributes:
        texts: the text of each open document or cell, by its address.
        docs: the address of the documentation, or "".
    """

    def __init__(self, docs: str = "", double_quoted: bool = False) -> None:
        super().__init__("sparkcep", __version__, lsp.TextDocumentSyncKind.Incremental, _NOTEBOOKS)
        self.texts: dict[str, str] = {}
        self.docs = docs or _own_docs()
        self.double_quoted = double_quoted
        self._languages: dict[str, str | None] = {}
        self._documents: dict[str, Document] = {}  # made when first needed, until the next change
        self._waiting: dict[str, asyncio.TimerHandle] = {}
        self._catalogs = Catalogs()
        self._reported: set[str] = set()  # problems of catalogs

    def opened(self, item: lsp.TextDocumentItem) -> None:
        """Adds a document, and publishes its diagnostics at once."""
        self.texts[item.uri] = item.text
        self._languages[item.uri] = language_of(item.language_id, item.uri)
        self._documents.pop(item.uri, None)
        self.publish(item.uri)

    def changed(self, uri: str, changes: list[Any]) -> None:
        """Applies changes to a document, and publishes its diagnostics after DELAY without another change."""
        for change in changes:
            if isinstance(change, lsp.TextDocumentContentChangePartial):
                lines = Lines(self.texts[uri], self.encoding)
                start, end = (lines.offset(at.line, at.character) for at in (change.range.start, change.range.end))
                self.texts[uri] = self.texts[uri][:start] + change.text + self.texts[uri][end:]
            else:
                self.texts[uri] = change.text
        self._documents.pop(uri, None)
        if uri in self._waiting:
            self._waiting.pop(uri).cancel()
        self._waiting[uri] = asyncio.get_running_loop().call_later(DELAY, self.publish, uri)

    def closed(self, uri: str) -> None:
        """Removes a document and its diagnostics."""
        for known in (self.texts, self._languages, self._documents):
            known.pop(uri, None)
        if uri in self._waiting:
            self._waiting.pop(uri).cancel()
        self.text_document_publish_diagnostics(lsp.PublishDiagnosticsParams(uri, []))

    def publish(self, uri: str) -> None:
        """Sends the diagnostics of a document."""
        self._waiting.pop(uri, None)
        document = self.document(uri)
        found = [self.diagnostic(document, place, finding) for place, finding in document.findings]
        self.text_document_publish_diagnostics(lsp.PublishDiagnosticsParams(uri, found))

    @property
    def encoding(self) -> str:
        return str(getattr(self.workspace.position_encoding, "value", self.workspace.position_encoding))

    def document(self, uri: str) -> Document:
        """Returns an open document. Raises JsonRpcInvalidParams for another address."""
        if uri not in self.texts:
            raise JsonRpcInvalidParams(f"the document {uri} is not open")
        if uri not in self._documents:
            self._documents[uri] = Document(uri, self.texts[uri], self._languages[uri], self.encoding, self.double_quoted)
        return self._documents[uri]

    def at(self, params: Any) -> tuple[Document, int]:
        """Returns the document of a request, and the offset of its position."""
        document = self.document(params.text_document.uri)
        return document, document.lines.offset(params.position.line, params.position.character)

    def name_at(self, params: Any) -> tuple[Document, tuple[Statement, Name, Span] | None]:
        """Returns the document of a request. If a name is at its position, also its statement, the name and its place."""
        document, at = self.at(params)
        return document, document.name_at(at)

    def range(self, document: Document, span: Span) -> lsp.Range:
        return lsp.Range(*(lsp.Position(*document.lines.position(at)) for at in (span.start, span.end)))

    def location(self, document: Document, span: Span) -> lsp.Location:
        return lsp.Location(document.uri, self.range(document, span))

    def catalog(self, document: Document) -> Catalog:
        """Returns the columns of tables for a document. Shows a problem of their file once."""
        try:
            return self._catalogs.of(document.path) if document.path is not None else Catalog()
        except CatalogError as error:
            if str(error) not in self._reported:
                self._reported.add(str(error))
                self.window_show_message(lsp.ShowMessageParams(lsp.MessageType.Warning, str(error)))
            return Catalog()

    def diagnostic(self, document: Document, place: Span, finding: Finding) -> lsp.Diagnostic:
        name = "tools.md#sparkcep-lint" if finding.code in RULES else "reference_settings.md#errors"
        return lsp.Diagnostic(
            self.range(document, place),
            finding.message,
            severity=_SEVERITIES.get(finding.severity, lsp.DiagnosticSeverity.Information),
            code=finding.code,
            code_description=lsp.CodeDescription(page(self.docs, name)) if self.docs else None,
            source=SOURCE,
        )


def _own_docs() -> str:
    """Returns the address of the docs of a checkout, or "" in an installation."""
    folder = Path(sparkcep.__file__).resolve().parents[1] / "docs"
    return folder.as_uri() if (folder / "reference.md").is_file() else ""


def make_server(docs: str = "", double_quoted: bool = False) -> Server:
    """Returns the server with all of its features.

    Args:
        docs: the address of the documentation, which diagnostics and hovers link to; "" for that of a checkout.
        double_quoted: whether text in double quotes is a name.
    """
    server = Server(docs, double_quoted)
    options = {
        lsp.TEXT_DOCUMENT_COMPLETION: lsp.CompletionOptions(trigger_characters=["."]),
        lsp.TEXT_DOCUMENT_CODE_ACTION: lsp.CodeActionOptions([lsp.CodeActionKind.QuickFix]),
    }
    for name, feature in _FEATURES.items():
        server.feature(name, options.get(name))(partial(feature, server))  # pygls passes the parameters alone
    return server


# -- documents ------------------------------------------------------------------------------------------------------------


def _initialized(server: Server, params: lsp.InitializeParams) -> None:
    """Takes the client's settings: ``docs`` and ``doubleQuotedIdentifiers``, which the command line also has."""
    given = params.initialization_options
    if isinstance(given, dict):
        server.docs = str(given.get("docs") or server.docs)
        server.double_quoted = bool(given.get("doubleQuotedIdentifiers", server.double_quoted))


def _ready(server: Server, params: lsp.InitializedParams) -> None:
    """Loads the parser, so that the first diagnostics do not wait for it."""
    lint("SELECT * FROM t MATCH_RECOGNIZE (ORDER BY a MEASURES a AS b PATTERN (A) DEFINE A AS a > 1)")


def _opened(server: Server, params: lsp.DidOpenTextDocumentParams) -> None:
    server.opened(params.text_document)


def _changed(server: Server, params: lsp.DidChangeTextDocumentParams) -> None:
    server.changed(params.text_document.uri, [*params.content_changes])


def _closed(server: Server, params: lsp.DidCloseTextDocumentParams) -> None:
    server.closed(params.text_document.uri)


def _notebook_opened(server: Server, params: lsp.DidOpenNotebookDocumentParams) -> None:
    for cell in params.cell_text_documents:
        server.opened(cell)


def _notebook_changed(server: Server, params: lsp.DidChangeNotebookDocumentParams) -> None:
    cells = params.change.cells
    if cells is None:
        return
    if cells.structure is not None:
        for cell in cells.structure.did_open or ():
            server.opened(cell)
        for closed in cells.structure.did_close or ():
            server.closed(closed.uri)
    for content in cells.text_content or ():
        server.changed(content.document.uri, [*content.changes])


def _notebook_closed(server: Server, params: lsp.DidCloseNotebookDocumentParams) -> None:
    for cell in params.cell_text_documents:
        server.closed(cell.uri)


# -- requests -------------------------------------------------------------------------------------------------------------


def _actions(server: Server, params: lsp.CodeActionParams) -> list[lsp.CodeAction]:
    document = server.document(params.text_document.uri)
    low, high = (document.lines.offset(at.line, at.character) for at in (params.range.start, params.range.end))
    found = []
    for place, finding in document.findings:
        if place.start <= high and low <= place.end:
            diagnostic = server.diagnostic(document, place, finding)
            for i, fix in enumerate(fixes(document, place, finding, server.double_quoted)):
                edit = lsp.WorkspaceEdit({document.uri: [lsp.TextEdit(server.range(document, fix.place), fix.text)]})
                preferred = i == 0 and finding.severity == ERROR
                found.append(lsp.CodeAction(fix.title, lsp.CodeActionKind.QuickFix, [diagnostic], preferred or None, edit=edit))
    return found


def _completions(server: Server, params: lsp.CompletionParams) -> lsp.CompletionList:
    document, at = server.at(params)
    statement = document.statement_at(at)
    section = document.section_at(at)
    if section is None:
        return lsp.CompletionList(False, [])
    text, start = (statement.text, statement.start) if statement is not None else (document.read(section), section.start)
    catalog, masked = server.catalog(document), document.masked(section)
    functions, options = reference()["functions"], reference()["options"]
    found = []
    for i, proposal in enumerate(complete(text, at - start, partial(catalog.columns, masked=masked), lambda: catalog.names)):
        about = functions.get(proposal.text.rstrip("(").upper()) if proposal.kind == FUNCTIONS else options.get(proposal.text)
        item = lsp.CompletionItem(
            proposal.text,
            kind=_KINDS.get(proposal.kind, lsp.CompletionItemKind.Variable),
            detail=proposal.kind,
            sort_text=f"{i:04}",
            text_edit=lsp.TextEdit(server.range(document, Span(start + proposal.start, at)), proposal.text),
        )
        if about is not None:
            item.documentation = _markdown(described(about, server.docs))
        found.append(item)
    return lsp.CompletionList(False, found)


def _markdown(text: str) -> lsp.MarkupContent:
    return lsp.MarkupContent(lsp.MarkupKind.Markdown, text)


def _hover(server: Server, params: lsp.HoverParams) -> lsp.Hover | None:
    document, at = server.at(params)
    found = hover(document, at, server.docs)
    return lsp.Hover(_markdown(found[0]), server.range(document, found[1])) if found is not None else None


def _definition(server: Server, params: lsp.DefinitionParams) -> lsp.Location | None:
    document, found = server.name_at(params)
    return server.location(document, moved(found[1].definition, found[0])) if found is not None else None


def _references(server: Server, params: lsp.ReferenceParams) -> list[lsp.Location]:
    document, found = server.name_at(params)
    if found is None:
        return []
    statement, name, _ = found
    places = [span for span in name.places if params.context.include_declaration or span != name.definition]
    return [server.location(document, moved(span, statement)) for span in places]


def _highlights(server: Server, params: lsp.DocumentHighlightParams) -> list[lsp.DocumentHighlight]:
    document, found = server.name_at(params)
    if found is None:
        return []
    return [lsp.DocumentHighlight(server.range(document, moved(span, found[0]))) for span in found[1].places]


def _rename_place(server: Server, params: lsp.PrepareRenameParams) -> lsp.Range | None:
    document, found = server.name_at(params)
    return server.range(document, found[2]) if found is not None else None


def _rename(server: Server, params: lsp.RenameParams) -> lsp.WorkspaceEdit | None:
    document, found = server.name_at(params)
    if found is None:
        return None
    statement, name, _ = found
    try:
        written = renamed(statement, name, params.new_name)
    except RenameError as error:
        raise JsonRpcInvalidParams(str(error)) from None
    edits = [lsp.TextEdit(server.range(document, moved(span, statement)), written) for span in name.places]
    return lsp.WorkspaceEdit({document.uri: edits})


def _symbols(server: Server, params: lsp.DocumentSymbolParams) -> list[lsp.DocumentSymbol]:
    document = server.document(params.text_document.uri)
    return [symbol for statement in document.statements for symbol in _symbols_of(server, document, statement)]


def _symbols_of(server: Server, document: Document, statement: Statement) -> Iterator[lsp.DocumentSymbol]:
    for place in statement.clauses():
        inside = []
        for name in statement.names(place):
            span = server.range(document, moved(name.definition, statement))
            inside.append(lsp.DocumentSymbol(name.text, _SYMBOLS[name.kind], span, span, name.kind))
        whole = Span(place.word.start, place.end + 1)
        whole_range, word = (server.range(document, moved(span, statement)) for span in (whole, place.word))
        yield lsp.DocumentSymbol("MATCH_RECOGNIZE", lsp.SymbolKind.Object, whole_range, word, children=inside)


def _formatted(server: Server, params: lsp.DocumentFormattingParams) -> list[lsp.TextEdit]:
    """Returns one edit for each clause. A document with an error in a clause stays unchanged: its diagnostic says why."""
    document = server.document(params.text_document.uri)
    try:
        return [lsp.TextEdit(server.range(document, span), text) for span, text in document.formatted()]
    except ClauseError as error:
        log.info("not formatted: %s", error)
        return []


_FEATURES = {
    lsp.INITIALIZE: _initialized,
    lsp.INITIALIZED: _ready,
    lsp.TEXT_DOCUMENT_DID_OPEN: _opened,
    lsp.TEXT_DOCUMENT_DID_CHANGE: _changed,
    lsp.TEXT_DOCUMENT_DID_CLOSE: _closed,
    lsp.NOTEBOOK_DOCUMENT_DID_OPEN: _notebook_opened,
    lsp.NOTEBOOK_DOCUMENT_DID_CHANGE: _notebook_changed,
    lsp.NOTEBOOK_DOCUMENT_DID_CLOSE: _notebook_closed,
    lsp.TEXT_DOCUMENT_CODE_ACTION: _actions,
    lsp.TEXT_DOCUMENT_COMPLETION: _completions,
    lsp.TEXT_DOCUMENT_HOVER: _hover,
    lsp.TEXT_DOCUMENT_DEFINITION: _definition,
    lsp.TEXT_DOCUMENT_REFERENCES: _references,
    lsp.TEXT_DOCUMENT_DOCUMENT_HIGHLIGHT: _highlights,
    lsp.TEXT_DOCUMENT_PREPARE_RENAME: _rename_place,
    lsp.TEXT_DOCUMENT_RENAME: _rename,
    lsp.TEXT_DOCUMENT_DOCUMENT_SYMBOL: _symbols,
    lsp.TEXT_DOCUMENT_FORMATTING: _formatted,
}
