"""What the panes tell the app. A selection is the app's: it tells the other panes (``select``)."""

from __future__ import annotations

from textual.message import Message


class RoundSelected(Message):
    """A round was chosen; the newest one is followed again where ``index`` is None."""

    def __init__(self, index: int | None) -> None:
        super().__init__()
        self.index = index
        """Index into ``ViewState.rounds``."""


class TokenSelected(Message):
    """A token of the answer was chosen, to be looked into."""

    def __init__(self, index: int) -> None:
        super().__init__()
        self.index = index
        """Index into ``ViewState.output``."""


class DraftSelected(Message):
    """The inspector looks at another position of its round."""

    def __init__(self, index: int, slot: int) -> None:
        super().__init__()
        self.index = index
        """Index into ``ViewState.rounds``."""
        self.slot = slot
        """The draft; the number of drafts for the target's own token."""


class BranchRequested(Message):
    """The answer is to go on from another token than this one."""

    def __init__(self, index: int) -> None:
        super().__init__()
        self.index = index
        """Index into ``ViewState.output``: the tokens before it stay."""


class DraftsChosen(Message):
    """So many drafted tokens a round are wanted from now on."""

    def __init__(self, k: int) -> None:
        super().__init__()
        self.k = k
        """0: none, which is plain decoding."""
