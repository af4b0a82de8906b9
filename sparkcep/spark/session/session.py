"""``enable(spark)``: makes plain ``spark.sql(text)`` understand MATCH_RECOGNIZE.

There are two layers (docs/adr/0002-session-route.md). ``SparkSession.sql`` is wrapped, so that a statement with the clause is
rewritten in Python before Spark sees it. This works with and without a JDK, and in Spark Connect. In a classic session with a Java
compiler, the JVM's parser learns the clause as well. It serves statements that do not come through ``spark.sql``: EXECUTE
IMMEDIATE, JDBC clients of a thrift server in this driver, and Scala code.
"""

from __future__ import annotations

import functools
import logging
import os
import re
import secrets
import sys
import threading
import warnings
import weakref
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from sparkcep.clause.expressions import NAMED_FUNCTIONS
from sparkcep.clause.tokens import is_script, unquoted
from sparkcep.errors import ClauseError
from sparkcep.plan.constants import MARKER_PREFIX
from sparkcep.plan.scope import COLUMN_OVERLOOKED
from sparkcep.settings import unknown
from sparkcep.spark.configured import redaction_of, settings_of, substituted
from sparkcep.spark.connection import is_connect, on_server, where_available
from sparkcep.spark.versions import filters_in_windows
from sparkcep.sql.rewrite.rewrite import Months, double_braces, name_markers, translated

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from sparkcep.sql.rewrite.places import Places

log = logging.getLogger("sparkcep")

_MENTION = "match_recognize"
# After each row Spark computes the batch's size in bytes, unless the limit is this one. That took a quarter of the JVM's time.
BATCH_BYTES, UNBOUNDED = "spark.sql.execution.arrow.maxBytesPerBatch", str(2**31 - 1)
_SET = re.compile(r"\s*SET\s+`?((?:spark\.)?sparkcep\.[\w.]+)", re.I)
_lock = threading.RLock()
_registered: weakref.WeakSet[Any] = weakref.WeakSet()  # sessions that have the functions
_prepared: weakref.WeakSet[Any] = weakref.WeakSet()  # those of them whose parser knows the clause
_pythons: weakref.WeakKeyDictionary[Any, list[str]] = weakref.WeakKeyDictionary()  # context -> the workers' former Pythons
_parser: tuple[Any, Any] | None = None  # the Py4J gateway, and the Java extension object loaded through it


def enable(spark: SparkSession, *, warm: bool = True) -> SparkSession:
    """Makes ``spark.sql`` understand MATCH_RECOGNIZE, in this and every other session of the process.

    It also registers the table function ``match_recognize``. Calling it again changes nothing.

    Args:
        spark: a classic session or a Spark Connect session.
        warm: whether a local session starts Python workers with the engine in the background, before the first query.

    Returns:
        ``spark``.

    Raises:
        TypeError: ``spark`` is not a session.

    Example:
        >>> spark = sparkcep.enable(SparkSession.builder.getOrCreate())
        >>> spark.sql('''
        ...     SELECT * FROM VALUES (1, 5), (2, 3), (3, 4) AS ticks(day, price)
        ...     MATCH_RECOGNIZE (
        ...       ORDER BY day
        ...       MEASURES LAST(UP.day) AS rose
        ...       PATTERN (DOWN UP)
        ...       DEFINE DOWN AS price < PREV(price), UP AS price > PREV(price)
        ...     )''').show()
        +----+
        |rose|
        +----+
        |   3|
        +----+
        <BLANKLINE>
    """
    if not callable(getattr(spark, "sql", None)):
        hint = "; end the builder with .getOrCreate()" if hasattr(spark, "getOrCreate") else ""
        raise TypeError(f"enable needs a Spark session, not {type(spark).__name__}{hint}")
    with _lock:
        _prepared.discard(spark)
        _prepare(spark)
        _wrap(_session_class(spark))
        if warm and not is_connect(spark):
            from sparkcep.spark.session import warm_up

            warm_up.warm(spark, worker_pythons(spark))
    return spark


def disable(spark: SparkSession) -> None:
    """Undoes ``enable`` in every session of the process.

    The table function stays registered, so that views and tables that use it remain readable.

    Args:
        spark: the session that was passed to ``enable``.

    Example:
        >>> sparkcep.disable(spark)
        >>> _ = sparkcep.enable(spark)  # enables it again
    """
    with _lock:
        session_class = _session_class(spark)
        session_class.sql = getattr(session_class.sql, "_sparkcep_original", session_class.sql)
        if not is_connect(spark) and (extension := _loaded(spark)):
            extension.setActive(False)


