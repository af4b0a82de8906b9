"""The command line: runs a command, and returns its exit code."""

from __future__ import annotations


def main(arguments: list[str] | None = None) -> int:
    """Runs the command line. Returns the exit code."""
    from sparkcep.cli.cli import main as run

    return run(arguments)
