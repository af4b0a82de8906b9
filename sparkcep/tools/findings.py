"""Prints lint findings as text, JSON, GitHub workflow annotations, or SARIF 2.1.0.

``sparkcep lint`` uses it. SARIF is the OASIS format that code scanners and editors read.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

from sparkcep.tools.lint import ERROR, WARNING, Finding
from sparkcep.version import __version__

TEXT, JSON, GITHUB, SARIF = FORMATS = ("text", "json", "github", "sarif")


def written(found: Sequence[tuple[str, Finding]], format: str) -> str:
    """Returns the findings, each with its file name, in one of the FORMATS. Returns "" if there is nothing to print."""
    if format == JSON:
        return json.dumps([{"file": name, **vars(finding)} for name, finding in found], indent=1)
    if format == SARIF:
        return json.dumps(_sarif(found), indent=1)
    if format == GITHUB:
        return "\n".join(_annotation(name, finding) for name, finding in found)
    return "\n".join(f"{name}:{f.line}:{f.column}: {f.severity} {f.code}: {f.message}" for name, f in found)


def _annotation(name: str, finding: Finding) -> str:
    """Returns a workflow command. Characters that end its parts are percent-encoded."""
    level = {ERROR: "error", WARNING: "warning"}.get(finding.severity, "notice")
    where = {"file": name, "line": finding.line, "col": finding.column, "title": finding.code}
    parts = ",".join(f"{key}={_escaped(str(value), ':,')}" for key, value in where.items())
    return f"::{level} {parts}::{_escaped(finding.message)}"


def _escaped(text: str, more: str = "") -> str:
    for char in "%\r\n" + more:  # the percent sign first
        text = text.replace(char, f"%{ord(char):02X}")
    return text


def _sarif(found: Sequence[tuple[str, Finding]]) -> dict:
    rules = sorted({finding.code for _, finding in found})
    results = [
        {
            "ruleId": f.code, "ruleIndex": rules.index(f.code), "level": {ERROR: "error", WARNING: "warning"}.get(f.severity, "note"),
            "message": {"text": f.message},
            "locations": [{"physicalLocation": {"artifactLocation": {"uri": name.replace("\\", "/")}, "region": {"startLine": f.line, "startColumn": f.column}}}],
        }
        for name, f in found
    ]  # fmt: skip
    driver = {"name": "sparkcep", "version": __version__, "rules": [{"id": rule} for rule in rules]}
    return {"version": "2.1.0", "runs": [{"tool": {"driver": driver}, "columnKind": "unicodeCodePoints", "results": results}]}