def sql_in(session: SparkSession, statement: str, args: Any = None, **frames: DataFrame) -> DataFrame:
    """Runs ``statement``, whether or not the session was enabled. ``{name}`` in it refers to the DataFrame passed as ``name``.

    ``args`` are the values of its parameters. Only the functions are registered in the session; other statements are unaffected.
    """
    _register(session)
    sql = _session_class(session).sql
    return _run(session, getattr(sql, "_sparkcep_original", sql), statement, args, dict(frames))


def _session_class(spark: SparkSession) -> Any:
    if is_connect(spark):
        from pyspark.sql.connect.session import SparkSession as Session
    else:
        from pyspark.sql.session import SparkSession as Session
    return Session


# ---- the wrapper around SparkSession.sql


def _wrap(session_class: Any) -> None:
    from pyspark.errors import ParseException

    from sparkcep.spark.errors.exceptions import ClauseParseException, redacted, redacting

    original = session_class.sql
    if hasattr(original, "_sparkcep_original"):
        return

    @functools.wraps(original)
    def sql(self: SparkSession, sqlQuery: str, args: Any = None, **kwargs: Any) -> DataFrame:
        if isinstance(sqlQuery, str) and _MENTION in sqlQuery.lower():
            _prepare(self)
            if not is_connect(self):
                from sparkcep.spark.session import warm_up

                warm_up.asked(self)
            with redacting(self):
                return _run(self, original, sqlQuery, args, kwargs)
        if isinstance(sqlQuery, str) and (said := _SET.match(sqlQuery)) and (wrong := unknown(said[1])):
            warnings.warn(wrong, stacklevel=2)
        try:
            return original(self, sqlQuery, args, **kwargs)
        except ParseException as raised:
            begun = ClauseParseException.not_begun(sqlQuery)
            raise (raised if begun is None else redacted(begun, redaction_of(self))) from None

    sql._sparkcep_original = original
    session_class.sql = sql


def _run(session: SparkSession, original: Callable[..., DataFrame], text: str, args: Any, kwargs: dict) -> DataFrame:
    from pyspark.errors import AnalysisException, ParseException, PySparkException

    from sparkcep.spark.errors.exceptions import ClauseParseException, over_statement, without_log
    from sparkcep.spark.errors.nested import inner_error
    from sparkcep.spark.exec import year_month
    from sparkcep.spark.exec.sampling import Sampler
    from sparkcep.spark.stream.frames.program import framer

    frames: dict[str, Any] = {}
    formatted = text
    if kwargs:
        formatted, frames = _format(session, text, kwargs)
    formatted = substituted(session, formatted)
    positional = isinstance(args, list) and len(args) > 0
    bound = {f"{MARKER_PREFIX}{i}": value for i, value in enumerate(args, 1)} if positional else args

    def run(statement: str) -> DataFrame:
        """Runs a rewritten statement."""
        held = {**frames, **(streams.made if streams is not None else {})}
        with without_log():
            if held:
                return original(session, unformatted(statement, held), bound, **held)
            return original(session, statement, bound)

    def months() -> tuple[Months | None, ...]:
        return year_month.find_months(name_markers(formatted) if positional else formatted, settings, lambda query: run(query).schema)

    def rewritten() -> Places | None:
        if streams is not None:
            streams.forget()
        return translated(formatted, settings=settings, named_markers=positional, months=found, choose=Sampler.of(session, settings, run), frames=streams)

    streams, script = None, False
    found: tuple[Months | None, ...] = ()
    try:
        settings = replace(settings_of(session), parameters={f":{name}": value for name, value in bound.items()} if isinstance(bound, dict) else {})
        settings = replace(settings, windows=not (settings.map_in_arrow and _has_extension(session)) and filters_in_windows(session))
        streams = framer(session, settings, run, _has_operator(session))
        try:
            places = rewritten()
        except ClauseError as error:
            # For a clause over a stream without the JVM operator, this step builds its DataFrame, so the error occurs here.
            if streams is None or error.error_class != year_month.ERROR_CLASS:
                raise
            found = months()
            places = rewritten()
        script = places is not None and is_script(formatted)
        if script and any(found := months()):
            places = rewritten()
    except ClauseError as error:
        raise ClauseParseException.of(error, formatted) from None
    if places is None:
        try:
            return original(session, text, args, **kwargs)
        except AnalysisException as raised:
            # The error comes from the JVM's parser, for a statement inside this one (EXECUTE IMMEDIATE), or from ``analyze`` for a
            # view's clause.
            knows = not is_connect(session) and _loaded(session) is not None  # the JVM reads clauses, so its errors fit the text
            of_text = None if knows or not isinstance(raised, ParseException) else ClauseParseException.of_immediate(formatted)
            begun = of_text if of_text is not None or not isinstance(raised, ParseException) else ClauseParseException.not_begun(formatted)
            raise begun or ClauseParseException.from_spark(raised) or raised from None

    def run_installed(statement: str) -> DataFrame:
        """Runs a statement. Over Connect, if the server's Python lacked the package, registers the functions again and retries.

        A function keeps the artifacts that the session had when it was registered, and more may have been added since. A
        script does not run again.
        """
        try:
            return run(statement)
        except PySparkException as raised:
            ours = ClauseParseException.from_spark(raised, formatted) if is_connect(session) else None
            if ours is None or ours.error_class != "SPARKCEP.NOT_INSTALLED":
                raise
            _registered.discard(session)
            _register(session)
            if script:  # its statements before the clause have run
                raise
            return run(statement)

    def placed(places: Places) -> DataFrame:
        """Runs the statement and maps the positions of its errors to the user's text."""
        try:
            frame = run_installed(places.rewritten)
            try:
                return frame if streams is None else streams.checked(frame, lambda: run(places.rewritten))
            except ClauseError as error:
                raise ClauseParseException.shown(error, formatted) from None
        except ClauseParseException:
            raise
        except PySparkException as raised:
            clause_error, where = inner_error(raised, places, run) or (raised, places)
            ours = ClauseParseException.from_spark(clause_error, formatted)
            raise (ours.in_words_of(where, formatted) if ours is not None else over_statement(clause_error, formatted, where)) from None

    while True:
        try:
            return placed(places)
        except ClauseError as error:
            if script:  # its statements before the error have run
                raise
            named = unquoted(error.fragment).upper() if error.error_class == f"SPARKCEP.{COLUMN_OVERLOOKED}" else ""
            if named in NAMED_FUNCTIONS - settings.columns:
                settings = replace(settings, columns=settings.columns | {named})  # the column takes precedence over the function
            elif error.error_class != year_month.ERROR_CLASS or found:
                raise
            if error.error_class == year_month.ERROR_CLASS or found:
                found = months()
        try:
            places = rewritten()
        except ClauseError as error:
            raise ClauseParseException.of(error, formatted) from None
        assert places is not None


