"""The end of a headless run: what was measured, in words and as one JSON object."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from engine.events import (
    BaselineFinished,
    EndReason,
    Event,
    LoadFinished,
    ModelInfo,
    RunFinished,
    SegmentStarted,
    Settings,
)
from tui.drafting import SYNTHETIC_DRAFTS, is_synthetic, option_words, speedup_words, synthetic_of
from tui.safe_text import visible
from tui.same_text import divergence_dict, divergence_of, same_text

REASONS: dict[EndReason, str] = {
    EndReason.EOS: "the model ended its text",
    EndReason.STOP: "a stop string came",
    EndReason.MAX_NEW_TOKENS: "the limit of tokens is reached",
    EndReason.ROUNDS: "the limit of rounds is reached",
    EndReason.CONTEXT: "the model's context is full",
    EndReason.CANCELLED: "it was stopped",
}

GLOSSARY = {
    "tokens": "tokens of the answer; the end-of-text token counts.",
    "tau": "tokens a round, so tokens for each pass of the target. Plain decoding has 1.00.",
    "alpha-hat": "accepted / (accepted + rounds that ended in a rejection): the chance that one more draft"
    " token is accepted.",
    "draft efficiency": "accepted / drafted. Drafts after a rejected one count as drafted.",
    "accepted by position": "share of all rounds whose first 1, 2, 3, ... drafts were all accepted.",
    "speedup": "plain ms a token / speculative ms a token, reading the prompt not counted.",
    "costs": "measured before the first round, at the length of the prompt, in plain steps.",
    "predicted": "the speedup by these costs with the acceptance of this run. The error is how far the"
    " measured one is from it.",
    "best K": "draft tokens a round that would be fastest by the same; 0 is plain decoding.",
}
_LABEL = 22
"""Columns of the names on the left."""


@dataclass(slots=True)
class RunFacts:
    """What the events of a run say besides its measures."""

    target: ModelInfo | None = None
    drafter: ModelInfo | None = None
    settings: Settings | None = None
    """The newest ones."""
    synthetic: Settings | None = None
    """Those of a part that a synthetic drafter drafted."""
    finished: RunFinished | None = None
    baseline: BaselineFinished | None = None
    threads: int | None = None

    def add(self, event: Event) -> None:
        """Keep what an event says."""
        if isinstance(event, LoadFinished):
            if event.role == "target":
                self.target = event.model
            else:
                self.drafter = event.model
        elif isinstance(event, SegmentStarted):
            self.settings = event.settings
            if is_synthetic(event.settings.drafter):
                self.synthetic = event.settings
        elif isinstance(event, RunFinished):
            self.finished = event
        elif isinstance(event, BaselineFinished):
            self.baseline = event


def json_line(facts: RunFacts, measures: Mapping[str, Any]) -> str:
    """One JSON object without a line end: the machine-readable measures and what they were measured with."""
    target, settings = facts.target, facts.settings
    drafter = facts.drafter.name if facts.drafter is not None else settings and settings.drafter
    told = {
        **measures,
        "synthetic": synthetic_of(measures, facts.synthetic),
        "divergence": divergence_dict(divergence_of(facts.baseline)),
        "reason": facts.finished and facts.finished.reason.value,
        "seed": settings and settings.seed,
        "device": target and target.device,
        "dtype": target and target.dtype,
        "passes": target and target.passes,
        "quantized": (target and target.quantized) or None,
        "target": target and target.name,
        "drafter": drafter,
        "verify_strategy": settings and settings.verify_strategy,
        "num_draft_tokens": settings and settings.num_draft_tokens,
        "adaptive": settings and settings.adaptive,
        "draft_method": settings and settings.drafter,
        "draft_model": facts.drafter and facts.drafter.name,
        "min_match": settings and settings.min_match,
        "history": settings and settings.history,
    }
    return json.dumps(told, allow_nan=False)


def summary_lines(facts: RunFacts, measures: Mapping[str, Any], width: int, *, glossary: bool) -> list[str]:
    """The summary, each line at most ``width`` columns wide and safe to show."""
    lines = [line for name, value in summary_rows(facts, measures) for line in _row(name, value, width)]
    if glossary:
        lines += ["", "what the words mean"]
        lines += [line for name, value in GLOSSARY.items() for line in _row(name, value, width)]
    return lines


def summary_rows(facts: RunFacts, measures: Mapping[str, Any]) -> list[tuple[str, str]]:
    """The summary as names and values; not made safe for a terminal."""
    rows = [
        *_setting_rows(facts),
        *_acceptance_rows(measures, " (synthetic)" if synthetic_of(measures, facts.synthetic) else ""),
        *_time_rows(measures),
        *_cost_rows(measures["costs"]),
        *_comparison_rows(facts, measures),
        *_why_rows(facts, measures),
    ]
    if facts.finished is not None:
        rows.append(("ended because", REASONS[facts.finished.reason]))
    return rows


def _row(name: str, value: str, width: int) -> list[str]:
    return textwrap.wrap(
        visible(value, ""), width, initial_indent=name.ljust(_LABEL), subsequent_indent=" " * _LABEL
    ) or [name]


def _setting_rows(facts: RunFacts) -> list[tuple[str, str]]:
    rows = []
    if facts.target is not None:
        target = facts.target
        rows.append(("target", f"{target.name} ({_parameters(target)}, {_held(target)})"))
    settings = facts.settings
    if settings is None:
        return rows
    rows.append(("drafter", _drafter(facts, settings)))
    law = "greedy" if settings.temperature == 0 else f"temperature {settings.temperature:g}"
    if settings.temperature:
        law += f", top-k {settings.top_k}" if settings.top_k else ""
        law += f", top-p {settings.top_p:g}" if settings.top_p < 1 else ""
        law += f", min-p {settings.min_p:g}" if settings.min_p else ""
    if settings.repetition_penalty != 1:
        law += f", repetition penalty {settings.repetition_penalty:g}"
    rows.append(("rule", f"{settings.verify_strategy}, {law}"))
    threads = "" if facts.threads is None else f", {facts.threads} threads"
    rows.append(("seed", f"{settings.seed}{threads}"))
    return rows


def _held(model: ModelInfo) -> str:
    """ "bfloat16 on cpu, static passes", "bfloat16, layers in int8, on cpu, static passes" """
    bits = f", layers in {model.quantized}," if model.quantized else ""
    return f"{model.dtype}{bits} on {model.device}, {model.passes} passes"


def _drafter(facts: RunFacts, settings: Settings) -> str:
    """The method, unless a model alone is meant, with the model and the method's own options."""
    words = [settings.drafter]
    if facts.drafter is not None:
        held = facts.drafter
        model = f"{held.name} ({_parameters(held)}, {_held(held)})"
        words = [model] if settings.drafter == "model" else [f"{settings.drafter} with {model}"]
    drafts = f"{settings.num_draft_tokens} tokens a round"
    if settings.adaptive:
        drafts = f"K chosen for each round, at most {settings.num_draft_tokens}"
    return ", ".join([*words, drafts, *option_words(settings)])


