"""A table that keeps its place: rows are matched by key and only the cells that changed are written.

Refreshing never rebuilds, so that cursor, scroll position and selection survive any number of refreshes. Only a new set
of columns (another width of the terminal) lays the table out anew, and puts cursor and scroll back.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from rich.text import Text
from textual.widgets import DataTable


@dataclass(frozen=True)
class Column:
    """`width` 0: as wide as the widest cell when the table is laid out; `rest`: what the others leave."""

    key: str
    title: str
    width: int = 0
    rest: bool = False
    right: bool = False


class SteadyTable(DataTable[Text]):
    """Show it rows with `show`; ask it for `chosen`."""

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id, cursor_type="row", cursor_foreground_priority="renderable")
        self._layout: tuple[tuple[Column, int], ...] = ()
        self._shown: dict[str, dict[str, Text]] = {}
        self.cells_written = 0

    @property
    def chosen(self) -> str:
        """The key of the row under the cursor; "" in an empty table."""
        keys = list(self._shown)
        return keys[self.cursor_row] if 0 <= self.cursor_row < len(keys) else ""

    def choose(self, key: str) -> None:
        """Move the cursor to a row, if it is there."""
        if key in self._shown:
            self.move_cursor(row=list(self._shown).index(key), scroll=True)

    def show(self, columns: Sequence[Column], rows: Mapping[str, Mapping[str, Text]]) -> None:
        """Bring the table to these rows, in this order for new ones."""
        layout = self._laid_out(columns, rows)
        if layout != self._layout or not self._is_prefix(list(rows)):
            self._rebuild(layout, rows)
            return
        self._update(rows)
        for key in list(rows)[len(self._shown) :]:
            self._add(key, rows[key])

    def _is_prefix(self, keys: list[str]) -> bool:
        """Whether the rows that are there stay where they are: new ones only at the end."""
        return keys[: len(self._shown)] == list(self._shown)

    def _update(self, rows: Mapping[str, Mapping[str, Text]]) -> None:
        for key, there in self._shown.items():
            for column, _ in self._layout:
                fresh = rows[key][column.key]
                if fresh != there[column.key] or fresh.style != there[column.key].style:
                    self.update_cell(key, column.key, self._fit(fresh, column))
                    self.cells_written += 1
            self._shown[key] = dict(rows[key])

    def _rebuild(self, layout: tuple[tuple[Column, int], ...], rows: Mapping[str, Mapping[str, Text]]) -> None:
        chosen, row, scroll = self.chosen, self.cursor_row, self.scroll_offset
        self.clear(columns=True)
        self._layout, self._shown = layout, {}
        for column, width in layout:
            title = Text(column.title, justify="right" if column.right else "left")
            self.add_column(title, key=column.key, width=width)
        for key, cells in rows.items():
            self._add(key, cells)
        if chosen in self._shown:
            row = list(self._shown).index(chosen)
        if self._shown:
            self.move_cursor(row=min(max(row, 0), len(self._shown) - 1), scroll=False)
            self.scroll_to(y=scroll.y, animate=False)

    def _add(self, key: str, cells: Mapping[str, Text]) -> None:
        self.add_row(*(self._fit(cells[column.key], column) for column, _ in self._layout), key=key)
        self._shown[key] = dict(cells)

    def _fit(self, text: Text, column: Column) -> Text:
        fitted = text.copy()
        fitted.no_wrap, fitted.overflow = True, "ellipsis"
        fitted.justify = "right" if column.right else "left"
        return fitted

    def _laid_out(
        self, columns: Sequence[Column], rows: Mapping[str, Mapping[str, Text]]
    ) -> tuple[tuple[Column, int], ...]:
        """Each column with its width. Widths only grow while the columns stay the same, so that nothing jumps."""
        before = {column.key: width for column, width in self._layout}
        widths = {c.key: c.width or max(before.get(c.key, 0), self._widest(c, rows)) for c in columns}
        padding = 2 * self.cell_padding
        taken = sum(widths[c.key] + padding for c in columns if not c.rest)
        left = max(8, self.size.width - taken - padding - 1)
        return tuple((c, left if c.rest else widths[c.key]) for c in columns)

    def _widest(self, column: Column, rows: Mapping[str, Mapping[str, Text]]) -> int:
        cells = (row[column.key].cell_len for row in rows.values())
        return max((len(column.title), *cells), default=1)
