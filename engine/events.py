"""What the engine says while it works: frozen, ordered facts made of ints, floats, text and bytes.

No event holds a tensor, so a screen, a recorder or a test can keep every one of them. ``seq`` orders the
events of a session, ``t_ns`` is the time since the session started (monotonic clock, nanoseconds).

One answer is told as::

    RunStarted  SegmentStarted  PrefillProgress*  PrefillFinished
    (Calibrated | Round | PlainStep)*  RunFinished

The whole text of an answer is the ``text`` of its rounds, joined, plus the ``text`` of ``RunFinished``.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from engine.context import Message
from engine.costs import Costs


class Verdict(StrEnum):
    """What became of a draft token."""

    ACCEPTED = "accepted"
    REJECTED = "rejected"
    """The first draft token the target refused: number ``n_accepted + 1``."""
    IGNORED = "ignored"
    """Drafted after the rejected one, so never judged."""


class Origin(StrEnum):
    """Where a token of the answer comes from."""

    ACCEPTED = "accepted"
    CORRECTION = "correction"
    """The target's own token, in place of the rejected draft token."""
    BONUS = "bonus"
    """The target's own token, after every draft token was accepted."""
    PLAIN = "plain"
    """Plain decoding, no draft."""
    GIVEN = "given"
    """Put there by the user: kept from an earlier run, or chosen at a branch."""


class EndReason(StrEnum):
    """Why an answer ended."""

    EOS = "eos"
    STOP = "stop"
    MAX_NEW_TOKENS = "max_new_tokens"
    ROUNDS = "rounds"
    CONTEXT = "context"
    """The target's context is full."""
    CANCELLED = "cancelled"


@dataclass(frozen=True, slots=True)
class Alternative:
    """One of the likeliest tokens of a law."""

    id: int
    piece: bytes
    probability: float
    """Under the law after all processors; in a greedy run (a point mass) under the law at temperature 1."""


@dataclass(frozen=True, slots=True)
class DraftToken:
    """One drafted token and its judgement."""

    id: int
    piece: bytes
    q: float
    """q(x): its probability under the law it was drawn from; 1.0 for a deterministic guess."""
    p: float
    """p(x): its probability under the target's law, the drafts before it being given."""
    u: float | None
    """The uniform draw it was judged with, ``u * q < p``; None where the rule draws none."""
    verdict: Verdict
    q_top: tuple[Alternative, ...] = ()
    """The drafter's four likeliest tokens; empty for a deterministic guess."""
    h: float | None = None
    """Block verification: this and the drafts before it stand if u < h here or at a later draft."""


@dataclass(frozen=True, slots=True)
class TargetToken:
    """The token the target adds at the end of a round."""

    id: int
    piece: bytes
    origin: Origin
    p: float
    """Its probability under the target's law at that position."""
    q: float | None
    """Its probability under the drafter's law there; None for a bonus, where nothing was drafted."""


@dataclass(frozen=True, slots=True)
class Settings:
    """What a segment of a run is decoded with, everything resolved."""

    drafter: str
    """The drafting method: "model", "lookup", "synthetic", ..."""
    sample_strategy: str
    num_draft_tokens: int
    """K of each round, or the most that it may be."""
    verify_strategy: str
    temperature: float
    """0.0 is greedy."""
    top_k: int
    """0 is off."""
    top_p: float
    min_p: float
    repetition_penalty: float
    seed: int
    min_match: int | None = None
    """Tokens that must have occurred before for a lookup; None where the drafter looks nothing up."""
    history: bool = False
    """Whether earlier answers are looked up too."""
    acceptance: tuple[float, ...] = ()
    """Synthetic drafter: the chance that a draft is right, by its place; the last one goes on after it."""
    adaptive: bool = False
    """Whether K is chosen before each round, ``num_draft_tokens`` at most."""
    draft_cost: float | None = None
    """Synthetic drafter: what drafting one token would cost, as a share of a plain step."""


@dataclass(frozen=True, slots=True)
class Event:
    """The part that every event has."""

    seq: int
    t_ns: int


@dataclass(frozen=True, slots=True)
class Notice(Event):
    """Something the user should know, in words; nothing failed."""

    key: str
    """A stable name: "speculation_off", "dtype", "seed", ..."""
    text: str


@dataclass(frozen=True, slots=True)
class LoadStarted(Event):
    role: str
    """"target" or "drafter"."""
    name: str


@dataclass(frozen=True, slots=True)
class LoadProgress(Event):
    role: str
    stage: str
    """What is being done: "download", "hash", "convert", "read", "quantize" or "optimize"."""
    done: int
    total: int | None
    """Bytes ("convert", "quantize": tensors); total is None while it is not known."""


