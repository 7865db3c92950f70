"""Token ids <-> text, the one place for it.

A token stands for BYTES, not for text: a character may be split over tokens. ``piece`` gives the bytes of
one token, whatever its neighbours, and the bytes of an answer are those of its tokens, joined.

An answer is a CONTINUATION of the prompt, so its text is what ``tokenizer.decode`` adds to that of the prompt
when the answer is appended. By kind of tokenizer:

- byte-level BPE: exactly ``tokenizer.decode(ids, skip_special_tokens=True)``.
- SentencePiece's (U+2581 for a space): ``decode`` drops the first space of whatever it is given; here it
  stays: "Once upon a" + U+2581 "time" reads "Once upon a time".
- WordPiece ("##ly" goes on with a word): a word has its space before it, the first one too.
- end-of-word BPE ("time</w>"): a word has its space behind it, the last one too, which ``decode`` drops.

Byte tokens that are no UTF-8 stay the bytes they are, however many U+FFFD ``decode`` makes of them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from enum import Enum, auto
from functools import cached_property
from typing import Any, Protocol

from engine.errors import ContextError, ModelUnsupported, VocabularyMismatch

_METASPACE = "\u2581"
_LEAD = "\n"
_BYTE_TOKEN_LENGTH = len("<0xEA>")
_READ_HINT = "byte-level, SentencePiece, WordPiece and end-of-word BPE tokenizers are read"
_RAW_HINT = 'set run.template = "raw" to give the model the bare text of the messages'


class ChatMessage(Protocol):
    """What is used of a message."""

    @property
    def role(self) -> str: ...

    @property
    def content(self) -> str: ...


class _Kind(Enum):
    BYTE_LEVEL = auto()
    """Every letter stands for a byte."""
    METASPACE = auto()
    """U+2581 stands for a space, and ``<0xEA>`` for a byte that no token has."""
    WORDPIECE = auto()
    """A token begins a word unless a prefix, "##", says that it goes on with one."""
    WORD_END = auto()
    """A suffix, "</w>", ends a word."""


_AROUND = {"ByteFallback", "Fuse", "Strip"}
_SPELLINGS = {
    "ByteLevel": (_Kind.BYTE_LEVEL, {*_AROUND, "Replace"}),
    "Metaspace": (_Kind.METASPACE, _AROUND),
    "Replace": (_Kind.METASPACE, _AROUND),
    "WordPiece": (_Kind.WORDPIECE, set[str]()),
    "BPEDecoder": (_Kind.WORD_END, set[str]()),
}
"""The step of a decoder that says how tokens are spelled, and the steps that may be around it."""


class TokenText:
    """The tokenizer of a model, as the engine uses it.

    Raises ModelUnsupported for a tokenizer whose tokens have no bytes of their own that this module knows.
    """

    def __init__(self, tokenizer: Any) -> None:
        self.tokenizer = tokenizer
        self._decoder: Any = getattr(getattr(tokenizer, "backend_tokenizer", None), "decoder", None)
        steps = _flatten(json.loads(self._decoder.__getstate__())) if self._decoder is not None else []
        spelling = _spelling(steps)
        self._kind = _SPELLINGS[spelling["type"]][0]
        self._mark: str = spelling.get("replacement", _METASPACE)
        """Stands for a space in METASPACE."""
        self._suffix: str = spelling.get("suffix", "")
        """Ends a word in WORD_END."""
        self._pieces: dict[int, bytes] = {}
        self._byte_fallback = any(step["type"] == "ByteFallback" for step in steps)

    @cached_property
    def tokens(self) -> list[str | None]:
        """The vocabulary's own spelling of every id; None for an id without a token."""
        by_token: Mapping[str, int] = self.tokenizer.get_vocab()
        spelled: list[str | None] = [None] * (max(by_token.values(), default=-1) + 1)
        for token, id_ in by_token.items():
            spelled[id_] = token
        return spelled

    @cached_property
    def added(self) -> dict[int, str]:
        """Content of the tokens that are matched as a whole, special or not, by id."""
        return {id_: token.content for id_, token in self.tokenizer.added_tokens_decoder.items()}

    @cached_property
    def special_ids(self) -> frozenset[int]:
        """Control tokens: they are never part of an answer's text."""
        marked = {id_ for id_, token in self.tokenizer.added_tokens_decoder.items() if token.special}
        return frozenset(marked | set(self.tokenizer.all_special_ids))

    @property
    def vocab_size(self) -> int:
        """Ids that have a token text: one more than the highest of them. Padding rows are not counted."""
        return len(self.tokens)

    @property
    def knows_thinking(self) -> bool:
        """Whether the chat template looks at ``enable_thinking`` at all."""
        return "enable_thinking" in str(self.tokenizer.chat_template)

    def piece(self, id_: int) -> bytes:
        """The exact bytes of a token; a special token's are its name, an id without a token has none."""
        piece = self._pieces.get(id_)
        if piece is None:  # a round asks for dozens, most of them again and again
            piece = self._pieces[id_] = self._spelled(id_)
        return piece

    def _spelled(self, id_: int) -> bytes:
        token = self.tokens[id_] if 0 <= id_ < len(self.tokens) else None
        if token is None:
            return b""
        if id_ in self.special_ids:
            return self.added.get(id_, token).encode("utf-8", "replace")
        if self._kind is _Kind.BYTE_LEVEL:
            return _byte_level_bytes(token)
        if self._kind is _Kind.METASPACE:
            if self._byte_fallback and (byte := _byte_token(token)) is not None:
                return byte
            return token.replace(self._mark, " ").encode("utf-8", "replace")
        if self._kind is _Kind.WORD_END:
            return token.replace(self._suffix, " ").encode("utf-8", "replace")
        # All but the first token are decoded each alone: prefix, space, and no space before a ".".
        text: str = self._decoder.decode(["", token])
        return text.encode("utf-8", "replace")

    def encode_chat(self, messages: Sequence[ChatMessage], thinking: bool | None = None) -> list[int]:
        """Prompt ids by the model's chat template.

        An assistant's message at the end is continued; otherwise the template opens a new one. ``thinking``
        is handed to the template only when it is not None. A control token spelled out in a message counts as
        that token, as everywhere in transformers.

        Raises ModelUnsupported without a template, ContextError with the template's own words.
        """
        if self.tokenizer.chat_template is None:
            raise ModelUnsupported("the model has no chat template", _RAW_HINT)
        from jinja2.exceptions import TemplateError

        continued = bool(messages) and messages[-1].role == "assistant"
        options = {} if thinking is None else {"enable_thinking": thinking}
        try:
            encoded = self.tokenizer.apply_chat_template(
                [{"role": message.role, "content": message.content} for message in messages],
                add_generation_prompt=not continued,
                continue_final_message=continued,
                tokenize=True,
                return_dict=False,
                **options,
            )
        except (TemplateError, ValueError, TypeError) as error:
            words = " ".join(str(error).split())
            raise ContextError(
                f"the model's chat template refuses the messages: {words}", _RAW_HINT
            ) from error
        return _checked(encoded)

    def encode_raw(self, messages: Sequence[ChatMessage]) -> list[int]:
        """Prompt ids of the contents, joined by line ends; a BOS only where the tokenizer itself puts one."""
        return _checked(self.tokenizer("\n".join(message.content for message in messages)))

    def encode_more(self, text: str) -> list[int]:
        """Ids of a text that goes on from what stands before it: no special tokens, no space put in front."""
        before = self._lead_ids
        lead = _LEAD if before else ""
        ids: list[int] = self.tokenizer(lead + text, add_special_tokens=False)["input_ids"]
        return ids[len(before) :] if ids[: len(before)] == before else ids

    @cached_property
    def opening(self) -> tuple[int, ...]:
        """The control tokens that the tokenizer itself puts before a text: a BOS, if it has one."""
        bare: list[int] = self.tokenizer("a", add_special_tokens=False)["input_ids"]
        ids: list[int] = self.tokenizer("a")["input_ids"]
        before = (at for at in range(len(ids)) if ids[at : at + len(bare)] == bare)
        return tuple(ids[: next(before, 0)])

    @cached_property
    def _lead_ids(self) -> list[int]:
        """What stands in for the text before, where the tokenizer puts a space in front of a text's start."""

        def ids(text: str) -> list[int]:
            return list(self.tokenizer(text, add_special_tokens=False)["input_ids"])

        puts_space = b"".join(map(self.piece, ids("a"))).startswith(b" ")
        return ids(_LEAD) if puts_space and self._kind is _Kind.METASPACE else []


