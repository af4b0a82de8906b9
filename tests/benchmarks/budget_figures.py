"""Pictures of matching under a budget: recall against checks and against time, and how a history ages."""

from __future__ import annotations

from pathlib import Path


def _saved(figure, path: Path) -> None:
    figure.savefig(path, dpi=120)


def recall(found: dict, budgets: tuple[int, ...], path: Path) -> None:
    """For each stream the match points found against the checks a row, a line for each order (Figures 9 and 10)."""
    from matplotlib.figure import Figure

    wide = 4
    high = -(-len(found) // wide)
    figure = Figure(figsize=(4 * wide, 2.8 * high), layout="constrained")
    for i, (name, shares) in enumerate(found.items()):
        axes = figure.add_subplot(high, wide, i + 1, xscale="log")
        axes.set_title(name, fontsize=7)
        for order, some in shares.items():
            if order != "lost":
                axes.plot(budgets, [points for points, _ in some], marker="o", markersize=3, label=order)
        axes.set_xticks(budgets, list(map(str, budgets)))
        axes.set_ylim(0, 1.05)
        axes.set_ylabel("match points")
        if i == 0:
            axes.legend(fontsize=6)
    _saved(figure, path)


def arrival(found: dict, path: Path) -> None:
    """Bundles found against the time between rows."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7, 4), layout="constrained")
    axes = figure.add_subplot(xlabel="microseconds between rows", ylabel="bundles found")
    for order, points in found.items():
        axes.plot([us for us, _, _ in points], [share for _, _, share in points], marker="o", label=order)
    axes.set_ylim(0, 1.05)
    axes.legend()
    _saved(figure, path)


def times(found: dict, micros: list[float], path: Path) -> None:
    """Match points found against the time of a row, a line for each order (Figures 9 and 10)."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 6), layout="constrained")
    for i, (name, lines) in enumerate(found.items()):
        axes = figure.add_subplot(2, 2, i + 1, title=name, xscale="log", xlabel="microseconds a row", ylabel="match points found")
        for order, shares in lines.items():
            axes.plot(micros, [points for points, _ in shares], marker="o", markersize=3, label=order)
        axes.set_ylim(0, 1.05)
        if i == 0:
            axes.legend(fontsize=7)
    _saved(figure, path)


def memory(found: dict, path: Path) -> None:
    """The size of a history, and of its sketch, against the letters of the pattern (Figures 11 and 13)."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7, 4), layout="constrained")
    axes = figure.add_subplot(xlabel="letters of the pattern", ylabel="KB")
    for i, label in ((2, "history"), (3, "sketch of 800 cells")):
        axes.plot(list(found), [sizes[i] for sizes in found.values()], marker="o", label=label)
    axes.set_ylim(bottom=0)
    axes.legend()
    _saved(figure, path)


def held(found: dict, path: Path) -> None:
    """Runs held at a time, and kilobytes of the search, against the letters of the pattern (Figure 16)."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 3.6), layout="constrained")
    labels = ("all, 4 checks", "all, 16 checks", "proxies, 4 checks", "proxies, all checks")
    for i, title in enumerate(("runs held at most", "KB of the search")):
        axes = figure.add_subplot(1, 2, i + 1, title=title, xlabel="letters of the pattern", yscale="log")
        for j, label in enumerate(labels):
            axes.plot(list(found), [line[j][i] for line in found.values()], marker="o", label=label)
        if i == 0:
            axes.plot(list(found), [3 * letters for letters in found], linestyle="--", label="k + 1 for each place")
            axes.legend(fontsize=7)
    _saved(figure, path)


def days(found: dict, path: Path) -> None:
    """Match points found by day, a line for each history (Figure 17)."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 3.6), layout="constrained")
    for i, (order, lines) in enumerate(found.items()):
        axes = figure.add_subplot(1, len(found), i + 1, title=order, xlabel="day", ylabel="match points found")
        for label, shares in lines.items():
            axes.plot(range(2, 2 + len(shares)), [points for points, _ in shares], marker="o", label=label)
        axes.set_ylim(0, 1.05)
        axes.legend()
    _saved(figure, path)
