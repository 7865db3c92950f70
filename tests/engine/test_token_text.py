"""Token ids <-> text, against the tokenizers themselves."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.tiny import metaspace_tokenizer, second_tokenizer, tiny_tokenizer
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from engine.errors import ContextError, ModelUnsupported, VocabularyMismatch
from engine.models.decoding import decode_all
from engine.models.token_text import TokenText, compare_vocabularies


@dataclass(frozen=True)
class Said:
    role: str
    content: str


def _decoded(tokenizer: Any, ids: list[int]) -> str:
    text: str = tokenizer.decode(ids, skip_special_tokens=True, clean_up_tokenization_spaces=False)
    return text


def _with_added(*tokens: AddedToken) -> PreTrainedTokenizerFast:
    tokenizer = copy.deepcopy(tiny_tokenizer())
    tokenizer.add_tokens(list(tokens))
    return tokenizer


def _wordpiece() -> PreTrainedTokenizerFast:
    words = ["[UNK]", "[SEP]", "the", "knight", "##s", "rode", "out", ".", "##d"]
    backend = Tokenizer(models.WordPiece({word: id_ for id_, word in enumerate(words)}, unk_token="[UNK]"))
    backend.pre_tokenizer = pre_tokenizers.Whitespace()
    backend.decoder = decoders.WordPiece(prefix="##")
    return PreTrainedTokenizerFast(tokenizer_object=backend, unk_token="[UNK]", sep_token="[SEP]")


class TestPieces:
    def test_pieces_of_a_text_are_its_bytes(self) -> None:
        tokenizer, text = tiny_tokenizer(), "Caf\u00e9 \u65e5\u672c \U0001f600 knight\n"
        token_text = TokenText(tokenizer)
        pieces = [token_text.piece(id_) for id_ in tokenizer.encode(text)]
        assert b"".join(pieces) == text.encode()
        assert any(piece and not _is_utf8(piece) for piece in pieces), "no character was split"

    def test_special_tokens_are_named(self) -> None:
        token_text = TokenText(tiny_tokenizer())
        assert [token_text.piece(id_) for id_ in range(3)] == [
            b"<|endoftext|>",
            b"<|im_start|>",
            b"<|im_end|>",
        ]
        assert token_text.special_ids == {0, 1, 2}

    def test_added_tokens_are_text_unless_special(self) -> None:
        tokenizer = _with_added(AddedToken("<think>", special=False), AddedToken("<tool>", special=True))
        token_text = TokenText(tokenizer)
        think, tool = len(tokenizer) - 2, len(tokenizer) - 1
        assert token_text.piece(think) == b"<think>"
        assert token_text.piece(tool) == b"<tool>"
        assert decode_all(token_text.new_decoder(), [think, tool]) == "<think>"

    def test_added_token_with_letters_outside_the_byte_alphabet(self) -> None:
        tokenizer = _with_added(AddedToken("<\uff5cend\uff5c>", special=False))
        token_text = TokenText(tokenizer)
        assert token_text.piece(len(tokenizer) - 1) == "<\uff5cend\uff5c>".encode()

    def test_metaspace_pieces(self) -> None:
        tokenizer = metaspace_tokenizer()
        token_text = TokenText(tokenizer)
        ids = tokenizer.encode("The knight \uc5b4")
        assert b"".join(token_text.piece(id_) for id_ in ids) == " The knight \uc5b4".encode()
        assert token_text.piece(tokenizer.convert_tokens_to_ids("<0xEA>")) == b"\xea"
        assert token_text.piece(tokenizer.convert_tokens_to_ids("\u2581knight")) == b" knight"
        assert token_text.piece(1) == b"<s>"

    def test_other_tokenizers_give_the_text_of_one_token(self) -> None:
        token_text = TokenText(_wordpiece())
        assert token_text.piece(3) == b"knight"

    def test_id_without_a_token(self) -> None:
        token_text = TokenText(tiny_tokenizer())
        assert token_text.vocab_size == 384
        assert token_text.piece(384) == b""
        assert decode_all(token_text.new_decoder(), [100_000]) == ""


def _is_utf8(piece: bytes) -> bool:
    try:
        piece.decode()
    except UnicodeDecodeError:
        return False
    return True


class TestDecoder:
    @given(st.lists(st.integers(0, 383), max_size=24))
    @settings(max_examples=300, deadline=None)
    def test_byte_level_equals_the_tokenizer(self, ids: list[int]) -> None:
        tokenizer = tiny_tokenizer()
        assert decode_all(TokenText(tokenizer).new_decoder(), ids) == _decoded(tokenizer, ids)

    @given(st.text(max_size=40))
    @settings(max_examples=100, deadline=None)
    def test_round_trip(self, text: str) -> None:
        token_text = TokenText(second_tokenizer())
        ids = second_tokenizer().encode(text, add_special_tokens=False)
        assert decode_all(token_text.new_decoder(), ids) == _decoded(second_tokenizer(), ids)

    @given(st.text(st.sampled_from("the knight rode out \u00e9\uc5b4\U0001f600ABC"), min_size=1, max_size=30))
    @settings(max_examples=100, deadline=None)
    def test_metaspace_continues_the_prompt(self, text: str) -> None:
        tokenizer = metaspace_tokenizer()
        prompt = tokenizer.encode("the castle", add_special_tokens=False)
        ids = tokenizer.encode(text, add_special_tokens=False)
        answer = decode_all(TokenText(tokenizer).new_decoder(), ids)
        assert _decoded(tokenizer, prompt) + answer == _decoded(tokenizer, prompt + ids)

    @given(st.lists(st.integers(0, 8), max_size=12))
    @settings(max_examples=100, deadline=None)
    def test_wordpiece_equals_the_tokenizer(self, ids: list[int]) -> None:
        tokenizer = _wordpiece()
        assert decode_all(TokenText(tokenizer).new_decoder(), ids) == _decoded(tokenizer, ids)

    def test_a_split_character_waits_for_its_last_byte(self) -> None:
        tokenizer = tiny_tokenizer()
        decoder = TokenText(tokenizer).new_decoder()
        ids = tokenizer.encode("\U0001f47d")
        assert len(ids) > 1
        assert [decoder.feed(id_) for id_ in ids] == [""] * (len(ids) - 1) + ["\U0001f47d"]
        assert decoder.flush() == ""

    def test_an_unfinished_character_is_not_lost(self) -> None:
        tokenizer = tiny_tokenizer()
        decoder = TokenText(tokenizer).new_decoder()
        ids = tokenizer.encode("ok\U0001f47d")[:-1]
        assert decode_all(decoder, ids) == "ok\ufffd"

    def test_where_tokens_begin(self) -> None:
        tokenizer = tiny_tokenizer()
        decoder = TokenText(tokenizer).new_decoder()
        ids = [*tokenizer.encode("ab\U0001f47dc"), 2, *tokenizer.encode("d")]
        begins = []
        for id_ in ids:
            decoder.feed(id_)
            begins.append(decoder.begins)
        split = len(ids) - 5
        assert begins == [0, 1, *[2] * split, 3, 4, 4]

    def test_a_token_after_broken_bytes_begins_behind_their_mark(self) -> None:
        tokenizer = tiny_tokenizer()
        token_text = TokenText(tokenizer)
        first_byte = tokenizer.encode("\U0001f47d")[0]
        letter = tokenizer.encode("x")[0]
        decoder = token_text.new_decoder()
        assert (decoder.feed(first_byte), decoder.begins) == ("", 0)
        assert (decoder.feed(letter), decoder.begins) == ("\ufffdx", 1)

    def test_a_real_replacement_character_is_one_character(self) -> None:
        tokenizer = tiny_tokenizer()
        decoder = TokenText(tokenizer).new_decoder()
        for id_ in tokenizer.encode("\ufffd"):
            decoder.feed(id_)
            assert decoder.begins == 0


class TestEncoding:
    def test_chat(self) -> None:
        token_text = TokenText(tiny_tokenizer())
        ids = token_text.encode_chat([Said("user", "Why?")])
        assert tiny_tokenizer().decode(ids) == "<|im_start|>user\nWhy?<|im_end|>\n<|im_start|>assistant\n"
        assert ids[0] == 1

    def test_assistant_at_the_end_is_continued(self) -> None:
        token_text = TokenText(tiny_tokenizer())
        ids = token_text.encode_chat([Said("user", "Why?"), Said("assistant", "Because")])
        assert tiny_tokenizer().decode(ids).endswith("<|im_start|>assistant\nBecause")

    @pytest.mark.parametrize(("thinking", "opened"), [(None, False), (True, False), (False, True)])
    def test_thinking(self, thinking: bool | None, opened: bool) -> None:
        token_text = TokenText(tiny_tokenizer())
        text = tiny_tokenizer().decode(token_text.encode_chat([Said("user", "Why?")], thinking))
        assert text.endswith("<think>\n\n</think>\n\n") is opened
        assert token_text.knows_thinking

    def test_template_refusal_keeps_the_template_words(self) -> None:
        with pytest.raises(ContextError, match="no tools here"):
            TokenText(tiny_tokenizer()).encode_chat([Said("tool", "42")])

    def test_no_template(self) -> None:
        with pytest.raises(ModelUnsupported, match="no chat template") as raised:
            TokenText(metaspace_tokenizer()).encode_chat([Said("user", "Why?")])
        assert raised.value.hint is not None
        assert 'run.template = "raw"' in raised.value.hint

    def test_no_messages(self) -> None:
        with pytest.raises(ContextError):
            TokenText(tiny_tokenizer()).encode_chat([])

    def test_raw_joins_the_contents(self) -> None:
        token_text = TokenText(tiny_tokenizer())
        ids = token_text.encode_raw([Said("user", "one"), Said("user", "two")])
        assert ids == tiny_tokenizer().encode("one\ntwo")

    def test_raw_without_any_text(self) -> None:
        with pytest.raises(ContextError, match="no text"):
            TokenText(tiny_tokenizer()).encode_raw([Said("user", "")])

    @pytest.mark.parametrize("wrap", [dict, list, lambda ids: [list(ids)]])
    def test_any_wrapping_of_ids(self, wrap: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        tokenizer = copy.deepcopy(tiny_tokenizer())
        given = {"input_ids": [5, 6]} if wrap is dict else wrap([5, 6])
        monkeypatch.setattr(tokenizer, "apply_chat_template", lambda *args, **options: given)
        assert TokenText(tokenizer).encode_chat([Said("user", "x")]) == [5, 6]


class TestVocabularies:
    def test_same(self) -> None:
        assert compare_vocabularies(TokenText(tiny_tokenizer()), TokenText(tiny_tokenizer())) == 384

    def test_one_is_longer(self) -> None:
        longer = TokenText(_with_added(AddedToken("<extra>", special=True)))
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
        one, other = (
            TokenText(PreTrainedTokenizerFast(tokenizer_object=Tokenizer(models.WordLevel(v, unk_token="a"))))
            for v in vocabularies
        )
        assert compare_vocabularies(one, other) == 4
