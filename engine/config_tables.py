"""The tables and keys of a configuration, frozen and validated by pydantic.

The sentence under each field is its help, its documentation and its description in the schema.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Annotated, Final, Literal, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationInfo,
    field_validator,
    model_validator,
)
from pydantic.json_schema import WithJsonSchema

from engine.config_errors import not_allowed, trouble
from engine.costs import MOST_DRAFTS
from engine.registry import DRAFTERS, RULES
from engine.user_text import shown

DEFAULT_ROUNDS = 10
"""Rounds of a run that limits neither its rounds nor its tokens."""
AUTO: Final = "auto"
"""``draft.num_draft_tokens`` where each round's K is chosen before it."""
MOST_FIXED_DRAFTS = 64
"""The largest K that may be asked for in every round."""
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")
_DEVICES = ("auto", "cpu", "cuda", "cuda:0", "mps", "balanced")
_DEVICE_PATTERN = "^(auto|cpu|cuda|cuda:[0-9]{1,3}|mps|balanced)$"


def _one_of(names: Sequence[str]) -> Callable[[str], str]:
    def check(value: str) -> str:
        if value not in names:
            raise not_allowed(value, names)
        return value

    return check


def _device(value: str) -> str:
    kind, colon, number = value.partition(":")
    numbered = kind == "cuda" and number.isascii() and number.isdigit() and len(number) <= 3
    if value in _DEVICES or (colon and numbered):
        return value
    raise not_allowed(value, ("auto", "cpu", "cuda", "cuda:N", "mps", "balanced"), among=_DEVICES)


def _drafts(value: object) -> object:
    """ "auto" or a whole number: pydantic has a sentence for each half of it, and none for both."""
    if value == AUTO:
        return value
    if isinstance(value, bool) or not isinstance(value, int):
        given = str(value).lower() if isinstance(value, bool) else shown(value)
        raise trouble(f"must be a whole number or 'auto', not {given}", "For example: 5.")
    if not 1 <= value <= MOST_FIXED_DRAFTS:
        bound = "at least 1" if value < 1 else f"at most {MOST_FIXED_DRAFTS}"
        raise trouble(f"must be {bound}, not {shown(value)}")
    return value


def _plain_name(value: str) -> str:
    if value != value.strip() or _CONTROL.search(value):
        raise trouble(f"has a control character or an outer space: {shown(value)}")
    return value


def _usable_temperature(value: float | None) -> float | None:
    if value is not None and 0 < value < 0.001:
        raise trouble(
            f"must be 0 (greedy) or at least 0.001, not {shown(value)}",
            "Below that the division by it leaves the range of float32; 0 gives the same text.",
        )
    return value


_Temperature = Annotated[float | None, AfterValidator(_usable_temperature)]
_Share = Annotated[float, Field(ge=0, le=1)]


def _shares(value: object) -> object:
    """A number alone is a list of one."""
    numbers = value if isinstance(value, list | tuple) else [value]
    fine = all(isinstance(n, int | float) and not isinstance(n, bool) and 0 <= n <= 1 for n in numbers)
    if value is None or (fine and 1 <= len(numbers) <= _MOST_SHARES):
        return value if value is None else tuple(map(float, numbers))
    raise trouble(
        f"must be a number from 0 to 1 or a list of 1 to {_MOST_SHARES} of them, not {shown(value)}",
        "For example: acceptance = [0.9, 0.8, 0.7], the chance at each place; the last one goes on.",
    )


_MOST_SHARES = 64
_Shares = Annotated[
    tuple[_Share, ...],
    BeforeValidator(_shares),
    WithJsonSchema(
        {
            "type": ["number", "array"],
            "minimum": 0,
            "maximum": 1,
            "items": {"type": "number", "minimum": 0, "maximum": 1},
            "minItems": 1,
            "maxItems": 64,
        }
    ),
]
_Drafts = Annotated[
    int | Literal["auto"],
    BeforeValidator(_drafts),
    WithJsonSchema(
        {
            "type": ["integer", "string"],
            "minimum": 1,
            "maximum": MOST_FIXED_DRAFTS,
            "pattern": f"^{AUTO}$",
        }
    ),
]
_Name = Annotated[str, Field(min_length=1, max_length=4096), AfterValidator(_plain_name)]
_Quantize = Literal["none", "int8", "int4"]
_StopString = Annotated[str, Field(min_length=1, max_length=1000)]


class _Table(BaseModel):
    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        strict=True,
        allow_inf_nan=False,
        use_attribute_docstrings=True,
        protected_namespaces=(),
    )


