"""Token ids <-> text, against the tokenizers themselves."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.tiny import (
    metaspace_tokenizer,
    second_tokenizer,
    tiny_tokenizer,
    word_end_tokenizer,
    wordpiece_tokenizer,
)
from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, processors
from transformers import PreTrainedTokenizerFast

from engine.errors import ContextError, ModelUnsupported
from engine.models.token_text import TokenText


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


def _joined(token_text: TokenText, ids: list[int]) -> str:
    """The text of an answer, made as the engine makes it."""
    pieces = [token_text.piece(id_) for id_ in ids if id_ not in token_text.special_ids]
    return b"".join(pieces).decode("utf-8", "replace")


def _with_decoder(decoder: Any) -> PreTrainedTokenizerFast:
    backend = Tokenizer(models.BPE({"a": 0, "b": 1}, []))
    if decoder is not None:
        backend.decoder = decoder
    return PreTrainedTokenizerFast(tokenizer_object=backend)


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
        assert _joined(token_text, [think, tool]) == _decoded(tokenizer, [think, tool]) == "<think>"

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

    def test_another_mark_than_the_usual_one(self) -> None:
        token_text = TokenText(_with_decoder(decoders.Metaspace(replacement="b")))
        assert [token_text.piece(0), token_text.piece(1)] == [b"a", b" "]

    def test_wordpiece_pieces(self) -> None:
        tokenizer = wordpiece_tokenizer()
        token_text = TokenText(tokenizer)
        ids = tokenizer.convert_tokens_to_ids(["hello", "world", "##ly", "."])
        assert [token_text.piece(id_) for id_ in ids] == [b" hello", b" world", b"ly", b"."]
        assert _decoded(tokenizer, ids) == "hello worldly."
        assert token_text.piece(1) == b"[SEP]"

    def test_wordpiece_without_cleanup_and_with_another_prefix(self) -> None:
        token_text = TokenText(_with_decoder(decoders.WordPiece(prefix="a", cleanup=False)))
        assert [token_text.piece(0), token_text.piece(1)] == [b"", b" b"]

    def test_word_end_pieces(self) -> None:
        tokenizer = word_end_tokenizer()
        token_text = TokenText(tokenizer)
        ids = tokenizer.convert_tokens_to_ids(["hel", "lo</w>", "caf\u00e9</w>", "wor", "ld</w>"])
        pieces = [token_text.piece(id_) for id_ in ids]
        assert pieces == [b"hel", b"lo ", "caf\u00e9 ".encode(), b"wor", b"ld "]
        assert _decoded(tokenizer, ids) == "hello caf\u00e9 world"

    def test_id_without_a_token(self) -> None:
        token_text = TokenText(tiny_tokenizer())
        assert token_text.vocab_size == 384
        assert token_text.piece(384) == b""
        assert token_text.piece(100_000) == token_text.piece(-1) == b""


def _gemma_like() -> PreTrainedTokenizerFast:
    """U+2581 for a space, none put in front of a text, and line ends that join."""
    tokens = ["<unk>", "<bos>", "\n", "\n\n", "a", "b", "\u2581", "\u2581a"]
    vocabulary = {token: id_ for id_, token in enumerate(tokens)}
    merges = [("\n", "\n"), ("\u2581", "a")]
    backend = Tokenizer(models.BPE(vocabulary, merges, unk_token="<unk>"))
    backend.normalizer = normalizers.Replace(" ", "\u2581")
    backend.decoder = decoders.Sequence([decoders.Replace("\u2581", " "), decoders.Fuse()])
    backend.add_special_tokens([AddedToken("<bos>", special=True)])
    backend.post_processor = processors.TemplateProcessing(single="<bos> $A", special_tokens=[("<bos>", 1)])
    return PreTrainedTokenizerFast(tokenizer_object=backend, bos_token="<bos>")


class TestGoingOn:
    @pytest.mark.parametrize("text", ["a", " a", "\na", "\n\nb", " a\n"])
    @pytest.mark.parametrize(
        "tokenizer", [tiny_tokenizer(), metaspace_tokenizer(), _gemma_like()], ids=["bytes", "llama", "gemma"]
    )
    def test_the_text_as_it_is(self, tokenizer: PreTrainedTokenizerFast, text: str) -> None:
        """No space and no line end that the text does not have, no control token."""
        token_text = TokenText(tokenizer)
        ids = token_text.encode_more(text)
        assert b"".join(map(token_text.piece, ids)) == text.encode()
        assert not token_text.special_ids & set(ids)

    def test_the_opening(self) -> None:
        assert TokenText(_gemma_like()).opening == (1,)
        for tokenizer in (tiny_tokenizer(), metaspace_tokenizer(), wordpiece_tokenizer()):
            assert TokenText(tokenizer).opening == ()


def _is_utf8(piece: bytes) -> bool:
    try:
        piece.decode()
    except UnicodeDecodeError:
        return False
    return True


class TestRefusals:
    @pytest.mark.parametrize(
        ("decoder", "named"),
        [
            (None, "no decoder"),
            (decoders.CTC(), "of type CTC,"),
            (decoders.Fuse(), "of type Fuse,"),
            (decoders.Replace("_", " "), "of type Replace,"),
            (decoders.Sequence([decoders.WordPiece(), decoders.Fuse()]), r"of type WordPiece \+ Fuse,"),
            (
                decoders.Sequence([decoders.Metaspace(), decoders.Strip(" ", 0, 1)]),
                r"of type Metaspace \+ Strip,",
            ),
        ],
    )
    def test_unknown_decoders(self, decoder: Any, named: str) -> None:
        with pytest.raises(ModelUnsupported, match=named) as raised:
            TokenText(_with_decoder(decoder))
        assert "\n" not in raised.value.message
        assert "WordPiece and end-of-word BPE" in str(raised.value.hint)

    def test_tokenizers_in_plain_python(self) -> None:
        with pytest.raises(ModelUnsupported, match="no decoder"):
            TokenText(object())

    def test_byte_level_among_the_steps_of_another(self) -> None:
        """As transformers builds it from a Llama-3 GGUF."""
        steps = [decoders.ByteFallback(), decoders.Fuse(), decoders.Replace("\u2581", " ")]
        backend = Tokenizer(models.BPE({"\u0120a": 0, "\u00c3": 1, "\u00a9": 2}, []))
        backend.decoder = decoders.Sequence([*steps, decoders.ByteLevel()])
        tokenizer = PreTrainedTokenizerFast(tokenizer_object=backend)
        assert _joined(TokenText(tokenizer), [0, 1, 2]) == _decoded(tokenizer, [0, 1, 2]) == " a\u00e9"


class TestJoined:
    """The bytes of the pieces, joined, against the tokenizer's own decoding."""

    @given(st.lists(st.integers(0, 383), max_size=24))
    @settings(max_examples=300, deadline=None)
    def test_byte_level_equals_the_tokenizer(self, ids: list[int]) -> None:
        assert _joined(TokenText(tiny_tokenizer()), ids) == _decoded(tiny_tokenizer(), ids)

    @given(st.text(max_size=40))
    @settings(max_examples=100, deadline=None)
    def test_round_trip(self, text: str) -> None:
        ids = second_tokenizer().encode(text, add_special_tokens=False)
        assert _joined(TokenText(second_tokenizer()), ids) == _decoded(second_tokenizer(), ids)

    @given(st.text(st.sampled_from("the knight rode out \u00e9\uc5b4\U0001f600ABC"), min_size=1, max_size=30))
    @settings(max_examples=100, deadline=None)
    def test_metaspace_continues_the_prompt(self, text: str) -> None:
        tokenizer = metaspace_tokenizer()
        prompt = tokenizer.encode("the castle", add_special_tokens=False)
        ids = tokenizer.encode(text, add_special_tokens=False)
        answer = _joined(TokenText(tokenizer), ids)
        assert _decoded(tokenizer, prompt) + answer == _decoded(tokenizer, prompt + ids)

    @given(st.lists(st.integers(0, 11), max_size=12))
    @settings(max_examples=200, deadline=None)
    def test_wordpiece_continues_the_prompt(self, ids: list[int]) -> None:
        tokenizer = wordpiece_tokenizer()
        prompt = tokenizer.encode("hello knight")
        answer = _joined(TokenText(tokenizer), ids)
        assert _decoded(tokenizer, prompt) + answer == _decoded(tokenizer, prompt + ids)

    @given(st.lists(st.integers(0, 9), max_size=12))
    @settings(max_examples=200, deadline=None)
    def test_word_end_keeps_the_last_space(self, ids: list[int]) -> None:
        tokenizer = word_end_tokenizer()
        assert _joined(TokenText(tokenizer), ids).removesuffix(" ") == _decoded(tokenizer, ids)

    @given(st.lists(st.integers(0, 9), max_size=12))
    @settings(max_examples=100, deadline=None)
    def test_word_end_continues_the_prompt(self, ids: list[int]) -> None:
        tokenizer = word_end_tokenizer()
        prompt = tokenizer.convert_tokens_to_ids(["hel", "lo</w>", "kn"])
        answer = _joined(TokenText(tokenizer), ids)
        assert _decoded(tokenizer, prompt) + answer.removesuffix(" ") == _decoded(tokenizer, prompt + ids)

    def test_an_unfinished_character_is_not_lost(self) -> None:
        tokenizer = tiny_tokenizer()
        ids = tokenizer.encode("ok\U0001f47d")[:-1]
        assert _joined(TokenText(tokenizer), ids) == _decoded(tokenizer, ids) == "ok\ufffd"


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
