"""Rewriting as a service: JSON request in, JSON answer out.

The JVM's parser asks this way, by a Py4J callback inside a Python driver, or, where none lives, by a helper
process: ``python -m sparkcep.spark.rewrite_server`` speaks length-prefixed (4 bytes, big-endian) UTF-8 JSON over
stdin and stdout until its stdin ends.

Request: ``sql``, ``settings`` (configuration key to text, see sparkcep.settings), ``named_markers`` (see
rewriting.rewrite_statement).
Answer: ``sql`` and ``marker_prefix``, or ``error`` with the fields of a ClauseError.
"""

from __future__ import annotations

import json
import struct
import sys
from typing import BinaryIO

from sparkcep.errors import ClauseError
from sparkcep.settings import Settings
from sparkcep.spark.rewriting import MARKER_PREFIX, excerpt, rewrite_statement


def answer(request: str) -> str:
    """The answer to one request, both as JSON text."""
    asked = json.loads(request)
    try:
        settings = Settings.read(asked["settings"].get)
        sql = rewrite_statement(asked["sql"], settings=settings, named_markers=asked["named_markers"])
    except ClauseError as error:
        fields = {name: getattr(error, name) for name in ("error_class", "sqlstate", "message", "line", "column", "fragment")}
        return json.dumps({"error": {**fields, "description": f"{error}{excerpt(asked['sql'], error)}"}})
    return json.dumps({"sql": sql, "marker_prefix": MARKER_PREFIX})


def serve(source: BinaryIO, sink: BinaryIO) -> None:
    """Answers requests until ``source`` ends."""
    while head := source.read(4):
        (size,) = struct.unpack(">i", head)
        reply = answer(source.read(size).decode("utf-8")).encode("utf-8")
        sink.write(struct.pack(">i", len(reply)) + reply)
        sink.flush()


if __name__ == "__main__":
    replies = sys.stdout.buffer
    sys.stdout = sys.stderr  # a stray print must not break the protocol
    serve(sys.stdin.buffer, replies)
