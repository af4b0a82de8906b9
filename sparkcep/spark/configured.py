"""Reads the settings of a session, first from its own configuration, then from the application's.

``spark.sql``, ``match_recognize``, reports and notebooks use it.
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
from sparkcep.spark.connection import is_connect

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_OWN = re.compile(r"(?:spark\.)?sparkcep\.")
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


def _reader(session: SparkSession, own: Mapping[str, str] | None) -> Reader:
    """Returns a reader of the session's configuration.

    ``own``: the sparkcep settings in it, or None if the platform does not list them.
    """
    from pyspark.errors import PySparkException

    classic = not is_connect(session)

    def get(key: str) -> str | None:
        if own is not None and _OWN.match(key) and (key in own or classic or key.startswith("spark.")):
            return own.get(key)
        try:
            return session.conf.get(key, None)
        except PySparkException as error:
            if error.getCondition() != "CONFIG_NOT_AVAILABLE":
                raise
            return os.environ.get(key.upper().replace(".", "_")) if key.startswith("sparkcep.") else None

    return get


def _own_settings(session: SparkSession) -> dict[str, str] | None:
    """Returns a session's sparkcep settings, under both names. Returns None if the platform does not list them."""
    from pyspark.errors import PySparkException

    try:
        if is_connect(session):
            return {key: text for key, text in session.conf.getAll.items() if _OWN.match(key)}
        # Each entry of the JVM's map would be a call of its own: all names come in one.
        names = session._jvm.java.lang.String.join("\n", session._jsparkSession.conf().getAllAsJava().keySet()).split("\n")  # type: ignore[union-attr]
        found = {name: session.conf.get(name, None) for name in names if _OWN.match(name)}
        return {name: text for name, text in found.items() if text is not None}
    except PySparkException as error:
        if error.getCondition() != "CONFIG_NOT_AVAILABLE":
            raise
        return None


def _application(session: SparkSession) -> Reader:
    """Returns a reader of the application's configuration, which only a classic session has."""
    if is_connect(session):
        return lambda _: None
    context = session.sparkContext
    if context not in _applications:
        _applications[context] = {key: text for key, text in context.getConf().getAll() if _OWN.match(key)}
    return _applications[context].get
