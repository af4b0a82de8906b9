"""The rewriter as a service: takes a JSON request, returns a JSON answer.

The JVM's parser calls it: by a Py4J callback if the driver is a Python process, otherwise through helper processes.
``python -m sparkcep.spark.session.rewrite_service MILLISECONDS BYTES`` exchanges length-prefixed (4 bytes, big-endian) UTF-8 JSON
over stdin and stdout. It sends ``{}`` first, when it is ready. A request that takes longer than MILLISECONDS ends the process.
BYTES limits its memory (see ``_bound_memory``). The process also ends when its stdin ends, even during a request.

A request with a ``kind`` may have ``earlier``: the request that rewrote its statement, for a helper that does not know the
statement. ``restored`` in it says that the ``places`` were requested.

A request may have ``redact``, a regular expression of Java's: what it matches in an error is replaced. Inside a Python driver the
session does so (see spark/session/session).

Requests, by their ``kind``:

- none: rewrites the statement ``sql`` under ``settings`` (configuration key to text, see sparkcep.settings) with ``named_markers``
  (see sql.rewrite.translated), limited by the settings of the ``application``. Answer: ``sql``, ``marker_prefix`` and ``placed``
  (whether ``places`` can be requested for that text), or ``error`` with the fields of a ClauseError; also a message for each
  ``unknown`` setting.
- ``functions``: returns the pickled functions, so that the JVM can run them itself (see pickled.describe).
- ``analyze``: analyses the rewriter's call of the table function over a table of type ``schema`` (Spark's JSON). ``distinct``:
  whether column names must be unique. ``streaming``: whether the table is a stream. ``sql``: the user's statement or empty. The
  settings of the ``application`` limit the plan's limits. Answer: the output's ``schema`` and ``result``, the pickled analysis in
  base64, or ``error``.
- ``mapper``: returns the command for mapInArrow that runs the engine for ``plan`` over ``columns``. ``sent``: the names of the
  columns that are sent. ``workers``: the memory that workers may map (see worker_memory.check). Answer: ``command`` in base64, or
  ``error``.
- ``streamer``: returns the command for a clause over a stream. In addition to ``mapper``, ``ordered`` is the number of ORDER BY
  columns after the sent ones, and ``tables`` names the tables that are read in addition to the rows. Answer: also ``kept``, a line
  about the state of a key, ``behind``, how many milliseconds the output's watermark trails the input's (null: no watermark), and
  ``passed``, ``behind`` in words.
- ``stream``: checks a clause's ``plan`` over a stream; spark/stream/start_checks names its fields. Answer: ``{}`` or ``error``.
- ``chained``: checks a clause's ``plan`` over a stream below a stateful node ``above``, see spark/stream/start_checks. Answer:
  ``{}`` or ``error``.
- ``started``: checks a clause's ``plan`` against an output ``mode``, a ``trigger`` (its class) and the nodes above and below it
  (see spark/stream/start_checks). Answer: ``{}`` or ``error``.
- ``aggregated``: checks an aggregate of a ``plan`` over a stream that cannot be computed in the row of a match: ``function``, see
  ``start_checks._refuse_aggregate``. Answer: ``{}`` or ``error``.
- ``restarted``: checks whether the statements ``now`` of a query may resume from the states of the statements ``before``. Both
  are lists as StreamStatement.java writes them. Answer: ``{}`` or ``error``.
- ``arrived``: reads the table of ARCS FROM for a micro-batch, see spark/stream/micro_batch. Answer: the arcs' ``journal`` in
  base64 (null: unchanged) and ``again``, or ``error``.
- ``places``: maps ``spans`` (half-open offsets) of ``sql``, a rewritten statement, to the user's text. Answer: the user's ``text``,
  and for each span its ``line`` (from 1), ``position`` in the line (from 0), and offsets ``start`` and ``stop`` (of its last
  character) there. A span that the user did not write is null.
- ``reword``: rewords an error of Spark's (``condition``, ``message``, ``parameters``, and ``spots``: fragment and offset of each
  place) for the user's statement ``sql``. Answer: ``message``; ``error`` if the error is the clause's; ``{}`` if the statement was
  not rewritten.
- ``unbegun``: checks whether the statement ``sql``, which Spark could not parse, was meant to have a clause. Answer: ``error`` or
  ``{}``.
- ``clause_error``: finds the clause error inside ``text``, Spark's words for an exception of ``analyze``. Answer: ``error`` or
  ``{}``.

If a request fails, its answer has ``failure``, a traceback, and the process continues. If a request needs too much memory, the
answer has ``ended``, the fields of a ClauseError.
"""

from __future__ import annotations

import json
import logging
import os
import queue
import signal
import struct
import sys
import threading
import traceback
from collections.abc import Callable
from typing import Any, BinaryIO

