"""Reads the settings of a session: what the session has, then what the application was started with."""

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
_applications: weakref.WeakKeyDictionary[Any, dict[str, str]] = weakref.WeakKeyDictionary()  # of a context: its settings of sparkcep's


def settings_of(session: SparkSession) -> Settings:
    """The settings of ``session`` that concern a clause. Raises ClauseError.

    Serverless compute of Databricks answers for settings of its own list only, not even with a default. There an environment
    variable replaces a setting of ours: SPARKCEP_NATIVE for ``sparkcep.native``.
    """
    own = _own_settings(session)
    for wrong in all_unknown(own or ()):
        warnings.warn(wrong, stacklevel=2)
    return Settings.read(_reader(session, own), _application(session))


def redaction_of(session: SparkSession) -> Redaction:
    """Returns what is replaced in errors and other texts that are shown of a statement."""
    return Redaction.read(_reader(session, None))


def setting(session: SparkSession, key: str) -> str | None:
    """The text of one setting of sparkcep's; None if it is not set."""
    found = given_in(_reader(session, _own_settings(session)), key)
    return None if found is None else found[1]


def _reader(session: SparkSession, own: Mapping[str, str] | None) -> Reader:
    """Returns a reader of the session's configuration. ``own``: the settings of sparkcep's in it, None if the platform does not
    list them."""
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
    """The settings of sparkcep's in a session, under both names; None where the platform does not list them."""
    from pyspark.errors import PySparkException

    try:
        return {key: text for key, text in session.conf.getAll.items() if _OWN.match(key)}
    except PySparkException as error:
        if error.getCondition() != "CONFIG_NOT_AVAILABLE":
            raise
        return None


def _application(session: SparkSession) -> Reader:
    """Reads a key of the application's configuration, which only a classic session has."""
    if is_connect(session):
        return lambda _: None
    context = session.sparkContext
    if context not in _applications:
        _applications[context] = {key: text for key, text in context.getConf().getAll() if _OWN.match(key)}
    return _applications[context].get
