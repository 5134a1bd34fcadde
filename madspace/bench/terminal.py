"""What people see of a benchmark: progress while it runs, tables at the end."""

import shutil
import sys
from collections.abc import Iterable, Sequence
from typing import TextIO


class Progress:
    """One line on a terminal that says what is being measured; nothing in a pipe or a file.

    Parameters
    ----------
    stream : file, optional
        Standard error by default.
    """

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = sys.stderr if stream is None else stream
        self._on = self._stream.isatty()
        self._title = ""

    def start(self, title: str) -> None:
        """Say what begins."""
        self._title = title
        self._show(title)

    def step(self, done: int, of: int) -> None:
        """Say how far it is; at most 20 times, since writing takes time."""
        if self._on and done % max(1, of // 20) == 0:
            self._show(f"{self._title}  {100 * done // of} %")

    def clear(self) -> None:
        """Leave an empty line for what comes next."""
        self._show("")

    def _show(self, text: str) -> None:
        if self._on:
            width = shutil.get_terminal_size().columns - 1
            self._stream.write(f"\r\x1b[K{text[:width]}")
            self._stream.flush()


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a Markdown table with aligned columns, the first one to the left and the others to the right."""
    lines = [tuple(head), *(tuple(row) for row in rows)]
    widths = [max(3, *(len(line[i]) for line in lines)) for i in range(len(head))]

    def write(line: Sequence[str]) -> str:
        cells = (f"{x:<{w}}" if i == 0 else f"{x:>{w}}" for i, (x, w) in enumerate(zip(line, widths, strict=True)))
        return f"| {' | '.join(cells)} |"

    rule = [f"{'-' * (w - 1)}{'-' if i == 0 else ':'}" for i, w in enumerate(widths)]
    return "\n".join([write(lines[0]), write(rule), *map(write, lines[1:])]) + "\n"
