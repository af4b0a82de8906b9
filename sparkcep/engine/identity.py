"""Values by which matches are told apart, as texts that are the same wherever and whenever they are made."""

from __future__ import annotations

ENDING = "ending"  # of a match, what its computation ended with


def plain(value: object) -> object:
    """A value without what equal ones may differ in: the sign of zero, and which NaN it is."""
    match value:
        case float():
            return "NaN" if value != value else value + 0.0
        case list() | tuple():
            return tuple(map(plain, value))
        case dict():
            return tuple((name, plain(part)) for name, part in value.items())
    return value
