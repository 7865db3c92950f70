"""The exception tree: what a caller may rely on."""

from __future__ import annotations

import pickle
import re

import pytest

from engine import errors
from engine.errors import SpeculateError


def _all(kind: type[SpeculateError] = SpeculateError) -> list[type[SpeculateError]]:
    return [kind, *(each for child in kind.__subclasses__() for each in _all(child))]


@pytest.mark.parametrize("kind", _all())
def test_carries_message_and_hint(kind: type[SpeculateError]) -> None:
    error = kind("it broke: {x}", "mend it")
    assert str(error) == error.message == "it broke: {x}"
    assert error.hint == "mend it"
    assert kind("it broke").hint is None


@pytest.mark.parametrize("kind", _all())
def test_survives_a_pickle(kind: type[SpeculateError]) -> None:
    copy = pickle.loads(pickle.dumps(kind("it broke", "mend it")))
    assert type(copy) is kind
    assert (copy.message, copy.hint) == ("it broke", "mend it")


@pytest.mark.parametrize(
    ("kind", "code"),
    [
        (errors.SpeculateError, 1),
        (errors.EngineError, 1),
        (errors.NumericalError, 1),
        (errors.InvariantError, 1),
        (errors.UserError, 2),
        (errors.ConfigError, 2),
        (errors.ContextError, 2),
        (errors.PromptTooLong, 2),
        (errors.RecordingError, 2),
        (errors.ModelError, 2),
        (errors.ModelNotFound, 2),
        (errors.ModelUnsupported, 2),
        (errors.VocabularyMismatch, 2),
        (errors.ResourceError, 3),
        (errors.DoesNotFit, 3),
        (errors.OutOfMemory, 3),
        (errors.DownloadError, 3),
        (errors.DiskError, 3),
        (errors.Cancelled, 130),
    ],
)
def test_exit_code(kind: type[SpeculateError], code: int) -> None:
    assert kind.exit_code == code


def test_drawing_shows_the_tree() -> None:
    """Each class stands in the docstring, one level deeper than its parent."""
    drawn = {}
    for line in (errors.__doc__ or "").splitlines():
        found = re.match(r"    ([|` -]*)(\w+)(?: {2,}|$)", line)
        if found:
            drawn[found[2]] = len(found[1]) // 4
    kinds = {kind.__name__: len(kind.__mro__) - len(SpeculateError.__mro__) for kind in _all()}
    assert drawn == kinds
