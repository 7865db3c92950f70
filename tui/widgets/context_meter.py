"""How full the context is, in one line. Pure."""

from __future__ import annotations

from tui.glyphs import Glyphs, bar
from tui.state import ViewState
from tui.widgets.rows import Piece, fitting

_BAR = 10


def meter(state: ViewState, width: int, glyphs: Glyphs, *, locked: bool) -> tuple[Piece, ...]:
    """Used and limit, tokens that were re-used, and whether a run reads the messages.

    In narrow panes the bar goes first, then the lock, then what was re-used.
    """
    infos = [info for info in (state.target, state.drafter) if info is not None]
    if not infos:
        return (Piece("no model is loaded"),)
    limit = min(info.context_length for info in infos)
    if not state.run:
        return fitting(width, (Piece(f"room for {limit:,} tokens"),), (Piece(f"{limit:,} tokens"),))
    used = len(state.prompt) + len(state.output)
    short = Piece(f"{used:,}/{limit:,}")
    whole = Piece(f"{short.text} tokens {bar(used / limit, _BAR, glyphs)}")
    again = (Piece(f"  re-used {state.reused:,}"),) if state.reused else ()
    lock = (Piece("  an edit pauses the run", "lines--strong"),) if locked else ()
    return fitting(width, (whole, *again, *lock), (short, *again, *lock), (short, *again), (short,))