class DraftConfig(_Table):
    """Who guesses, and how many tokens a round."""

    method: Annotated[
        str,
        AfterValidator(_one_of(tuple(DRAFTERS))),
        WithJsonSchema({"type": "string", "enum": list(DRAFTERS)}),
    ] = "model"
    """How tokens are guessed: "model" (default), "lookup", "hybrid", "slem", "tli" or "synthetic"."""
    model_name: _Name | None = Field(default=None, validate_default=True)
    """Drafter: a Hub id, local folder, .gguf file or built-in model; required by methods that load one."""
    quantize: _Quantize = "none"
    """Holds the drafter's layers in fewer bits: "none" (default), "int8" or "int4"."""
    sample_strategy: Literal["random", "greedy"] = "random"
    """How the drafter picks from its law: "random" (default) draws, "greedy" takes the likeliest token."""
    num_draft_tokens: _Drafts = 5
    """Tokens drafted in a round: 1 to 64 (default 5), or "auto", which picks 0 to 16 for each round."""
    min_match: int | None = Field(default=None, ge=1, le=64)
    """Newest tokens that must have occurred before, to copy what followed them (default 1, in hybrid 4)."""
    history: bool = False
    """Copies from earlier prompts and answers of the session too, not only this text (default: false)."""
    acceptance: _Shares | None = None
    """Synthetic drafter: chance that a draft is right, one number or one for each place (default 0.8)."""
    cost: float | None = Field(default=None, ge=0, le=100)
    """Synthetic drafter: what drafting a token would cost, as a share of a plain step (default 0)."""

    @property
    def most_drafts(self) -> int:
        """The most tokens that a round may draft."""
        return MOST_DRAFTS if self.num_draft_tokens == AUTO else self.num_draft_tokens

    @field_validator("model_name")
    @classmethod
    def _fits_method(cls, value: str | None, info: ValidationInfo) -> str | None:
        method = info.data.get("method")
        if method is None:  # refused already
            return value
        if DRAFTERS[method].loads_model and value is None:
            raise trouble(
                f"is missing, and the method {method!r} loads a model",
                'Name the drafter: model_name = "..." under [draft], or set method = "lookup".',
            )
        if not DRAFTERS[method].loads_model and value is not None:
            raise trouble(
                f"is {shown(value)}, but the method {method!r} loads no model",
                'Remove model_name (--set draft.model_name= does), or set method = "model".',
            )
        return value

    @field_validator("quantize")
    @classmethod
    def _has_a_model(cls, value: str, info: ValidationInfo) -> str:
        method = info.data.get("method")
        if method is None or DRAFTERS[method].loads_model or value == "none":
            return value
        raise trouble(
            f"is {shown(value)}, but the method {method!r} loads no model",
            "Remove quantize (--set draft.quantize= does); verify.quantize is that of the target.",
        )

    @field_validator("min_match", "history", "acceptance", "cost")
    @classmethod
    def _is_an_option(cls, value: object, info: ValidationInfo) -> object:
        method, name = info.data.get("method"), info.field_name
        if method is None or not value or name in DRAFTERS[method].options:
            return value
        having = [other for other, entry in DRAFTERS.items() if name in entry.options]
        raise trouble(
            f"is {shown(value)}, but the method {method!r} has no such option",
            f"Remove {name} (--set draft.{name}= does); it is for {', '.join(having) or 'no method'}.",
        )


class VerifyConfig(_Table):
    """Whose text it is, and how guesses are judged."""

    model_name: _Name
    """Target: a Hub id, local folder, .gguf file or built-in model; it has no default."""
    quantize: _Quantize = "none"
    """Holds the target's layers in fewer bits, which changes its law: "none" (default), "int8" or "int4"."""
    verify_strategy: Annotated[
        str,
        AfterValidator(_one_of(tuple(RULES))),
        WithJsonSchema({"type": "string", "enum": list(RULES)}),
    ] = "block"
    """Judges drafts: "block" (default), "speculative_sampling", "match", "seed_exact" or "greedy_match"."""


class SamplingConfig(_Table):
    """The law that tokens are drawn from; the same one for drafter and target."""

    temperature: _Temperature = Field(default=None, ge=0, le=100)
    """Divides the logits, 0 is greedy (default: the target's generation_config, else 1)."""
    top_k: int | None = Field(default=None, ge=0, le=10_000_000)
    """Only the k likeliest tokens may be drawn, 0 is off (default: generation_config, else 0)."""
    top_p: float | None = Field(default=None, gt=0, le=1)
    """Only the likeliest tokens that reach this total may be drawn (default: generation_config, else 1)."""
    min_p: float | None = Field(default=None, ge=0, lt=1)
    """Tokens below this share of the best probability are out (default: generation_config, else 0)."""
    repetition_penalty: float | None = Field(default=None, ge=0.01, le=100)
    """Weakens tokens that are in the text already, 1 is off (default: generation_config, else 1)."""
    seed: int | None = Field(default=None, ge=0, lt=2**63)
    """Makes a run repeatable (default: a fresh seed is drawn, shown and recorded)."""
    generation_config: bool = True
    """Takes what is left out here from the target's generation_config (default: true); false: nothing."""


