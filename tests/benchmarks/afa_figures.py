"""Pictures of the experiments of AFA, drawn as the paper draws them: Figures 8 to 13, 16 and 17."""

from __future__ import annotations

from pathlib import Path


def draw(found: dict, folder: str | Path) -> None:
    """``afa.png`` in ``folder``, from what ``afa.run`` returns."""
    from matplotlib.figure import Figure

    Path(folder).mkdir(parents=True, exist_ok=True)
    figure = Figure(figsize=(16, 6.5), layout="constrained")
    axes = [figure.add_subplot(2, 4, i + 1) for i in range(8)]
    names = [name for name in ("k=1", "k=2", "k=3", "can", "pattern") if f"8 {name}" in found]
    axes[0].bar([{"can": "CAN", "pattern": "PATTERN"}.get(name, name) for name in names], [found[f"8 {name}"] / 1e6 for name in names], color="#0b6e4f")
    _named(axes[0], "Figure 8: M events/s, W = 2000", "Q1")
    for report in ("NET", "CHANGES"):
        axes[1].plot(["never", "1000", "100", "10"], found[f"9 {report}"], marker="o", label=f"REPORT {report}")
    axes[1].axhline(0.9, color="#999999", linestyle="--", label="the paper's")
    axes[1].set_ylim(0, 1.05)
    _named(axes[1], "Figure 9: rate by that of the static Q3", "an arc changes every d events", True)
    sizes = [str(size) for size in found["10 sizes"]]
    for share in ("0.7", "0.9"):
        axes[2].plot(sizes, [of["changes"] for of in found[f"10 {share}"]], marker="o", label=f"I = {float(share):.0%}")
        axes[3].plot(sizes, [of["latency"] for of in found[f"10 {share}"]], marker="o", label=f"I = {float(share):.0%}")
    _named(axes[2], "Figure 10: changes told for each match", "SPECULATE", True)
    _named(axes[3], "Figure 11: mean ms to a match", "SPECULATE", True)
    shares = [float(name.split()[1]) for name in found if name.startswith("12 ")]
    for i, name in enumerate(("AFA", "AFA+O (CONSECUTIVE BY)")):
        axes[4].plot(shares, [1 / found[f"12 {share}"][i] for share in shares], marker="o", label=name)
    axes[4].set_yscale("log")
    _named(axes[4], "Figure 12: M events/s", "share of rows that come late", True)
    axes[5].plot(shares, [found[f"13 {share}"] / 1024 for share in shares], marker="o")
    axes[5].set_ylim(bottom=0)
    _named(axes[5], "Figure 13: KB of computations kept", "share of rows that come late")
    ignorable = found["16 shares"]
    axes[6].plot(ignorable, found["16"], marker="o")
    axes[6].set_ylim(bottom=0)
    _named(axes[6], "Figure 16: M events/s", "share of ignorable rows")
    axes[7].plot(ignorable, [size / 1024 for size in found["17"]], marker="o")
    axes[7].set_ylim(bottom=0)
    _named(axes[7], "Figure 17: KB of computations kept", "share of ignorable rows")
    figure.savefig(Path(folder) / "afa.png", dpi=110)


def _named(axes, title: str, x: str, several: bool = False) -> None:
    axes.set_title(title, fontsize=9)
    axes.set_xlabel(x, fontsize=8)
    if several:
        axes.legend(fontsize=7)