@dataclass(frozen=True, slots=True)
class ModelInfo:
    """Which model this is and how it is held."""

    name: str
    """As the configuration names it."""
    architecture: str
    """The transformers class, such as "LlamaForCausalLM"."""
    revision: str | None
    """Commit of a Hub model; None elsewhere."""
    sha256: str | None
    """Of the weight file, or of the listing of the weight files and their hashes where there are several."""
    parameters: int
    weight_bytes: int
    """Bytes of the weights in memory, shared tensors once."""
    layers: int
    vocab_size: int
    """Ids with a token text; padding rows of the output matrix are not counted."""
    context_length: int
    """Tokens the model's positions allow."""
    dtype: str
    """"float32", "bfloat16", ..."""
    device: str
    """"cpu", "cuda:0", "mps", or "cuda:0+cuda:1" for a model over several devices."""
    licence: str | None = None
    passes: str = "eager"
    """How its forward passes run: "eager", "static" or "compile"."""
    quantized: str = ""
    """What its layers' matrices are held in: "int8" or "int4"; "": in the number format."""


@dataclass(frozen=True, slots=True)
class LoadFinished(Event):
    role: str
    model: ModelInfo
    ms: float


@dataclass(frozen=True, slots=True)
class RunStarted(Event):
    """An answer begins."""

    run: int
    """Number of the run in its session, from 1."""
    mode: str
    """"speculative" or "plain"."""
    prompt: tuple[int, ...]
    prompt_pieces: tuple[bytes, ...]
    reused: int
    """Leading prompt tokens whose keys and values the cache still held."""
    max_new_tokens: int
    max_rounds: int | None
    stop: tuple[str, ...]
    given: tuple[int, ...] = ()
    """Ids the answer starts with, kept or chosen by the user; not counted in any measure."""
    given_pieces: tuple[bytes, ...] = ()
    given_text: str | None = None
    """Their text, without a last character that is not whole; control tokens have none. None in recordings
    of versions that did not write it."""
    resumed: bool = False
    """The run before goes on with other models: ``given`` is all it has written. Numbers of rounds, limits
    and the measures of the run's end go on too."""
    messages: tuple[Message, ...] = ()
    """What is answered. Empty in recordings of versions that did not write it."""
    ignore_eos: bool | None = None
    """Whether the answer goes on past the end of text; None where the version did not write it."""


@dataclass(frozen=True, slots=True)
class SegmentStarted(Event):
    """From here on the run is decoded with these settings."""

    settings_id: int
    settings: Settings


@dataclass(frozen=True, slots=True)
class PrefillProgress(Event):
    done: int
    total: int
    """Prompt tokens to compute; re-used ones and the last one are not among them."""


@dataclass(frozen=True, slots=True)
class PlainRunProgress(Event):
    """Plain decoding writes an answer that a synthetic drafter is to know."""

    done: int
    total: int
    """Tokens at most."""


@dataclass(frozen=True, slots=True)
class PrefillFinished(Event):
    ms: float


@dataclass(frozen=True, slots=True)
class Calibrated(Event):
    """Costs were measured, with these models at this length, before the rounds that follow.

    Its time counts in no speed.
    """

    settings_id: int
    """What was drafted and judged with."""
    costs: Costs
    reason: str
    """Why now: "start", "settings changed", "length doubled", "more room" or "costs drifted"; "measured
    before": they were measured in an earlier run, and this one goes by them."""


