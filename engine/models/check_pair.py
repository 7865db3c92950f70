"""Whether a drafter can draft for a target, told from their tokenizers; no weights are read."""

from __future__ import annotations

from engine.errors import VocabularyMismatch
from engine.models.cache import IsCancelled, never
from engine.models.load import describe


def why_not_a_pair(target: str, drafter: str, cancelled: IsCancelled = never) -> str | None:
    """Why the vocabularies do not fit each other; None if they do.

    Raises ModelError, ResourceError for a model that cannot be read.
    """
    from engine.models.local import load_tokenizer
    from engine.models.token_text import TokenText, compare_vocabularies

    texts = [
        TokenText(load_tokenizer(describe(name, cancelled=cancelled).folder.path))
        for name in (target, drafter)
    ]
    try:
        compare_vocabularies(*texts)
    except VocabularyMismatch as error:
        return error.message
    return None
