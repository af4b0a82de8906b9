"""The names, the texts and the ranges of settings, and the limits that an application sets."""

from __future__ import annotations

import pytest

from sparkcep.errors import ClauseError
from sparkcep.settings import DEFAULT, Settings, all_unknown, unknown

LIMITS = {"sparkcep.maxStateBytes": "max_state_bytes", "sparkcep.maxSteps": "max_steps", "sparkcep.maxMatchesPerPartition": "max_matches"}
NUMBERS = [*LIMITS, "sparkcep.stream.buckets"]


@pytest.mark.parametrize("key", LIMITS)
def test_a_setting_has_two_names_and_the_sessions_goes_first(key):
    member = LIMITS[key]
    assert getattr(Settings.read({key: "7"}.get), member) == 7 == getattr(Settings.read({f"spark.{key}": "7"}.get), member)
    assert getattr(Settings.read({key: "7", f"spark.{key}": "9"}.get), member) == 7
    assert Settings.read({"spark.sparkcep.slices": "always"}.get).slices == "always"


@pytest.mark.parametrize("key", NUMBERS)
@pytest.mark.parametrize("text", ["0", "-1", "many", "", "1.5", "9" * 19, "9" * 5_000, "1" * 20 + "t", "99999t", "²"])
def test_a_number_out_of_its_range_is_an_error_of_ours(key, text):
    for name in (key, f"spark.{key}"):
        with pytest.raises(ClauseError, match=rf"SPARKCEP.SETTING\] {name} must be a number from 1 to \d+") as caught:
            Settings.read({name: text}.get)
        assert len(str(caught.value)) < 300


def test_buckets_have_no_unit():
    assert Settings.read({"sparkcep.stream.buckets": " 64 "}.get).stream_buckets == 64
    for text in ("2g", "2k", "10001"):
        with pytest.raises(ClauseError, match="must be a number from 1 to 10000, such as 64"):
            Settings.read({"sparkcep.stream.buckets": text}.get)


@pytest.mark.parametrize("text", ["9" * 5_000 + " days", "0 days", "9" * 19 + " days", "3 moons"])
def test_a_time_out_of_its_range_is_an_error_of_ours(text):
    with pytest.raises(ClauseError, match="sparkcep.stream.idleTimeout must be a time above 0"):
        Settings.read({"sparkcep.stream.idleTimeout": text}.get)


@pytest.mark.parametrize("key", LIMITS)
def test_the_application_has_the_most(key):
    application = {f"spark.{key}": "100"}
    member = LIMITS[key]
    assert getattr(Settings.read({}.get, application.get), member) == 100 == getattr(Settings.read(application.get, application.get), member)
    assert getattr(Settings.read({key: "99"}.get, application.get), member) == 99
    for name in (key, f"spark.{key}"):
        with pytest.raises(ClauseError, match=rf"SETTING\] {name} is 101, and the application allows at most 100 \(spark.{key}\). Set it to at most 100"):
            Settings.read({name: "101"}.get, application.get)
    with pytest.raises(ClauseError, match=rf"spark.{key} must be a number"):
        Settings.read({}.get, {f"spark.{key}": "much"}.get)
    assert getattr(Settings.read({}.get, {key: "5"}.get), member) == getattr(DEFAULT, member)  # not the operator's name


def test_misspelled_names_are_told():
    wrong = list(all_unknown(["spark.sparkcep.maxStep", "sparkcep.prefiltr", "spark.master", "sparkcep.warm", "spark.sparkcep.warm", "spark.sparkcep.rewriter.memory"]))
    assert [text.partition(" ")[0] for text in wrong] == ["spark.sparkcep.maxStep", "sparkcep.prefiltr"]
    assert "did you mean spark.sparkcep.maxSteps?" in wrong[0] and "did you mean sparkcep.prefilter?" in wrong[1]
    assert "did you mean spark.sparkcep.maxMatchesPerPartition?" in unknown("spark.sparkcep.maxMatches") and "the settings are sparkcep.prefilter, " in unknown("sparkcep.nothing")
    assert "did you mean spark.sparkcep.rewriter.timeout?" in unknown("spark.sparkcep.rewriter.timeot")
    assert "The operator sets spark.sparkcep.rewriter.memory when the application starts" in unknown("sparkcep.rewriter.memory")