@dataclass(frozen=True, slots=True)
class Round(Event):
    """One round: K tokens drafted, scored in one target pass, judged, committed."""

    number: int
    """Number of the round in its run, from 1."""
    settings_id: int
    context_length: int
    """Committed tokens before this round, prompt included."""
    k: int
    """Draft tokens asked for; the drafter may give fewer."""
    k_reason: str
    """Why that many: "fixed", "auto", "auto: off, best K gives 0.93x", "probe", "limit near", "no match",
    "drafter context full", ..."""
    drafts: tuple[DraftToken, ...]
    p_top: tuple[tuple[Alternative, ...], ...]
    """The target's four likeliest tokens at each of the K+1 positions."""
    n_accepted: int
    """Draft tokens the rule accepted, before any cut."""
    target: TargetToken
    """The target's own token; not committed if the cut removed it."""
    tokens: tuple[int, ...]
    """The ids this round committed: accepted drafts, then the target's token, cut at EOS, stop or limit."""
    text: str
    """Text that this round made final; text that may turn into a stop string is held back."""
    cut: EndReason | None
    """Why the answer ends in this round; None while it goes on."""
    taken_back: int
    """Tokens of EARLIER rounds withdrawn because a stop string began there."""
    draft_ms: float
    """Device time of the drafter's passes; for a drafter without a model, its time."""
    verify_ms: float
    """Device time of the target's pass."""
    host_ms: float
    """The rest of the round: sampling, judging, bookkeeping, text."""
    source: str = ""
    """Which of its parts guessed, for a drafter that has several: "lookup" or "model"."""

    @property
    def was_cut(self) -> bool:
        """Whether the cut removed tokens, the target's own one at least."""
        return len(self.tokens) <= self.n_accepted

    @property
    def accepted(self) -> int:
        """Accepted draft tokens that were kept."""
        return min(self.n_accepted, len(self.tokens))

    @property
    def drafted(self) -> int:
        """Draft tokens that count: those removed by the cut do not."""
        return len(self.tokens) if self.was_cut else len(self.drafts)

    @property
    def rejected(self) -> bool:
        """Whether the round counts as ended by a rejection."""
        return not self.was_cut and self.n_accepted < len(self.drafts)

    @property
    def ms(self) -> float:
        """The whole round."""
        return self.draft_ms + self.verify_ms + self.host_ms

    @property
    def origins(self) -> tuple[Origin, ...]:
        """Where each committed token comes from, parallel to ``tokens``."""
        own = () if self.was_cut else (self.target.origin,)
        return (Origin.ACCEPTED,) * self.accepted + own

    @property
    def pieces(self) -> tuple[bytes, ...]:
        """Bytes of each committed token, parallel to ``tokens``."""
        own = () if self.was_cut else (self.target.piece,)
        return tuple(draft.piece for draft in self.drafts[: self.accepted]) + own


@dataclass(frozen=True, slots=True)
class PlainStep(Event):
    """One token of plain decoding."""

    number: int
    id: int
    piece: bytes
    text: str
    cut: EndReason | None
    taken_back: int
    verify_ms: float
    """Device time of the target's pass."""
    host_ms: float

    @property
    def ms(self) -> float:
        """The whole step."""
        return self.verify_ms + self.host_ms


@dataclass(frozen=True, slots=True)
class RunFinished(Event):
    """An answer ended; what it did is kept, whatever the reason."""

    reason: EndReason
    text: str
    """Text still held back when the run ended."""
    tokens: int
    """Tokens of the answer, EOS counted."""
    prefill_ms: float
    ttft_ms: float | None
    """Prefill plus the first round; None if no round ended."""
    decode_ms: float
    """Time of the rounds, prefill and pauses not counted."""


@dataclass(frozen=True, slots=True)
class BaselineStarted(Event):
    """Plain decoding of the same prompt begins, to be timed."""

    tokens: int
    """Length to reach: that of the speculative answer."""


@dataclass(frozen=True, slots=True)
class BaselineProgress(Event):
    done: int
    total: int


@dataclass(frozen=True, slots=True)
class Divergence:
    """Where a run first left the text of plain decoding that it had to repeat: by rounding, or by a bug?

    Passes over one token and over several round differently in most formats. Two tokens are a numerical tie
    if the plain pass had them no further apart than the two passes differ there.
    """

    index: int
    """Of the token in the answer."""
    written: int
    """The run's token there."""
    written_piece: bytes
    plain: int
    """Plain decoding's."""
    plain_piece: bytes
    gap: float | None
    """How far apart the two are in the plain pass: in logits; for a sampled token the probability that would
    have to lie elsewhere for its draw to give the other one. None: not measured."""
    change: float | None
    """The most that such a distance changes between the two passes; None as ``gap``."""

    @property
    def is_tie(self) -> bool | None:
        """True: a numerical tie. False: a bug. None: it was not measured."""
        return None if self.gap is None or self.change is None else self.gap <= self.change


@dataclass(frozen=True, slots=True)
class BaselineFinished(Event):
    """Plain decoding was timed: warm, alone, at the same length, prefill apart."""

    tokens: int
    ids: tuple[int, ...]
    decode_ms: float
    prefill_ms: float
    identical: bool | None
    """Whether plain decoding wrote the same ids; None where it need not: sampled runs under most rules."""
    first_difference: int | None
    """Index of the first token that differs; None if none does."""
    complete: bool
    """False if the measurement was cancelled; then there is no speedup."""
    divergence: Divergence | None = None
    """The first difference looked at closely; None if none was found."""
    sampled: bool = False
    """Whether only some places of the answer were decoded plainly. ``ids`` is empty then, and whether the
    texts are the same is not known."""


@dataclass(frozen=True, slots=True)
class Failed(Event):
    """The engine could not go on. The session stays usable unless the message says otherwise."""

    error: str
    """Name of the error's class."""
    message: str
    hint: str | None
