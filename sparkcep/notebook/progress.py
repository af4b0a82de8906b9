"""Shows progress: as an updated display in a notebook, as a line in a terminal. Only the duration remains.

SQL cells and ``sparkcep shell`` use it.
"""

from __future__ import annotations

import base64
import html
import sys
import time
from typing import TYPE_CHECKING, Any

from sparkcep.notebook.jobs import Progress
from sparkcep.notebook.picture import Picture
from sparkcep.notebook.table import Table

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell


class _Shown:
    """A text, with a progress bar in HTML. A table or a picture may be below it."""

    def __init__(self, text: str, progress: Progress | None = None, below: Table | Picture | None = None) -> None:
        self.text = text
        self.progress = progress
        self.below = below

    def __repr__(self) -> str:
        return self.text if self.below is None else f"{self.text}\n{self.below!r}"

    def _repr_html_(self) -> str:
        bar = f'<progress value="{self.progress.completed}" max="{self.progress.tasks}"></progress> ' if self.progress and self.progress.tasks else ""
        text = f"<small>{bar}{html.escape(self.text)}</small>"
        if self.below is None:
            return text
        if isinstance(self.below, Table):
            return f"{text}{self.below._repr_html_()}"
        return f'{text}<br><img src="data:image/png;base64,{base64.b64encode(self.below._repr_png_()).decode()}">'


class Reporter:
    """Shows the progress of one cell from its creation to ``close()``."""

    def __init__(self, shell: InteractiveShell) -> None:
        self.notebook = hasattr(shell, "kernel")
        self.started = time.monotonic()
        self.handle: Any = None
        self.width = 0

    def show(self, progress: Progress) -> None:
        """Shows ``progress``."""
        done = f"{progress.completed} of {progress.tasks} tasks, {progress.running} running" if progress.tasks else "no Spark job yet"
        self.say(f"{self._seconds()}: {done}", progress)

    def live(self, text: str, below: Table | Picture, fresh: Table | None) -> None:
        """Shows a query's output so far below ``text``. A terminal prints only the ``fresh`` rows, if any."""
        if self.notebook:
            self.say(f"{self._seconds()}: {text}", below=below)
            return
        if fresh is not None:
            self.clear()
            print(fresh, flush=True)
        self.say(f"{self._seconds()}: {text}")

    def say(self, text: str, progress: Progress | None = None, below: Table | Picture | None = None) -> None:
        """Replaces the shown text by ``text``."""
        if self.notebook:
            from IPython.display import display

            shown = _Shown(text, progress, below)
            if self.handle is None:
                self.handle = display(shown, display_id=True)
            else:
                self.handle.update(shown)
        elif sys.stderr.isatty():
            sys.stderr.write("\r" + text.ljust(self.width))
            sys.stderr.flush()
            self.width = len(text)

    def close(self, outcome: str = "") -> None:
        """Replaces the progress by the duration, after ``outcome``."""
        text = f"{outcome}, {self._seconds()}" if outcome else self._seconds()
        if self.notebook:
            self.say(text)
        else:
            self.clear()
            print(text, flush=True)

    def clear(self) -> None:
        """Removes the progress from a terminal's line."""
        if self.width:
            self.say("")
            sys.stderr.write("\r")
            self.width = 0

    def _seconds(self) -> str:
        return f"{time.monotonic() - self.started:.1f} s"
