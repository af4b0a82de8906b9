"""Runs a notebook (.ipynb, or Databricks in source form) from its first cell to its last, in its own kernel.

``sparkcep notebook`` uses it.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack, nullcontext
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sparkcep.errors import ToolError

if TYPE_CHECKING:
    from nbformat import NotebookNode


class NotebookError(ToolError):
    """A notebook cannot be run, or a cell failed. The message says which and why."""


def load(path: Path) -> NotebookNode:
    """Returns the notebook in a file. Raises NotebookError."""
    _need_libraries()
    import nbformat

    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise NotebookError(f"{path} cannot be read: {error}") from None
    if path.suffix == ".ipynb":
        try:
            return nbformat.reads(text, as_version=4)
        except (nbformat.reader.NotJSONError, nbformat.ValidationError) as error:
            raise NotebookError(f"{path} is not a Jupyter notebook: {str(error)[:200]}") from None
    from sparkcep.notebook.databricks import SourceError, to_notebook

    try:
        return to_notebook(text)
    except SourceError as error:
        raise NotebookError(f"{path}, line {error.line}: {error}") from None


def _silent(about: str) -> AbstractContextManager[None]:
    return nullcontext()


def run(
    notebook: NotebookNode, folder: Path, name: str, seen: Callable[[str], None], kernel: Any = None,
    waiting: Callable[[str], AbstractContextManager[None]] = _silent,
) -> None:
    """Runs ``notebook`` with ``folder`` as its directory and stores the outputs in its cells.

    Args:
        notebook: the notebook.
        folder: its directory.
        name: the notebook's name in errors.
        seen: receives the outputs of each cell, as text, after the cell ran.
        kernel: the manager of a running kernel, which is used and left running.
        waiting: a context around the start of the kernel and around each cell; it receives a description.

    Raises:
        NotebookError: a cell failed. No later cell runs.
    """
    _need_libraries()
    from nbclient import NotebookClient
    from nbclient.exceptions import CellExecutionError, DeadKernelError

    numbers = {id(cell): i for i, cell in enumerate((c for c in notebook.cells if c.cell_type == "code"), 1)}

    line = ExitStack()

    def started(cell: NotebookNode, **_: Any) -> None:
        line.close()
        if id(cell) in numbers:
            line.enter_context(waiting(f"running cell {numbers[id(cell)]} of {len(numbers)}"))

    def executed(cell: NotebookNode, **_: Any) -> None:
        line.close()
        text = output_text(cell)
        if text:
            seen(text)

    client = NotebookClient(
        notebook, km=kernel, timeout=None, resources={"metadata": {"path": str(folder)}}, on_cell_start=started, on_cell_executed=executed
    )
    try:
        with line:
            line.enter_context(waiting("starting the kernel"))
            client.execute()
    except CellExecutionError as error:
        failed = next((c for c in reversed(notebook.cells) if any(o.output_type == "error" for o in c.get("outputs", ()))), None)
        where = f"cell {numbers[id(failed)]}" if failed is not None else "a cell"
        line = f" (line {failed.metadata['line']})" if failed is not None and "line" in failed.metadata else ""
        raise NotebookError(f"{name}, {where}{line}: {error.ename}: {error.evalue}") from None
    except DeadKernelError as error:
        raise NotebookError(f"{name}: the kernel died: {error}") from None


def output_text(cell: NotebookNode) -> str:
    """Returns the output of a cell as text. A picture is represented by its description."""
    parts = []
    for output in cell.get("outputs", ()):
        if output.output_type == "stream" and output.name == "stdout":
            parts.append(output.text)
        elif output.output_type in ("execute_result", "display_data"):
            parts.append(output.data.get("text/plain", ""))
    return "\n".join(part.rstrip("\n") for part in parts if part.strip())


def _need_libraries() -> None:
    for library in ("ipykernel", "nbclient", "nbformat"):
        if find_spec(library) is None:
            raise NotebookError(f"running notebooks needs {library}: pip install 'sparkcep[notebook]'")
