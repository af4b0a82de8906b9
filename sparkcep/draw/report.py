"""Lays out the report of a query as a page: the statement, how it ran, and what came out."""

from __future__ import annotations

from dataclasses import dataclass

from sparkcep.draw.explain_page import explained
from sparkcep.draw.page import Page
from sparkcep.sql.rewritten import Rewritten


@dataclass(frozen=True)
class Table:
    """Column names and rows of plain values."""

    header: tuple[str, ...]
    rows: tuple[tuple[object, ...], ...]


@dataclass(frozen=True)
class Job:
    """Something that was computed, in how many seconds, and whether only for the report."""

    what: str
    seconds: float
    extra: bool


@dataclass(frozen=True)
class Step:
    """A node of Spark's physical plan as it ran. ``depth`` is its depth in the plan; ``rows`` is the number of rows that it gave,
    None where nobody counted."""

    depth: int
    name: str
    rows: int | None


@dataclass(frozen=True)
class Report:
    """The facts about one run of a statement. ``notes`` gives the reasons where a fact is missing.

    ``counts`` holds (what, number). ``picture`` is a data URI, or empty. ``partitions`` and ``variables`` hold the matches of each
    partition and the rows of each variable, or None where the query does not give them.
    """

    sql: str
    rewritten: str
    clauses: tuple[Rewritten, ...]
    counts: tuple[tuple[str, int], ...]
    sample: Table
    partitions: Table | None
    variables: Table | None
    picture: str
    physical: str
    steps: tuple[Step, ...]
    jobs: tuple[Job, ...]
    notes: tuple[str, ...]
    versions: str


def render(report: Report) -> str:
    """The report as HTML in one file."""
    page = Page("Report of a query")
    page.paragraph(report.versions, dim=True)
    explained(page, report.sql, report.rewritten, list(report.clauses))
    page.heading("Result")
    page.table(("", "number"), report.counts)
    for title, table in (("Matches of the partitions with most of them", report.partitions), ("Rows by variable", report.variables)):
        if table is not None:
            page.heading(title, 3)
            page.table(table.header, table.rows)
    shown = len(report.sample.rows)
    page.heading(f"The first {shown} rows" if shown > 1 else "One row" if shown else "No rows", 3)
    page.table(report.sample.header, report.sample.rows)
    if report.picture:
        page.heading("Some of the matches", 3)
        page.image(report.picture, "series with their matches")
    page.heading("Physical plan")
    if report.steps:
        page.paragraph("The steps that ran, the last one first, with the rows that came out of each. A step that ran twice counts both times: "
                       "Spark reads what an ORDER BY of the whole result sorts once before, to find its ranges.")
        page.table(("step", "rows"), (("\u00a0\u00a0" * s.depth + s.name, s.rows if s.rows is not None else "") for s in report.steps))
    page.code(report.physical, summary="Spark's plan before it ran")
    page.heading("Jobs")
    page.table(
        ("what was computed", "seconds", "why"),
        ((j.what, f"{j.seconds:.2f}", "only for this report" if j.extra else "the statement itself") for j in report.jobs),
    )
    for note in report.notes:
        page.paragraph(note, dim=True)
    return page.text()
