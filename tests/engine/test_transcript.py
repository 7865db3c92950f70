"""A text followed in another vocabulary: whatever happens to it, the own ids spell it."""

from __future__ import annotations

import codecs
import copy
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from support.tiny import (
    metaspace_tokenizer,
    second_tokenizer,
    tiny_tokenizer,
    word_end_tokenizer,
    wordpiece_tokenizer,
)
from tokenizers import processors

from engine.drafters.transcript import Transcript
from engine.models.token_text import TokenText

TINY, SECOND = TokenText(tiny_tokenizer()), TokenText(second_tokenizer())
METASPACE, WORDPIECE = TokenText(metaspace_tokenizer()), TokenText(wordpiece_tokenizer())
WORD_END = TokenText(word_end_tokenizer())
SENTENCE = (
    "The knight rode out, caf\u00e9 \u65e5\u672c\u8a9e \U0001f600; the whales sing slowly every evening."
)


def spelled(text: TokenText, ids: list[int]) -> bytes:
    return b"".join(text.piece(id_) for id_ in ids)


def plain(text: TokenText, ids: list[int]) -> bytes:
    """What ids say, control tokens left out."""
    return spelled(text, [id_ for id_ in ids if id_ not in text.special_ids])


def whole(data: bytes) -> bytes:
    """Without a character that has only begun."""
    return data.decode("utf-8", "ignore").encode()


def test_token_by_token_it_is_the_whole_text_at_once() -> None:
    tokens = TINY.encode_more(SENTENCE * 3)
    grown = Transcript(TINY, SECOND)
    for end in range(1, len(tokens) + 1):
        grown.sync(tokens[:end])
        assert spelled(SECOND, grown.ids) == whole(spelled(TINY, tokens[:end]))
    assert grown.ids == SECOND.encode_more(SENTENCE * 3)


def test_a_text_without_spaces_is_taken_up_between_characters() -> None:
    """Three own tokens make a character here, so a fixed number of them may end within one."""
    text = "\u65e5\u672c\u8a9e" * 12
    assert len(SECOND.encode_more(text)) == 3 * len(text)
    tokens, grown = TINY.encode_more(text), Transcript(TINY, SECOND)
    for end in range(1, len(tokens) + 1):
        grown.sync(tokens[:end])
        assert spelled(SECOND, grown.ids) == whole(spelled(TINY, tokens[:end]))


@pytest.mark.parametrize(
    ("source", "own"),
    [(TINY, SECOND), (SECOND, TINY), (METASPACE, TINY), (TINY, METASPACE), (TINY, TINY)],
    ids=["byte-level", "other way", "from metaspace", "to metaspace", "the same"],
)
def test_both_say_the_same(source: TokenText, own: TokenText) -> None:
    tokens, followed = source.encode_more(SENTENCE), Transcript(source, own)
    for end in range(1, len(tokens) + 1):
        followed.sync(tokens[:end])
        assert plain(own, followed.ids) == whole(spelled(source, tokens[:end]))


@given(
    st.lists(st.tuples(st.integers(0, 30), st.lists(st.integers(0, 383), max_size=8)), min_size=1, max_size=6)
)
@example([(0, [250]), (1, [251, 252, 250, 250])])
def test_whatever_happened_before(changes: list[tuple[int, list[int]]]) -> None:
    """Any ids, also those that make no UTF-8: an own text for each state, and the same after a way back."""
    followed, tokens = Transcript(TINY, SECOND), list[int]()
    for keep, more in changes:
        tokens = tokens[:keep] + more
        followed.sync(tokens)
        text = whole_of(tokens)
        said = spelled(SECOND, followed.ids).decode("utf-8", "replace")
        assert said == text.decode("utf-8", "replace")
        assert all(a <= b for a, b in pairwise(followed._ends))
    ids = list(followed.ids)
    followed.sync([*tokens, 40, 41, 220, 42])
    followed.sync(tokens)
    again = Transcript(TINY, SECOND)
    again.sync(tokens)
    assert spelled(SECOND, followed.ids) == spelled(SECOND, ids) == spelled(SECOND, again.ids)


def whole_of(tokens: list[int]) -> bytes:
    """The text of tiny ids up to a character that has only begun."""
    data = b"".join(
        TINY.piece(id_)
        for id_ in tokens
        if id_ not in TINY.special_ids or TINY.piece(id_) in {SECOND.piece(i) for i in SECOND.special_ids}
    )
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    decoder.decode(data)
    return data[: len(data) - len(decoder.getstate()[0])]


class Counting(TokenText):
    """Counts what it is given to tokenise."""

    def __init__(self, tokenizer: Any) -> None:
        super().__init__(tokenizer)
        self.characters = 0

    def encode_more(self, text: str) -> list[int]:
        self.characters += len(text)
        return super().encode_more(text)


def test_a_round_tokenises_a_few_words_only() -> None:
    own = Counting(second_tokenizer())
    followed, tokens = Transcript(TINY, own), TINY.encode_more(SENTENCE * 20)
    followed.sync(tokens[:-40])
    for end in range(len(tokens) - 40, len(tokens)):
        own.characters = 0
        followed.sync(tokens[:end])
        assert own.characters < 80
    own.characters = 0
    followed.sync(tokens[:-1])
    assert own.characters == 0, "nothing has changed"


