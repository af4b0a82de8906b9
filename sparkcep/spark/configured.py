"""Reads the settings of a session, first from its own configuration, then from the application's.

``spark.sql``, ``match_recognize``, reports and notebooks use it. The settings are also the variables of a statement.
"""

from __future__ import annotations

import os
import re
import warnings
import weakref
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from sparkcep.redaction import Redaction
from sparkcep.settings import Reader, Settings, all_unknown, given_in
from sparkcep.spark.connection import is_connect, where_available

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_OWN = re.compile(r"(?:spark\.)?sparkcep\.")
_VARIABLE = re.compile(r"\$\{(?:(\w+?):)?(\S+?)\}")  # as in Spark's ConfigReader
_SETTINGS = (None, "spark", "sparkconf", "hivevar", "hiveconf")  # the prefixes of variables that are settings
_applications: weakref.WeakKeyDictionary[Any, dict[str, str]] = weakref.WeakKeyDictionary()  # context -> its sparkcep settings


def settings_of(session: SparkSession) -> Settings:
    """Returns the settings of ``session`` for a clause. Raises ClauseError. Warns about unknown sparkcep settings.

    Databricks serverless compute only returns settings on its own list, even if a default is given. There an environment variable
    replaces a sparkcep setting, such as SPARKCEP_SLICES for ``sparkcep.slices``.
    """
    own = _own_settings(session)
    for wrong in all_unknown(own or ()):
        warnings.warn(wrong, stacklevel=2)
    return Settings.read(_reader(session, own), _application(session))


def redaction_of(session: SparkSession) -> Redaction:
    """Returns the redaction of errors and other texts that are shown of a statement."""
    return Redaction.read(_reader(session, None))


def setting(session: SparkSession, key: str) -> str | None:
    """Returns the text of one sparkcep setting, or None if it is not set."""
    found = given_in(_reader(session, _own_settings(session)), key)
    return None if found is None else found[1]


def substituted(session: SparkSession, text: str) -> str:
    """Returns a statement with its ``${variables}`` replaced. Spark's parser would replace them later, and ``${`` is not SQL.

    Over Connect, variables of the system and of the environment stay, because only the server knows them.
    """
    if "${" not in text:
        return text
    if is_connect(session):
        read = _reader(session, None)
        return text if (read("spark.sql.variable.substitute") or "true").lower() == "false" else _with_settings(text, read)
    jvm = session._jvm
    sessions = session._get_j_spark_session_class(jvm)
    active = sessions.getActiveSession()
    sessions.setActiveSession(session._jsparkSession)  # whose settings are the variables
    try:
        return getattr(jvm, "org.apache.spark.sql.internal.VariableSubstitution")().substitute(text)
    finally:
        if active.isDefined():
            sessions.setActiveSession(active.get())
        else:
            sessions.clearActiveSession()


def _with_settings(text: str, read: Reader, within: tuple[str, ...] = ()) -> str:
    """Returns a text with its variables replaced that are settings; "" replaces one that is not set.

    ``within``: the settings that hold the text.
    """

    def value(found: re.Match[str]) -> str:
        prefix, name = found.groups()
        return _with_settings(read(name) or "", read, (*within, name)) if prefix in _SETTINGS and name not in within else found[0]

    return _VARIABLE.sub(value, text)


def _reader(session: SparkSession, own: Mapping[str, str] | None) -> Reader:
    """Returns a reader of the session's configuration.

    ``own``: the sparkcep settings in it, or None if the platform does not list them.
    """
    classic = not is_connect(session)

    def get(key: str) -> str | None:
        if own is not None and _OWN.match(key) and (key in own or classic or key.startswith("spark.")):
            return own.get(key)
        with where_available():
            return session.conf.get(key, None)
        return os.environ.get(key.upper().replace(".", "_")) if key.startswith("sparkcep.") else None

    return get


def _own_settings(session: SparkSession) -> dict[str, str] | None:
    """Returns a session's sparkcep settings, under both names. Returns None if the platform does not list them."""
    with where_available():
        if is_connect(session):
            return {key: text for key, text in session.conf.getAll.items() if _OWN.match(key)}
        # Each entry of the JVM's map would be a call of its own: all names come in one.
        names = session._jvm.java.lang.String.join("\n", session._jsparkSession.conf().getAllAsJava().keySet()).split("\n")  # type: ignore[union-attr]
        found = {name: session.conf.get(name, None) for name in names if _OWN.match(name)}
        return {name: text for name, text in found.items() if text is not None}
    return None


def _application(session: SparkSession) -> Reader:
    """Returns a reader of the application's configuration, which only a classic session has."""
    if is_connect(session):
        return lambda _: None
    context = session.sparkContext
    if context not in _applications:
        _applications[context] = {key: text for key, text in context.getConf().getAll() if _OWN.match(key)}
    return _applications[context].get
