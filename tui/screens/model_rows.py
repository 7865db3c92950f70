"""The texts of the model picker."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from textual.binding import Binding, BindingType
from textual.content import Content
from textual.message import Message
from textual.widgets import OptionList
from textual.widgets.option_list import Option

from engine.events import ModelInfo
from engine.models.memory import shown
from tui.glyphs import bar, glyph_set
from tui.model_list import Fit, ModelEntry
from tui.safe_text import visible
from tui.state import LoadView

_BAR = 16
_STYLES = {Fit.FITS: "$text-success", Fit.TIGHT: "$text-warning", Fit.TOO_BIG: "$text-error bold"}


def entry_row(entry: ModelEntry, free: int, item_bytes: int, *, ascii_only: bool) -> Content:
    """Two lines for a model of the list: its name; where it is, what it needs, whether that fits."""
    safe = visible(entry.name, "", ascii_only=ascii_only)
    name = Content(safe).stylize("bold" if entry.usable else "dim strike")
    parts: list[Content | str | tuple[str, str]] = [name, "\n  ", str(entry.place)]
    if entry.problem is not None:
        style = "$text-warning" if entry.usable else "$text-error"
        parts += [", ", (visible(entry.problem, "", ascii_only=ascii_only), style)]
        return Content.assemble(*parts)
    if not entry.here:
        parts.append(f", {shown(entry.disk_bytes)} to fetch" if entry.disk_bytes else ", to be fetched")
        return Content.assemble(*parts)
    parts.append(f", {shown(entry.disk_bytes)} on disk")
    needed = entry.needed(item_bytes)
    if needed is not None:
        fit = entry.fit(free, item_bytes)
        parts += [f", needs {shown(needed)}: ", (str(fit), _STYLES.get(fit, ""))]
    if entry.architecture:
        parts.append(f", {visible(entry.architecture, '', ascii_only=ascii_only)}")
    return Content.assemble(*parts)


class ModelRows(OptionList):
    """The models that match what was typed, and what was typed itself where it is none of them.

    Its letters are keys only here, so that they can be typed in the filter.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("t", "ask('target')", "Target", id="models.target", tooltip="Load it as the target"),
        Binding("d", "ask('drafter')", "Drafter", id="models.drafter", tooltip="Load it as the drafter"),
        Binding("v", "ask('check')", "Pair", id="models.check", tooltip="Whether it can draft"),
        Binding("x", "ask('eject')", "Eject", id="models.eject", tooltip="Free the memory of a model"),
    ]

    class Wanted(Message):
        """What a key asked for: "target", "drafter", "check" or "eject"."""

        def __init__(self, what: str) -> None:
            super().__init__()
            self.what = what

    def __init__(self) -> None:
        super().__init__()
        self._names: list[str] = []

    def fill(
        self,
        entries: Sequence[ModelEntry] | None,
        words: str,
        free: int,
        item_bytes: int,
        *,
        ascii_only: bool,
    ) -> None:
        """Show the matching ones; None: the list is not known yet."""
        if entries is None:
            self._names = []
            self.set_options([Option("looking for models ...", disabled=True)])
            return
        found = [entry for entry in entries if words.lower() in entry.name.lower()]
        rows = [entry_row(entry, free, item_bytes, ascii_only=ascii_only) for entry in found]
        self._names = [entry.name for entry in found]
        if words and words not in self._names:
            self._names.append(words)
            safe = visible(words, "", ascii_only=ascii_only)
            rows.append(Content.assemble((safe, "bold"), "\n  as typed"))
        self.set_options([Option(row) for row in rows])
        self.highlighted = 0 if rows else None

    def action_ask(self, what: str) -> None:
        """Tell the dialog."""
        self.post_message(self.Wanted(what))

    @property
    def chosen(self) -> str | None:
        """The name of the highlighted model."""
        at = self.highlighted
        return self._names[at] if at is not None and at < len(self._names) else None


def held_text(info: ModelInfo | None, wanted: str | None) -> str:
    """What holds memory in a role, or what would be loaded."""
    if info is not None:
        bits = f", {info.quantized}" if info.quantized else ""
        return (
            f"{shown(info.weight_bytes)}  {info.name}  ({info.dtype}{bits} on {info.device}, {info.passes})"
        )
    return f"not loaded  {wanted}" if wanted else "none"


def load_text(load: LoadView, *, ascii_only: bool) -> str:
    """How far a load is: "target: read #####..... 40 % of 538 MB"."""
    stage = load.stage or "begin"
    if not load.total:
        return f"{load.role}: {stage} {load.name}"
    share = min(1.0, load.done / load.total)
    size = f"{load.total} tensors" if stage in ("convert", "quantize") else shown(load.total)
    return f"{load.role}: {stage} {bar(share, _BAR, glyph_set(ascii_only))} {share:.0%} of {size}"