def test_a_long_word_is_no_reason_to_go_back_to_its_beginning() -> None:
    own = Counting(second_tokenizer())
    followed, tokens = Transcript(TINY, own), TINY.encode_more("Q" * 400)
    followed.sync(tokens[:-1])
    own.characters = 0
    followed.sync(tokens)
    assert own.characters < 40
    assert spelled(SECOND, followed.ids) == b"Q" * 400


def test_a_word_is_not_left_in_two_halves() -> None:
    begun, rest = " every eve", "ning"
    halves = [*SECOND.encode_more(begun), *SECOND.encode_more(rest)]
    assert halves != SECOND.encode_more(begun + rest)
    tokens, followed = TINY.encode_more(begun), Transcript(TINY, SECOND)
    followed.sync(tokens)
    followed.sync([*tokens, *TINY.encode_more(rest)])
    assert followed.ids == SECOND.encode_more(begun + rest)


def test_an_edit_keeps_what_is_before_it() -> None:
    followed = Transcript(TINY, SECOND)
    followed.sync(TINY.encode_more("The knight rode out of the castle. And so on."))
    before = list(followed.ids)
    followed.sync(TINY.encode_more("The knight rode out of the forest"))
    assert spelled(SECOND, followed.ids) == b"The knight rode out of the forest"
    same = len(SECOND.encode_more("The knight rode out of the"))
    assert followed.ids[:same] == before[:same]
    followed.sync([])
    assert followed.ids == []


def opening_metaspace() -> TokenText:
    """A tokenizer that puts its BOS before a text, as Llama's and Gemma's do."""
    tokenizer = copy.deepcopy(metaspace_tokenizer())
    tokenizer.backend_tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A", special_tokens=[("<s>", 1)]
    )
    return TokenText(tokenizer)


def test_control_tokens_by_their_name_or_not_at_all() -> None:
    """Both byte-level ones know the same three; the one with U+2581 has others, and opens with its own."""
    tokens = [1, *TINY.encode_more("the castle"), 2, *TINY.encode_more(" in")]
    followed = Transcript(TINY, SECOND)
    followed.sync(tokens)
    assert followed.ids == [1, *SECOND.encode_more("the castle"), 2, *SECOND.encode_more(" in")]
    own = opening_metaspace()
    followed = Transcript(TINY, own)
    followed.sync(tokens)
    assert own.opening == (1,)
    assert followed.ids[0] == 1
    assert spelled(own, followed.ids[1:]) == b"the castle in"


def test_the_opening_stays_and_is_not_put_twice() -> None:
    own = opening_metaspace()
    followed = Transcript(own, own)
    followed.sync([1, *own.encode_more(" the castle")])
    assert followed.ids == [1, *own.encode_more(" the castle")]
    for tokens in ([], own.encode_more(" the"), own.encode_more(" knight"), [1]):
        followed.sync(tokens)
        assert followed.ids == [1, *(id_ for id_ in tokens if id_ != 1)]
    assert (METASPACE.opening, TINY.opening, WORDPIECE.opening) == ((), (), ())


@pytest.mark.parametrize("own", [WORDPIECE, WORD_END], ids=["wordpiece", "word end"])
def test_tokenizers_that_do_not_keep_every_space(own: TokenText) -> None:
    """Their own ids do not spell the text, so words are what can be taken up again."""
    tokens = TINY.encode_more("hello world rode out hello world hello")
    followed = Transcript(TINY, own)
    for end in range(1, len(tokens) + 1):
        followed.sync(tokens[:end])
    assert followed.ids == own.encode_more("hello world rode out hello world hello")
    kept = len(TINY.encode_more("hello world rode"))
    followed.sync(tokens[:kept])
    assert followed.ids == own.encode_more("hello world rode")


class TestContinued:
    def test_ids_of_what_goes_on(self) -> None:
        followed = Transcript(TINY, SECOND)
        followed.sync(TINY.encode_more("The knight"))
        assert followed.continued(b" rode out") == TINY.encode_more(" rode out")

    def test_whole_characters_only(self) -> None:
        followed = Transcript(TINY, SECOND)
        followed.sync(TINY.encode_more("The"))
        assert followed.continued(b" caf\xc3\xa9\xe6\x97") == TINY.encode_more(" caf\u00e9")
        assert followed.continued(b"\xe6\x97") == []
        assert followed.continued(b"") == []

    @pytest.mark.parametrize("cut", [1, 2])
    def test_within_a_character(self, cut: int) -> None:
        """The rest of it is proposed, if the draft begins with the same character."""
        tokens = TINY.encode_more("so \U0001f680 on")
        start = len(TINY.encode_more("so"))
        assert [TINY.piece(id_) for id_ in tokens[start : start + 3]] == [b" \xf0\x9f", b"\x9a", b"\x80"]
        followed = Transcript(TINY, SECOND)
        followed.sync(tokens[: start + cut])
        assert spelled(SECOND, followed.ids) == b"so "
        assert followed.continued("\U0001f680 on".encode()) == tokens[start + cut :]
        assert followed.continued("\u65e5".encode()) == []
        assert followed.continued(b"") == []