from sparkcep.clause.tokens import Span
from sparkcep.errors import INTERNAL, LIMIT, ClauseError, position
from sparkcep.plan.constants import MARKER_PREFIX
from sparkcep.redaction import Redaction
from sparkcep.settings import Settings, all_unknown
from sparkcep.spark.errors.reword import Failure, clause_error, in_words_of, is_in, reworded, without_clause
from sparkcep.sql.rewrite.places import Places
from sparkcep.sql.rewrite.rewrite import known, rewritten_from, translated

log = logging.getLogger("sparkcep")

_TOO_LARGE = ClauseError(
    "REWRITER_ENDED",
    "rewriting MATCH_RECOGNIZE in this statement needs more memory than allowed. Make the statement smaller, for example with views for its parts, or let the operator raise spark.sparkcep.rewriter.memory",
    sqlstate=LIMIT,
)


def answer(request: str) -> str:
    """Returns the answer to one request; both are JSON text."""
    asked = json.loads(request)
    return json.dumps(_redacted(_answered(asked), Redaction(asked.get("redact", ""))))


def _answered(asked: dict[str, Any]) -> dict[str, Any]:
    kind = asked.get("kind")
    if "earlier" in asked:
        _learn(asked["earlier"], asked["sql"])
    if kind in ("stream", "table", "chained", "started", "restarted", "aggregated", "repeated", "unmarked"):
        from sparkcep.spark.stream.restart_checks import check_restarted
        from sparkcep.spark.stream.start_checks import CHECKS

        try:
            (CHECKS | {"restarted": check_restarted})[kind](asked)
        except Exception as raised:
            return _reported(_of_ours(raised))
        return {}
    if kind in ("arrived", "history"):
        from sparkcep.spark.stream.micro_batch import arrived, check_history

        try:
            return arrived(asked) if kind == "arrived" else check_history(asked) or {}
        except Exception as raised:
            return _reported(_of_ours(raised))
    if kind in ("functions", "analyze", "mapper", "streamer"):
        from sparkcep.spark.session import pickled  # loads pyspark, so it is imported only if needed

        if kind == "functions":
            return pickled.describe()
        try:
            if kind == "mapper":
                return {"command": pickled.mapper(asked["plan"], asked["columns"], asked["sent"], asked["workers"])}
            if kind == "streamer":
                parts = (asked[name] for name in ("plan", "columns", "sent", "ordered", "tables", "workers"))
                return pickled.streamer(*parts)
        except ClauseError as error:
            return _reported(error)
        try:
            return pickled.analyze(asked["schema"], asked["distinct"], asked["streaming"], asked["application"])
        except Exception as raised:
            return _reported_over(_of_ours(raised), asked["sql"])
    answers = {None: _rewritten, "places": _places, "reword": _reworded, "clause_error": _found, "unbegun": _unbegun}
    if kind not in answers:
        raise ValueError(f"unknown request {kind!r}")
    return answers[kind](asked)


def _redacted(reply: dict[str, Any], redact: Redaction) -> dict[str, Any]:
    """An answer whose error, or reworded message, is redacted. Other answers are not shown."""
    if "error" in reply:
        error = reply["error"]
        shown = {"message": redact(error["message"]), "fragment": redact(error["fragment"]), "description": redact.of_error(error["description"])}
        return reply | {"error": error | shown}
    return reply | {"message": redact.of_error(reply["message"])} if "message" in reply else reply


def _rewritten(asked: dict[str, Any]) -> dict[str, Any]:
    unknown = {"unknown": list(all_unknown(asked["settings"]))}
    try:
        places = _translated(asked)
    except Exception as raised:
        return unknown | _reported(_of_ours(raised), asked["sql"])
    sql = asked["sql"] if places is None else places.rewritten
    return unknown | {"sql": sql, "marker_prefix": MARKER_PREFIX, "placed": rewritten_from(sql) is not None}


def _translated(asked: dict[str, Any]) -> Places | None:
    settings = Settings.read(asked["settings"].get, asked["application"].get)
    return translated(asked["sql"], settings=settings, named_markers=asked["named_markers"])


def _learn(before: dict[str, Any], sql: str) -> None:
    """Rewrites a statement that another helper rewrote, unless this helper knows it."""
    places = (known(sql) if sql == before["sql"] else rewritten_from(sql)) or _translated(before)
    if places is not None and before.get("restored"):
        places.restored = True


def _places(asked: dict[str, Any]) -> dict[str, Any]:
    """Maps parts of a rewritten statement to positions in the user's text, counted as Spark counts."""
    places = rewritten_from(asked["sql"])
    if places is None:
        raise ValueError("the statement was rewritten too long ago")
    places.restored = True
    return {"text": places.user, "spans": [_origin(places.find(*span), places.user) for span in asked["spans"]]}


def _reworded(asked: dict[str, Any]) -> dict[str, Any]:
    places = known(asked["sql"])
    if places is None:
        return {}
    found = tuple((fragment, start) for fragment, start in asked["spots"])
    text = reworded(Failure(asked["condition"], asked["message"], asked["parameters"], found), asked["sql"], places)
    if isinstance(text, ClauseError):
        return _reported(text, asked["sql"])
    return {"message": str(text)}


