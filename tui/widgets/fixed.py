"""A pane of a few rows that are all made anew when something changes; only those that differ are painted."""

from __future__ import annotations

from tui.widgets.lines import LineView
from tui.widgets.rows import Row


class FixedView(LineView):
    """A view of rows that do not grow; it stays where the user scrolled it."""

    def __init__(self, *, id: str | None = None, classes: str | None = None) -> None:
        super().__init__(id=id, classes=classes)
        self._rows: list[Row] = []
        self._stale = True

    def make_rows(self) -> list[Row]:
        """All rows, ``row_width`` columns wide."""
        raise NotImplementedError

    def update_rows(self) -> None:
        """Make the rows again and paint those that differ. Off screen it waits until it is shown."""
        if not self.region:
            self._stale = True
            return
        self._stale = False
        before, self._rows = self._rows, self.make_rows()
        different = [y for y, (old, new) in enumerate(zip(before, self._rows, strict=False)) if old != new]
        if len(before) != len(self._rows) or not self._rows:
            self.rows_changed(different[0] if different else min(len(before), len(self._rows)))
            return
        if different:
            self.search_again(different[0])
        for y in different:
            self.repaint_row(y)

    def lay_out(self) -> None:
        self._rows = self.make_rows()
        self._stale = False
        self.rows_changed(0)

    def refresh_layout(self) -> None:
        super().refresh_layout()
        if self._stale:
            self.update_rows()

    def row_total(self) -> int:
        return len(self._rows)

    def build_row(self, y: int) -> Row:
        return self._rows[y]

    def holds_still(self) -> bool:
        return True
