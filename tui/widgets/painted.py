"""A scrolling view that paints rows and builds only those on screen.

A pane says how many rows there are (``row_total``), makes one of them (``build_row``) and calls
``rows_changed(first)`` when they grow or change. Rows on screen are kept as framed lines in an LRU; the view
follows its tail until the user scrolls away. The last line is the pane's own: a legend, a count, a question.

Textual keeps a line's parts and escape codes with the line, but makes new lines of all rows whenever a view
scrolls. Here a row keeps its line, so that one which only moves costs next to nothing.
"""

from __future__ import annotations

from typing import ClassVar, Self

from rich.cells import cell_len
from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.cache import LRUCache
from textual.geometry import Region, Size
from textual.scroll_view import ScrollView
from textual.strip import Strip
from textual.widget import Widget

from tui.glyphs import Glyphs, glyph_set
from tui.widgets.finder import Finder
from tui.widgets.pane_css import PANE_CLASSES, pane_css
from tui.widgets.rows import Piece, Row, clip_row, clusters, wrap

SELECTED = "screen--selection"
BARE = "bare"
"""In a piece's style: no line under or through the text, whatever its classes say."""
_KEPT = 512
"""Lines kept; more than a screen has rows."""


class PaintedView(ScrollView, can_focus=True):
    """A scrolling view of rows, painted line by line."""

    HELP: ClassVar[str] = ""
    COMPONENT_CLASSES: ClassVar[set[str]] = set(PANE_CLASSES)
    DEFAULT_CSS = pane_css("PaintedView")

    def __init__(self, *, id: str | None = None, classes: str | None = None) -> None:
        super().__init__(id=id, classes=classes)
        self.finder = Finder(self.build_row)
        self.built = 0
        """Rows made into strips so far, in all."""
        self._lines: LRUCache[int, Strip] = LRUCache(_KEPT)  # by row, with the frame
        self._thumb: tuple[int, ...] = ()
        self._styles: dict[str, Style] = {}
        self._at_end = True
        self._width = self._height = 0  # of the rows and the last line; those of the last time on screen
        self._laid_out: tuple[int, bool] = (0, False)
        self._shown_empty: list[Row] = []

    # -- what a pane says

    def row_total(self) -> int:
        """How many rows there are now."""
        raise NotImplementedError

    def build_row(self, y: int) -> Row:
        """One row; cut or wrapped to ``row_width`` columns."""
        raise NotImplementedError

    def lay_out(self) -> None:
        """The width or the glyphs changed: make ready for new rows."""

    def empty_text(self) -> str:
        """What to say, and what to do, while there are no rows."""
        return ""

    def foot(self) -> tuple[Piece, ...]:
        """The pane's own last line; empty: none."""
        return ()

    def holds_still(self) -> bool:
        """Whether something keeps the view from following its tail."""
        return False

    # -- geometry

    @property
    def glyphs(self) -> Glyphs:
        """The glyphs this terminal can show."""
        return glyph_set(self.ascii)

    @property
    def ascii(self) -> bool:
        """Whether only ASCII glyphs are to be used."""
        return bool(getattr(self.app, "ascii", False))

    @property
    def row_width(self) -> int:
        """Columns of a row."""
        return max(self._width, 1)

    @property
    def is_laid_out(self) -> bool:
        """Whether the pane was on screen yet; before, rows would have no width."""
        return self._width > 0

    @property
    def page(self) -> int:
        """Rows on screen, the last line not counted."""
        return max(self._height - self._foot_height, 1)

    @property
    def _foot_height(self) -> int:
        return int(self._height > 2 and bool(self.foot()))

    # -- change

    def rows_changed(self, first: int = 0) -> None:
        """Rows from ``first`` on are new or different; those before are as they were."""
        self._forget(first)
        self._forget_foot()
        total = self.row_total()
        self.search_again(first)
        self._shown_empty = [] if total else wrap(self.empty_text(), self.row_width, "lines--dim")
        self._resize_rows(total)
        top = max(first - self.scroll_offset.y, 0)
        if top < self._height:
            self.refresh(Region(0, top, self.row_width, self._height - top))

    def search_again(self, first: int) -> None:
        """Rows from ``first`` on have other text: find what is looked for in them too."""
        self.finder.forget(first)
        self.finder.extend(self.row_total())
        if self.finder.needle:
            self._forget_foot()  # it says how many matches there are
            self.refresh(Region(0, self._height - 1, self.row_width, 1))

    def _resize_rows(self, total: int) -> None:
        at_end = self._at_end and not self.holds_still()
        size = Size(self.row_width, max(total, len(self._shown_empty)) + self._foot_height)
        if size != self.virtual_size:
            # Not through the property: it would lay out the whole screen again for every row.
            self.set_reactive(Widget.virtual_size, size)
            self.scroll_y = self.validate_scroll_y(self.scroll_y)
        if at_end and self.scroll_y < self.max_scroll_y:
            self.scroll_to(y=self.max_scroll_y, animate=False)
        self._at_end = at_end or self.scroll_y >= self.max_scroll_y
        self._place_thumb()

    def foot_changed(self) -> None:
        """Paint the last line again."""
        self._resize_rows(self.row_total())
        self._forget_foot()
        self.refresh(Region(0, self._height - 1, self.row_width, 1))

    def _forget_foot(self) -> None:
        self._lines.discard(-1 - (self.gutter.top + self._height - 1))

    def repaint_row(self, y: int) -> None:
        """One row looks different."""
        self._lines.discard(y)
        self.refresh_line(y)

    def _forget(self, first: int) -> None:
        for y in tuple(self._lines.keys()):
            if y >= first:
                self._lines.discard(y)

    def repaint(self) -> None:
        """All rows may look different; how many there are did not change."""
        self.refresh()

    def refresh(
        self, *regions: Region, repaint: bool = True, layout: bool = False, recompose: bool = False
    ) -> Self:
        if not regions:
            self._lines.clear()
        return super().refresh(*regions, repaint=repaint, layout=layout, recompose=recompose)

    def key_at(self, y: int, column: int) -> int:
        """The key of what stands at a column of a row; -1: nothing."""
        for piece in self.build_row(y).pieces:
            column -= cell_len(piece.text)
            if column < 0:
                return piece.key
        return -1

    def show_row(self, y: int) -> None:
        """Scroll as little as brings a row on screen."""
        top = self.scroll_offset.y
        if y < top:
            self.scroll_to(y=y, animate=False)
        elif y >= top + self.page:
            self.scroll_to(y=y - self.page + 1, animate=False)

    @property
    def follows(self) -> bool:
        """Whether the view moves with its tail."""
        return self._at_end and not self.holds_still()

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        self._at_end = round(new_value) >= self.max_scroll_y
        if round(old_value) != round(new_value):
            self._place_thumb()
            self.refresh(self.size.region)

    def _place_thumb(self) -> None:
        """Tell the scrollbar where the view is, if that is another cell: each time it draws all its lines."""
        bar, total, page = self.vertical_scrollbar, self.virtual_size.height, self.container_size.height
        top, every = round(self.scroll_y), max(total, 1)
        at_an_end = 0 if top <= 0 else 2 if top >= self.max_scroll_y else 1
        thumb = (page, total > page, at_an_end, page * top // every, page * page // every)
        if thumb != self._thumb:
            self._thumb = thumb
            bar.window_virtual_size, bar.window_size, bar.position = total, page, top

    def notify_style_update(self) -> None:
        super().notify_style_update()
        self._styles.clear()
        self._lines.clear()

    def refresh_layout(self) -> None:
        """Lay out again if the width or the glyphs are other ones."""
        region = self.scrollable_content_region
        if not region.width:
            return
        if region.size != (self._width, self._height):
            self._width, self._height = region.size
            self.refresh()
        layout = (self._width, self.ascii)
        if layout != self._laid_out:
            self._laid_out = layout
            self.set_class(self.ascii, "-ascii")
            self._lines.clear()
            self.lay_out()
            self.finder.forget(0)
        self.rows_changed(self.row_total())

    def on_mount(self) -> None:
        self.refresh_layout()

    def on_resize(self, event: events.Resize) -> None:
        self.refresh_layout()

    # -- painting

    def style_of(self, names: str) -> Style:
        """The style of component classes, separated by blanks; "" is the pane's own."""
        style = self._styles.get(names)
        if style is None:
            style = self._styles[names] = self._mixed(names.split())
        return style

    def _mixed(self, names: list[str]) -> Style:
        classes = [name for name in names if name not in {SELECTED, BARE}]
        style = self.get_visual_style(*classes).rich_style
        if any(self.get_component_styles(name).text_style.reverse for name in classes):
            style += Style(reverse=True)  # a visual style has none
        if BARE in names:
            style += Style(underline=False, strike=False)
        if SELECTED in names:
            # Its background only: the foreground that comes with it is meant for no text and hides it.
            style += Style(bgcolor=self.screen.get_component_rich_style(SELECTED).bgcolor, dim=False)
        return style

    def render_lines(self, crop: Region) -> list[Strip]:
        width = self.outer_size.width
        if crop.column_span != (0, width) or self.text_selection is not None:
            return super().render_lines(crop)
        above, top, page, total = self.gutter.top, self.scroll_offset.y, self.page, self.row_total()
        # Neither the frame nor the last line is a row, nor what stands where there are no rows.
        keys = [top + y - above if 0 <= y - above < page else -1 - y for y in crop.line_range]
        known = [self._lines.get(key) if key < total else None for key in keys]
        lines: list[Strip] = []
        while (at := len(lines)) < len(keys):
            line = known[at]
            if line is not None:
                lines.append(line)
                continue
            end = next((later for later in range(at, len(keys)) if known[later] is not None), len(keys))
            lines += super().render_lines(Region(0, crop.y + at, width, end - at))
            for key, line in zip(keys[at:end], lines[at:], strict=True):
                if key < total:
                    self._lines[key] = line
        return lines

    def render_line(self, y: int) -> Strip:
        if self.scrollable_content_region.size != (self._width, self._height):
            self.call_after_refresh(self.refresh_layout)
        if y == self._height - 1 and self._foot_height:
            return self._strip(self._foot_row(), "lines--foot")
        row = self.scroll_offset.y + y
        if row >= self.row_total():
            empty = self._shown_empty
            return (
                self._strip(empty[row])
                if row < len(empty)
                else Strip.blank(self.row_width, self.style_of(""))
            )
        self.built += 1
        made = self._marked(row)
        selection = self.text_selection
        span = None if selection is None else selection.get_span(row)
        if span is not None:
            made = self._styled(made, *span, SELECTED)
        return self._strip(made).apply_offsets(0, row)

    def _strip(self, row: Row, below: str = "") -> Strip:
        width = self.row_width
        segments: list[Segment] = []
        used = 0
        for piece in row.pieces:
            segments.append(Segment(piece.text, self.style_of(f"{below} {piece.style}".strip())))
            used += cell_len(piece.text)
        if used < width:
            segments.append(Segment(" " * (width - used), self.style_of(below)))
        strip = Strip(segments, max(used, width))
        return strip if used <= width else strip.crop(0, width)

    def _foot_row(self) -> Row:
        return Row(clip_row(self.foot(), self.row_width, self.glyphs.ellipsis))

    def _marked(self, y: int) -> Row:
        """A row with the matches of the search."""
        row = self.build_row(y)
        for start, end, current in self.finder.spans(y, self.row_total()):
            row = self._styled(row, start, end, "lines--found" if current else "lines--match")
        return row

    @staticmethod
    def _styled(row: Row, start: int, end: int, name: str) -> Row:
        """A row with another style on some of its characters (``end`` -1: to its end), whole ones only."""
        text = row.text
        end = len(text) if end < 0 else end
        if not text.isascii():
            edges = [(low, high) for low, high, _ in clusters(text)]
            start = max((low for low, _ in edges if low <= start), default=start)
            end = min((high for _, high in edges if high >= end), default=end)
        pieces: list[Piece] = []
        at = 0
        for piece in row.pieces:
            low = min(max(start - at, 0), len(piece.text))
            high = min(max(end - at, low), len(piece.text))
            at += len(piece.text)
            parts = (piece.text[:low], piece.text[low:high], piece.text[high:])
            styles = (piece.style, f"{piece.style} {name}".strip(), piece.style)
            pieces += [
                piece._replace(text=part, style=style)
                for part, style in zip(parts, styles, strict=True)
                if part
            ]
        return Row(tuple(pieces), row.soft)
