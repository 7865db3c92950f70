"""What came of a race, or what is to be known of it meanwhile."""

from __future__ import annotations

from textual.content import Content
from textual.widgets import Static

from tui.race_state import RaceState
from tui.race_words import agreement, finishing, verdict
from tui.safe_text import visible

_STYLES = {1: "bold $mark-accepted", 0: "bold", -1: "bold $mark-rejected"}
_MEANWHILE = (
    "Each way runs alone, warm, from empty caches, with the same law, seed and limits. The clocks count the"
    " engine's own time; drawing takes the same small share of both."
)


class RaceResult(Static):
    """Who was faster, when each had finished, whether the texts agree; as high as that needs.

    Args:
        dtype: number format of the target.
    """

    DEFAULT_CSS = """
    RaceResult { height: auto; padding: 0 1; }
    """

    def __init__(self, dtype: str) -> None:
        super().__init__(Content.styled(_MEANWHILE, "dim"), markup=False)
        self._dtype = dtype
        self._known: tuple[object, ...] = (None, ())

    def show(self, state: RaceState) -> None:
        """Show a state; it seldom has something new, as an update lays out the whole screen."""
        known = (state.result, state.notices)
        if known == self._known:
            return
        self._known = known
        ascii_only = bool(getattr(self.app, "ascii", False))
        notices = [(visible(text, "", ascii_only=ascii_only), "bold") for text in state.notices]
        if state.result is None:
            lines = [*notices, (_MEANWHILE, "dim")]
        else:
            gain, sentence = verdict(state)
            agrees = agreement(state, self._dtype, ascii_only=ascii_only)
            lines = [(sentence, _STYLES[gain]), (finishing(state), ""), (agrees, ""), *notices]
        self.update(Content("\n").join(Content.styled(*line) for line in lines))