def compare_vocabularies(target: TokenText, drafter: TokenText) -> int:
    """How many leading ids mean the same to both: the ids that may be drafted.

    Different lengths are fine: padding does not count, and what only one of them has is never drafted.
    Raises VocabularyMismatch with the first id that differs and both its texts.
    """
    common = min(target.vocab_size, drafter.vocab_size)
    for id_, (ours, theirs) in enumerate(zip(target.tokens, drafter.tokens, strict=False)):
        if (
            (ours == theirs and (id_ in target.added) == (id_ in drafter.added))
            or ours is None
            or theirs is None
        ):
            continue
        same_piece = target.piece(id_) == drafter.piece(id_)
        if same_piece and (id_ in target.added) == (id_ in drafter.added):
            continue
        raise VocabularyMismatch(
            f"drafter and target differ from token id {id_} on: "
            f"{_named(target, id_)} in the target, {_named(drafter, id_)} in the drafter",
            'set draft.method = "slem", which takes any tokenizer, or use a drafter of the same family',
        )
    if common == 0:
        raise VocabularyMismatch("drafter and target have no token in common")
    return common


def _named(text: TokenText, id_: int) -> str:
    """The token's text in ASCII and quotes, marked where it is an added token."""
    shown = ascii(text.piece(id_).decode("utf-8", "backslashreplace"))
    return f"added token {shown}" if id_ in text.added else shown