def _acceptance_rows(measures: Mapping[str, Any], suffix: str) -> list[tuple[str, str]]:
    """``suffix`` stands behind what a drafter that knows the answer was asked for."""
    rows = [("tokens", f"{measures['tokens']} in {measures['rounds']} rounds")]
    if measures["tau"] is not None:
        rows.append(("tau", f"{measures['tau']:.2f} tokens a round{suffix}"))
    for name, label in (("alpha_hat", "alpha-hat"), ("draft_efficiency", "draft efficiency")):
        rate = measures[name]
        rows.append((label, "no draft was judged" if rate is None else f"{rate:.1%}{suffix}"))
    if measures["acceptance_by_position"]:
        shares = "  ".join(f"{share:.0%}" for share in measures["acceptance_by_position"])
        rows.append(("accepted by position", shares))
    return rows


def _time_rows(measures: Mapping[str, Any]) -> list[tuple[str, str]]:
    rows = []
    if measures["rounds"]:
        times = {part: measures[f"{part}_ms_per_round"] for part in ("draft", "verify", "host")}
        parts = " + ".join(f"{part} {ms:.1f}" for part, ms in times.items())
        whole = sum(times.values())
        share = f", host {times['host'] / whole:.1%} of it" if whole else ""
        rows.append(("a round takes", f"{parts} ms{share}"))
    if measures["ttft_ms"] is not None:
        rows.append(("first token after", f"{measures['ttft_ms']:.0f} ms"))
    speed = measures["tokens_per_second"]
    if speed is not None:
        rows.append(("speculative", f"{speed:.2f} tokens/s"))
    return rows


def _comparison_rows(facts: RunFacts, measures: Mapping[str, Any]) -> list[tuple[str, str]]:
    baseline = facts.baseline
    if baseline is None or not baseline.complete:
        why = "was not measured" if baseline is None else "was stopped before it was measured"
        return [("speedup", f"unknown: plain decoding {why}")]
    rows = []
    if measures["baseline_tokens_per_second"] is not None:
        where = f" (timed over {baseline.tokens} tokens, spread over the answer)" if baseline.sampled else ""
        rows.append(("plain", f"{measures['baseline_tokens_per_second']:.2f} tokens/s{where}"))
    speedup = measures["speedup"]
    if speedup is not None:
        words = speedup_words(speedup, synthetic_of(measures, facts.synthetic))
        if measures["draft_efficiency"] is None:
            words += ", but no draft was judged"
        rows.append(("speedup", words))
    rows += _predicted_rows(measures)
    told = same_text(baseline, facts.target.dtype if facts.target is not None else "")
    if told is not None:
        rows.append(("same text as plain", told.words))
    return rows


def _cost_rows(costs: Mapping[str, Any] | None) -> list[tuple[str, str]]:
    """What a plain step takes, and the parts of a round in such steps."""
    if costs is None:
        return []
    widest = max(costs["r"], key=int)
    parts = [f"a pass of {widest} rows {costs['r'][widest]:.2f}"]
    if costs["c"] is not None:
        parts.insert(0, f"a draft token {costs['c']:.3f}")
    parts.append(f"the host of such a round {max(costs['o'][str(int(widest) - 1)], 0):.2f} more")
    return [("costs", f"a plain step {costs['t1_ms']:.1f} ms; in such steps {', '.join(parts)}")]


def _predicted_rows(measures: Mapping[str, Any]) -> list[tuple[str, str]]:
    rows = []
    if measures["predicted_speedup"] is not None:
        error = measures["prediction_error"]
        off = "" if error is None else f", error {error:.1%}"
        rows.append(("predicted", f"{measures['predicted_speedup']:.2f}x{off}"))
    if measures["best_k"] is not None:
        rows.append(("best K", str(measures["best_k"])))
    return rows


def _why_rows(facts: RunFacts, measures: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Why it was faster or slower."""
    sentence = measures["why"]
    if sentence is None:
        return []
    synthetic = synthetic_of(measures, facts.synthetic) is not None
    return [("why", f"{SYNTHETIC_DRAFTS} {sentence}" if synthetic else sentence)]


def _parameters(model: ModelInfo) -> str:
    for size, unit in ((10**9, "B"), (10**6, "M")):
        if model.parameters >= size:
            return f"{model.parameters / size:.1f}{unit} parameters"
    return f"{model.parameters} parameters"
