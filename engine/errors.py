"""Everything that can go wrong, in one tree.

::

    SpeculateError              exit 1
    |-- UserError               exit 2    the user's mistake
    |   |-- ConfigError                   configuration file, preset, --set or option
    |   |-- ContextError                  the chat messages
    |   |-- PromptTooLong                 the prompt leaves no room in the model's context
    |   |-- RecordingError                a recording cannot be read, or not be written where asked
    |   `-- ModelError
    |       |-- ModelNotFound             no such model, file or permission (gated)
    |       |-- ModelUnsupported          recurrent, pickled weights, remote code, no chat template
    |       `-- VocabularyMismatch        drafter and target number their tokens differently
    |-- ResourceError           exit 3    the machine or the network cannot
    |   |-- DoesNotFit                    the memory estimate, before anything is loaded
    |   |-- OutOfMemory                   memory ran out on the way
    |   |-- DownloadError                 offline, interrupted, refused by the server
    |   `-- DiskError                     no space, read-only, unreadable cache
    |-- EngineError             exit 1    the engine cannot go on
    |   |-- NumericalError                NaN or infinite logits
    |   `-- InvariantError                our own mistake
    `-- Cancelled               exit 130  the user said stop

A message is one line that names the offending value. The hint, where there is one, is one sentence that says
what to do. 141 (closed pipe) is the command line's own.
"""

from __future__ import annotations

from typing import ClassVar


class SpeculateError(Exception):
    """Root of the tree: ``message`` is one line, ``hint`` says what to do about it."""

    exit_code: ClassVar[int] = 1

    def __init__(self, message: str, hint: str | None = None) -> None:
        super().__init__(message, hint)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return self.message


class UserError(SpeculateError):
    """The user's mistake."""

    exit_code = 2


class ConfigError(UserError):
    """A configuration file, preset name, override or option that cannot be used."""


class ContextError(UserError):
    """Chat messages that cannot be used."""


class PromptTooLong(UserError):
    """The prompt leaves no room for an answer in the model's context."""


class RecordingError(UserError):
    """A recording that cannot be read, or a path that cannot take one."""


class ModelError(UserError):
    """A model that was asked for and cannot be used."""


class ModelNotFound(ModelError):
    """No such model, or no permission to have it."""


class ModelUnsupported(ModelError):
    """The model exists, but this program cannot or will not run it."""


class VocabularyMismatch(ModelError):
    """Drafter and target do not number their tokens alike."""


class ResourceError(SpeculateError):
    """The machine or the network cannot do what was asked."""

    exit_code = 3


class DoesNotFit(ResourceError):
    """The models need more memory than is free, by the estimate made before loading."""


class OutOfMemory(ResourceError):
    """Memory ran out while the engine worked."""


class DownloadError(ResourceError):
    """A download failed."""


class DiskError(ResourceError):
    """A file could not be written or read for want of space, permission or a sound disk."""


class EngineError(SpeculateError):
    """The engine cannot go on."""

    exit_code = 1


class NumericalError(EngineError):
    """NaN or infinite logits; the message names the dtype."""


class InvariantError(EngineError):
    """Something that can only be a mistake in this program."""


class Cancelled(SpeculateError):
    """The user stopped it."""

    exit_code = 130
