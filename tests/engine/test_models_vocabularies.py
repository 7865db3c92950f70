"""Which ids two models share, and the refusal of vocabularies that number their tokens differently."""

from __future__ import annotations

import copy

import pytest
from support.tiny import second_tokenizer, tiny_tokenizer
from tokenizers import AddedToken, Tokenizer, decoders, models
from transformers import PreTrainedTokenizerFast

from engine.errors import VocabularyMismatch
from engine.models.token_text import TokenText, compare_vocabularies


def _longer() -> PreTrainedTokenizerFast:
    tokenizer = copy.deepcopy(tiny_tokenizer())
    tokenizer.add_tokens([AddedToken("<extra>", special=True)])
    return tokenizer


class TestVocabularies:
    def test_same(self) -> None:
        assert compare_vocabularies(TokenText(tiny_tokenizer()), TokenText(tiny_tokenizer())) == 384

    def test_one_is_longer(self) -> None:
        longer = TokenText(_longer())
        shorter = TokenText(tiny_tokenizer())
        assert compare_vocabularies(longer, shorter) == compare_vocabularies(shorter, longer) == 384

    def test_first_difference_is_named_with_both_texts(self) -> None:
        target, drafter = TokenText(tiny_tokenizer()), TokenText(second_tokenizer())
        first = next(id_ for id_ in range(352) if target.piece(id_) != drafter.piece(id_))
        with pytest.raises(VocabularyMismatch) as raised:
            compare_vocabularies(target, drafter)
        message = raised.value.message
        assert f"token id {first} " in message
        assert ascii(target.piece(first).decode()) in message
        assert ascii(drafter.piece(first).decode()) in message
        assert message.isascii()

    def test_control_token_against_plain_text(self) -> None:
        bare = Tokenizer(models.BPE(tiny_tokenizer().get_vocab(), []))
        bare.decoder = decoders.ByteLevel()
        bare.add_special_tokens(["<|endoftext|>", "<|im_end|>"])
        other = TokenText(PreTrainedTokenizerFast(tokenizer_object=bare))
        with pytest.raises(
            VocabularyMismatch, match=r"token id 1 .*added token '<\|im_start\|>' in the target"
        ):
            compare_vocabularies(TokenText(tiny_tokenizer()), other)

    def test_same_bytes_spelled_otherwise(self) -> None:
        """Byte-level and SentencePiece spellings of one token are the same text."""
        byte_level = Tokenizer(models.BPE({"a": 0, "\u0120the": 1}, []))
        byte_level.decoder = decoders.ByteLevel()
        metaspace = Tokenizer(models.BPE({"a": 0, "\u2581the": 1}, []))
        metaspace.decoder = decoders.Metaspace()
        one, other = (TokenText(PreTrainedTokenizerFast(tokenizer_object=t)) for t in (byte_level, metaspace))
        assert compare_vocabularies(one, other) == 2

    def test_holes_are_no_difference(self) -> None:
        vocabularies = ({"a": 0, "b": 1, "d": 3}, {"a": 0, "c": 2, "d": 3})
        backends = [Tokenizer(models.WordLevel(vocabulary, unk_token="a")) for vocabulary in vocabularies]
        for backend in backends:
            backend.decoder = decoders.ByteLevel()
        one, other = (TokenText(PreTrainedTokenizerFast(tokenizer_object=backend)) for backend in backends)
        assert compare_vocabularies(one, other) == 4
