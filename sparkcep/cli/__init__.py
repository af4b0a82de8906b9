"""The command line. Words of a shell go in; an exit code comes out, and tables, pictures or a running server."""

from __future__ import annotations


def main(arguments: list[str] | None = None) -> int:
    """Runs the command line; returns the exit code."""
    from sparkcep.cli.cli import main as run

    return run(arguments)