def _found(asked: dict[str, Any]) -> dict[str, Any]:
    error = clause_error(asked["text"])
    return {} if error is None else _reported(error)


def _unbegun(asked: dict[str, Any]) -> dict[str, Any]:
    error = without_clause(asked["sql"])
    return {} if error is None else _reported(error, asked["sql"])


def _reported_over(error: ClauseError, sql: str) -> dict[str, Any]:
    """Returns an analysis error as an answer, in the words of the statement ``sql`` if that was rewritten recently."""
    places = known(sql)
    error = error if places is None else in_words_of(error, places, sql)
    return _reported(error, sql if is_in(error, sql) else "")


def _origin(span: Span | None, text: str) -> dict[str, int] | None:
    if span is None:
        return None
    line, column = position(text, span.start)
    return {"line": line, "position": column - 1, "start": span.start, "stop": span.end - 1}


def _of_ours(raised: Exception) -> ClauseError:
    """Turns an unexpected exception into an error of the statement for Spark's users, and logs its traceback."""
    if isinstance(raised, ClauseError):
        return raised
    if isinstance(raised, MemoryError):
        raise raised
    log.error("sparkcep failed over a clause", exc_info=raised)
    what = f"{type(raised).__name__}: {raised}".split("\n")[0][:300]
    return ClauseError("INTERNAL", f"this is an error in sparkcep, not in the statement. Please report it with the statement and the log: {what}", sqlstate=INTERNAL)


def _reported(error: ClauseError, sql: str = "") -> dict[str, Any]:
    """Returns an error as an answer, with its line of the statement ``sql`` if that is known."""
    fields = {name: value for name, value in vars(error).items() if not name.startswith("_")}  # without notes of the exception
    return {"error": {**fields, "description": error.over(sql) if sql else str(error)}}


def serve(source: BinaryIO, sink: BinaryIO, seconds: float = 0.0, at_end: Callable[[], None] = lambda: None) -> None:
    """Answers requests until ``source`` ends.

    ``seconds`` limits one request; a timer then ends the process, if the system has one (0: no limit). ``at_end`` is called as
    soon as ``source`` ends, even during a request. It is also called after a request that ran out of memory, because Python
    cannot be trusted after that.
    """
    too_large = json.dumps({"ended": _reported(_TOO_LARGE)["error"]})
    requests: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
    threading.Thread(target=_read, args=(source, requests.put, at_end), name="sparkcep-requests", daemon=True).start()
    _say(sink, "{}")
    while (request := requests.get()) is not None:
        _set_alarm(seconds)
        try:
            reply = answer(request.decode("utf-8"))
        except MemoryError:
            _say(sink, too_large)
            at_end()
            return
        except Exception:  # the caller gets the traceback; the next request may succeed
            reply = json.dumps({"failure": traceback.format_exc()})
        _say(sink, reply)
        _set_alarm(0.0)


def _read(source: BinaryIO, put: Callable[[bytes | None], None], at_end: Callable[[], None]) -> None:
    while len(head := source.read(4)) == 4:
        (size,) = struct.unpack(">i", head)
        request = source.read(size)
        if len(request) < size:
            break
        put(request)
    at_end()
    put(None)


def _say(sink: BinaryIO, text: str) -> None:
    data = text.encode("utf-8")
    sink.write(struct.pack(">i", len(data)) + data)
    sink.flush()


def _set_alarm(seconds: float) -> None:
    """Ends this process after ``seconds``, even inside native code that lets no other thread run; 0 cancels the timer.

    The JVM enforces the limit too; this timer is for a JVM that has ended. Windows lacks such a timer.
    """
    if hasattr(signal, "setitimer"):
        signal.setitimer(signal.ITIMER_REAL, seconds)


def _bound_memory(size: int) -> None:
    """Limits the memory that this process may allocate. Exceeding the limit raises MemoryError.

    Linux counts private writable memory against RLIMIT_DATA, so shared libraries do not count. Elsewhere the limit has less effect
    or none, and the time limit remains.
    """
    try:
        import resource
    except ImportError:  # Windows
        return
    _, most = resource.getrlimit(resource.RLIMIT_DATA)
    size = size if most == resource.RLIM_INFINITY else min(size, most)
    resource.setrlimit(resource.RLIMIT_DATA, (size, most))


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C in a shell is meant for the shell's query
    replies = sys.stdout.buffer
    sys.stdout = sys.stderr  # a stray print must not break the protocol
    logging.getLogger("sparkcep").setLevel(logging.ERROR)  # a shell's output would contain the log; EXPLAIN reports the same
    _bound_memory(int(sys.argv[2]))
    # _exit ends the process even while the working thread is busy.
    serve(sys.stdin.buffer, replies, int(sys.argv[1]) / 1000, lambda: os._exit(0))
