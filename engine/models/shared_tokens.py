"""Tokens of two vocabularies that stand for the same text."""

from __future__ import annotations

from engine.models.token_text import TokenText


def shared_tokens(target: TokenText, drafter: TokenText) -> dict[int, int]:
    """The drafter's id for each id of the target's that it has a token of the same text for.

    Control tokens are shared under the same name; a control token and plain text are never the same.
    """
    ours, theirs = _ids_by_text(target), _ids_by_text(drafter)
    return {id_: theirs[key] for key, id_ in ours.items() if key in theirs}


def _ids_by_text(text: TokenText) -> dict[tuple[bytes, bool], int]:
    """An id for the bytes of each token, and whether it is a control token.

    Of several ids with the same bytes it is the one spelled shortest: "a" rather than "<0x61>", which a
    tokenizer uses only for bytes that it has no token for.
    """
    spelled = sorted((len(token), id_) for id_, token in enumerate(text.tokens) if token)
    found: dict[tuple[bytes, bool], int] = {}
    for _, id_ in spelled:
        found.setdefault((text.piece(id_), id_ in text.special_ids), id_)
    return found