def _format(session: SparkSession, text: str, kwargs: dict) -> tuple[str, dict[str, Any]]:
    """Fills the ``{name}`` fields of ``text`` by Spark's own rules. A DataFrame becomes the name of its temporary view.

    This happens before rewriting. The braces of a row pattern (``A{2,}``, ``{- B -}``) are not fields. They may be doubled, as
    other braces in such a text must be.
    """
    if is_connect(session):
        from pyspark.sql.connect.sql_formatter import SQLStringFormatter
    else:
        from pyspark.sql.sql_formatter import SQLStringFormatter
    formatter = SQLStringFormatter(session)
    try:
        formatted = formatter.format(double_braces(text), **kwargs)
        return formatted, {name: frame for frame, name in formatter._temp_views}
    finally:
        formatter.clear()


def formatted_over(session: SparkSession, text: str, frames: Mapping[str, DataFrame]) -> tuple[str, dict[str, DataFrame]]:
    """Fills the fields of ``text`` with DataFrames. Returns the text, and the DataFrames by the names that it has for them.

    Without DataFrames, ``text`` is not a format string.
    """
    return _format(session, text, dict(frames)) if frames else (text, {})


def unformatted(text: str, frames: Iterable[str] = ()) -> str:
    """Returns ``text`` as a format string with the names of DataFrames as fields.

    Spark fills these fields again and thereby keeps the DataFrames alive in its own way.
    """
    text = text.replace("{", "{{").replace("}", "}}")
    for name in frames:
        text = text.replace(name, f"{{{name}}}")
    return text


# ---- a session's preparation


def _prepare(session: SparkSession) -> None:
    """Registers the functions in ``session`` and, if possible, makes its JVM parser read clauses. It works once per session."""
    if session in _prepared:
        return
    with _lock:
        _registered.discard(session)
        _register(session)
        if not is_connect(session):
            _teach_parser(session)
        _prepared.add(session)


def _register(session: SparkSession) -> None:
    """Registers the functions in ``session``, once."""
    if session in _registered:
        return
    from sparkcep.spark.exec.table_function import GRAPH_FUNCTIONS, register

    with _lock:
        _lift_batch_bound(session)
        if is_connect(session):
            register(session)
        else:
            from sparkcep.spark.session.register import publish

            _choose_worker_python(session)
            register(session)
            publish(session, GRAPH_FUNCTIONS)
            if extension := _loaded(session):
                extension.analyse(session._jsparkSession)  # the function was just replaced
        _registered.add(session)


def _lift_batch_bound(session: SparkSession) -> None:
    """Limits batches for Python by rows alone, as before Spark 4.1, unless the user set a limit in bytes."""
    with where_available():
        if BATCH_BYTES not in session.conf.getAll:
            session.conf.set(BATCH_BYTES, UNBOUNDED)


