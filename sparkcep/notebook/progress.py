"""Shows progress: in a notebook a display that changes, in a terminal a line. Only the duration stays."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Any

from sparkcep.notebook.jobs import Progress

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell


class _Shown:
    """A text, which has a bar where HTML is shown."""

    def __init__(self, text: str, progress: Progress | None = None) -> None:
        self.text = text
        self.progress = progress

    def __repr__(self) -> str:
        return self.text

    def _repr_html_(self) -> str:
        bar = f'<progress value="{self.progress.completed}" max="{self.progress.tasks}"></progress> ' if self.progress and self.progress.tasks else ""
        return f"<small>{bar}{self.text}</small>"


class Reporter:
    """Shows the progress of one cell from its making to ``close()``."""

    def __init__(self, shell: InteractiveShell) -> None:
        self.notebook = hasattr(shell, "kernel")
        self.started = time.monotonic()
        self.handle: Any = None
        self.width = 0

    def tell(self, progress: Progress) -> None:
        """Shows ``progress``."""
        done = f"{progress.completed} of {progress.tasks} tasks, {progress.running} running" if progress.tasks else "no Spark job yet"
        self.say(f"{self._seconds()}: {done}", progress)

    def say(self, text: str, progress: Progress | None = None) -> None:
        """Shows ``text`` in the place of what was shown before, until there is more to tell."""
        if self.notebook:
            from IPython.display import display

            shown = _Shown(text, progress)
            if self.handle is None:
                self.handle = display(shown, display_id=True)
            else:
                self.handle.update(shown)
        elif sys.stderr.isatty():
            sys.stderr.write("\r" + text.ljust(self.width))
            sys.stderr.flush()
            self.width = len(text)

    def close(self, outcome: str = "") -> None:
        """Leaves the duration, behind ``outcome``, in place of the progress."""
        text = f"{outcome}, {self._seconds()}" if outcome else self._seconds()
        if self.notebook:
            self.say(text)
        else:
            self.clear()
            print(text, flush=True)

    def clear(self) -> None:
        """Takes the progress away from a terminal's line."""
        if self.width:
            self.say("")
            sys.stderr.write("\r")
            self.width = 0

    def _seconds(self) -> str:
        return f"{time.monotonic() - self.started:.1f} s"