class RunConfig(_Table):
    """How far a run goes, and what it runs on."""

    max_new_tokens: int | None = Field(default=None, ge=1, le=10_000_000)
    """Ends the answer after this many tokens (default: no limit but the model's context)."""
    rounds: int | None = Field(default=None, ge=1, le=10_000_000)
    """Ends the answer after this many rounds (default: 10, or no limit if max_new_tokens is set)."""
    stop: tuple[_StopString, ...] = Field(default=(), max_length=16, strict=False)
    """Ends the answer before any of these texts, at most 16 (default: none)."""
    ignore_eos: bool = False
    """Goes on past the model's end-of-text token (default: false)."""
    device: Annotated[
        str, AfterValidator(_device), WithJsonSchema({"type": "string", "pattern": _DEVICE_PATTERN})
    ] = "auto"
    """Where models run: "auto" (default), "cpu", "cuda", "cuda:N", "mps", or "balanced" over all GPUs."""
    dtype: Literal["auto", "float32", "bfloat16", "float16"] = "auto"
    """Number format of weights and caches: "auto" (default) picks the fastest the device is good at."""
    optimize: Literal["auto", "eager", "static", "compile"] = "auto"
    """Runs passes as transformers does ("eager") or by our layers ("static", "compile"): "auto" (default)."""
    threads: int | None = Field(default=None, ge=1, le=4096)
    """Processor threads for the models (default: what torch chooses)."""
    template: Literal["chat", "raw"] = "chat"
    """How the context becomes a prompt: "chat" (default) by the model's template, "raw" as bare text."""
    thinking: bool | None = None
    """Asks a chat template to let the model think first, or not (default: what the template does)."""
    baseline: Literal["calibrated", "full", "off"] = "calibrated"
    """Times plain decoding: at some places of the answer ("calibrated", default), all of it, or "off"."""


class RecordConfig(_Table):
    """Where the run is kept."""

    path: _Name | None = None
    """File that the run is recorded in (default: none, nothing is recorded)."""
    always: bool = False
    """Records every session of the app in the recordings folder (default: false); no headless run."""


class UIConfig(_Table):
    """What the output looks like."""

    color: Literal["auto", "always", "never"] = "auto"
    """Whether output is coloured: "auto" (default) on a terminal only, "always" or "never"."""


class Config(_Table):
    """Configuration of Naive Speculate."""

    draft: DraftConfig
    """Who guesses, and how many tokens a round."""
    verify: VerifyConfig
    """Whose text it is, and how guesses are judged."""
    sampling: SamplingConfig = SamplingConfig()
    """The law that tokens are drawn from; the same one for drafter and target."""
    run: RunConfig = RunConfig()
    """How far a run goes, and what it runs on."""
    record: RecordConfig = RecordConfig()
    """Where the run is kept."""
    ui: UIConfig = UIConfig()
    """What the output looks like."""

    @model_validator(mode="after")
    def _greedy_is_greedy(self) -> Self:
        temperature = self.sampling.temperature
        if self.verify.verify_strategy == "greedy_match" and temperature:
            raise trouble(
                f"is {shown(temperature)}, but greedy_match is temperature 0",
                "Leave it out (--set sampling.temperature= does), or use speculative_sampling.",
                key="sampling.temperature",
            )
        return self

    @model_validator(mode="after")
    def _known_text_is_fixed(self) -> Self:
        temperature, rule = self.sampling.temperature, self.verify.verify_strategy
        if DRAFTERS[self.draft.method].knows_text and temperature and not RULES[rule].follows_seed:
            raise trouble(
                f"is {shown(temperature)}, but the method {self.draft.method!r} has to know the text, which "
                f"chance decides with {rule!r}",
                'Use temperature 0, or verify_strategy = "match" or "seed_exact".',
                key="sampling.temperature",
            )
        return self

    def resolved_limits(self) -> tuple[int | None, int | None]:
        """``(max_new_tokens, rounds)`` of a run; None is no limit, and they are never both None."""
        if self.run.max_new_tokens is None and self.run.rounds is None:
            return None, DEFAULT_ROUNDS
        return self.run.max_new_tokens, self.run.rounds