def _choose_worker_python(spark: SparkSession) -> None:
    """Makes local workers run this interpreter, unless the user chose one, because plain ``python3`` may be another Python."""
    context = spark.sparkContext
    chosen = "PYSPARK_PYTHON" in os.environ or context.getConf().contains("spark.pyspark.python")
    if not chosen and context.master.startswith("local") and context.pythonExec != sys.executable:
        _pythons.setdefault(context, []).append(context.pythonExec)
        context.pythonExec = sys.executable


def worker_pythons(spark: SparkSession) -> list[str]:
    """Returns the Pythons that the session's functions may use: a DataFrame, RDD or UDF keeps the one it was created with."""
    context = spark.sparkContext
    return list(dict.fromkeys([*_pythons.get(context, ()), context.pythonExec]))


def _teach_parser(spark: SparkSession) -> None:
    from sparkcep.spark.session.jar import JvmBuildError, NoCompilerError

    try:
        extension = _load_extension(spark)
    except JvmBuildError as error:
        log.log(
            logging.INFO if isinstance(error, NoCompilerError) else logging.WARNING,
            "MATCH_RECOGNIZE works in spark.sql(), more slowly than with the JVM extension, but not in statements that reach the JVM in other ways "
            "(EXECUTE IMMEDIATE, JDBC, Scala): %s",
            error,
        )
        return
    extension.setActive(True)
    extension.install(spark._jsparkSession)


def _loaded(spark: SparkSession) -> Any:
    """Returns the Java extension of a classic session, or None if none is loaded."""
    return _parser[1] if _parser is not None and _parser[0] is spark.sparkContext._gateway else None


def _has_extension(session: SparkSession) -> bool:
    """Whether the Java extension plans the statements of a session."""
    return on_server(session) if is_connect(session) else _loaded(session) is not None


def _has_operator(spark: SparkSession) -> bool:
    """Whether the JVM of a classic session has the stateful operator for clauses over streams."""
    extension = None if is_connect(spark) else _loaded(spark)
    return extension is not None and extension.hasOperator()


def _load_extension(spark: SparkSession) -> Any:
    """Loads the Java extension into this driver's JVM and makes this process its rewriter."""
    global _parser
    from sparkcep.spark.session.jar import EXTENSION_CLASS, extension_jar

    if extension := _loaded(spark):
        return extension
    gateway = spark.sparkContext._gateway
    jvm = gateway.jvm
    jar = extension_jar(java_home=jvm.java.lang.System.getProperty("java.home"))
    urls = gateway.new_array(jvm.java.net.URL, 1)
    urls[0] = jvm.java.io.File(str(jar)).toURI().toURL()
    # The extension gets its own class loader: Spark's addJar would send the jar to executors for applications that never need it
    # (ExtensionJar sends it). Parents come first, so a JVM started with the extension keeps its class.
    utils = getattr(jvm, "org.apache.spark.util.Utils")
    loader = jvm.java.net.URLClassLoader(urls, utils.getContextOrSparkClassLoader())
    extension = (
        loader.loadClass(EXTENSION_CLASS)
        .getDeclaredConstructor(gateway.new_array(jvm.java.lang.Class, 0))
        .newInstance(gateway.new_array(jvm.java.lang.Object, 0))
    )
    _open_callbacks(gateway, extension)
    extension.setRewriter(_Rewriter())
    _parser = (gateway, extension)
    return extension


def _open_callbacks(gateway: Any, extension: Any) -> None:
    """Starts Py4J's callback server on a local port, protected so that only this session's JVM can use it.

    A server that already runs is not changed.
    """
    from py4j.java_gateway import JavaObject
    from py4j.protocol import Py4JError
    from pyspark.java_gateway import ensure_callback_server_started

    if gateway.__dict__.get("_callback_server") is not None:
        return
    parameters = gateway.callback_server_parameters
    if parameters.auth_token is not None:  # the server of a gateway with unpinned threads has a token, and the JVM knows it
        ensure_callback_server_started(gateway)
        return
    parameters.auth_token = secrets.token_hex(32)
    try:
        ensure_callback_server_started(gateway)
        extension.setToken(JavaObject("GATEWAY_SERVER", gateway._gateway_client), parameters.auth_token)
    except Py4JError as error:
        parameters.auth_token = None
        log.warning("Py4J's callback port does not require a token, so other users of this machine can reach it: %s", error)


class _Rewriter:
    """The rewriter as a Java function."""

    def apply(self, request: str) -> str:
        from sparkcep.spark.session.rewrite_service import answer

        return answer(request)

    class Java:
        implements = ["java.util.function.Function"]