def _checked(encoded: Any) -> list[int]:
    """The ids of one prompt, in whatever wrapping transformers returns them; never none at all."""
    ids = encoded["input_ids"] if isinstance(encoded, Mapping) else getattr(encoded, "ids", encoded)
    if len(ids) and not isinstance(ids[0], int):
        ids = ids[0]
    if not len(ids):
        raise ContextError("the messages hold no text, so there is no token to start from")
    return [int(id_) for id_ in ids]


def _flatten(decoder: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The steps of a tokenizers decoder, as its JSON lists them."""
    if decoder["type"] != "Sequence":
        return [decoder]
    return [step for part in decoder["decoders"] for step in _flatten(part)]


def _spelling(steps: Sequence[Mapping[str, Any]]) -> Mapping[str, Any]:
    """The step of a decoder that says how tokens are spelled. Raises ModelUnsupported without a known one."""
    types = [str(step["type"]) for step in steps]
    for main, (_, around) in _SPELLINGS.items():
        if main in types and set(types) <= {main, *around} and all(map(_known, steps)):
            return steps[types.index(main)]
    named = " + ".join(types)
    raise ModelUnsupported(
        f"the tokenizer's decoder is of type {named}, which is not read"
        if named
        else "the tokenizer has no decoder, so the text of its tokens is not known",
        _READ_HINT,
    )


def _known(step: Mapping[str, Any]) -> bool:
    """Whether the step is used as in known tokenizers: U+2581 gives a space, only the start is stripped."""
    if step["type"] == "Replace":
        return bool(step["pattern"] == {"String": _METASPACE} and step["content"] == " ")
    return bool(step["type"] != "Strip" or step["stop"] == 0)


def _byte_alphabet() -> dict[str, int]:
    """GPT-2's letters for the 256 bytes: printable ones stand for themselves, others come from U+0100 on."""
    own = [*range(ord("!"), ord("~") + 1), *range(0xA1, 0xAC + 1), *range(0xAE, 0xFF + 1)]
    others = [byte for byte in range(256) if byte not in set(own)]
    return {chr(byte): byte for byte in own} | {chr(256 + n): byte for n, byte in enumerate(others)}


_BYTE_OF = _byte_alphabet()


def _byte_level_bytes(token: str) -> bytes:
    """Undo the byte alphabet; a token with a letter outside it is plain text, as tokenizers has it."""
    try:
        return bytes([_BYTE_OF[letter] for letter in token])
    except KeyError:
        return token.encode("utf-8", "replace")


def _byte_token(token: str) -> bytes | None:
    """The byte of a token spelled like ``<0xEA>``."""
    if len(token) != _BYTE_TOKEN_LENGTH or not token.startswith("<0x") or not token.endswith(">"):
        return None
    try:
        return bytes([int(token[3:5], 16)])
    except ValueError:
        return None
