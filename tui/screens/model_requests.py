"""What the model picker asks the app for; the app asks the engine's thread."""

from __future__ import annotations

from textual.message import Message


class CheckPair(Message):
    """Whether a drafter's vocabulary fits a target's; the answer is ``ModelPicker.show_pair``."""

    def __init__(self, target: str, drafter: str) -> None:
        super().__init__()
        self.target, self.drafter = target, drafter


class LoadModel(Message):
    """Load a model as "target" or "drafter".

    ``fits`` says whether the pair's vocabularies agree; None if they were not compared. With ``alone`` it is
    a target without its drafter: it is to draft by lookup.
    """

    def __init__(self, role: str, name: str, *, fits: bool | None = None, alone: bool = False) -> None:
        super().__init__()
        self.role, self.name, self.fits, self.alone = role, name, fits, alone


class EjectModel(Message):
    """Free the memory of the "target" or the "drafter"."""

    def __init__(self, role: str) -> None:
        super().__init__()
        self.role = role


class CancelLoad(Message):
    """Stop loading."""
