"""``spec explain``: why a recorded run was faster or slower than plain decoding, and what would help."""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Sequence

from engine.config_tables import AUTO
from engine.costs import Costs
from engine.errors import UserError
from engine.explained import Explained, explained
from engine.user_text import shown_name
from engine.verdict import usual_k
from engine.what_if_costs import with_draft_cost
from tui.compare import chosen_run
from tui.drafting import SYNTHETIC_DRAFTS, drafter_words
from tui.explain_lines import explain_lines
from tui.export.report import RunReport, build_report
from tui.glyphs import glyph_set
from tui.recording_commands import read, say
from tui.terminal import Output

ParserClass = type[argparse.ArgumentParser]
MOST_K = 64
"""The largest K that may be asked about."""


def explain(words: Sequence[str], parser_class: ParserClass) -> int:
    """Explain a run of a recording and return the exit code. Raises SpeculateError."""
    options = _parser(parser_class).parse_args(words)
    if options.k is not None and not 0 <= options.k <= MOST_K:
        raise UserError(f"--k {options.k} is no number of drafts", f"It is 0 to {MOST_K}.")
    if options.draft_cost is not None and not (math.isfinite(options.draft_cost) and options.draft_cost >= 0):
        raise UserError(f"--draft-cost {options.draft_cost:g} is no cost", "It is 0 or more plain steps.")
    if options.stop_below is not None and not 0 <= options.stop_below <= 1:
        raise UserError(f"--stop-below {options.stop_below:g} is no probability", "It is 0 to 1.")
    recording = read(options.recording)
    name = shown_name(options.recording)
    run = chosen_run(build_report(recording.header, recording.events), options.run, name)
    if run.started.mode != "speculative":
        raise UserError(
            f"run {run.started.run} of {name} is plain decoding",
            "It drafts nothing; --run takes another run.",
        )
    told = _explained(run, options.k, options.stop_below, options.draft_cost)
    output = Output(sys.stdout)
    for line in [
        _title(run),
        "",
        *explain_lines(told, usual_k(told.statistics), glyph_set(output.ascii_only), output.width),
    ]:
        say(line)
    if options.json:
        sys.stdout.write(json.dumps(_as_dict(run, told), allow_nan=False) + "\n")
    return 0


def _parser(parser_class: ParserClass) -> argparse.ArgumentParser:
    parser = parser_class(
        prog="spec explain",
        description="Why a recorded run was faster or slower than plain decoding: what its parts cost, how"
        " often drafts were right, the speedup that both lead to for each K, and what would help.",
    )
    parser.add_argument("recording", metavar="RECORDING", help="made with --record; - reads standard input")
    parser.add_argument("--run", type=int, metavar="N", help="number of the run; default: the last one")
    parser.add_argument("--k", type=int, metavar="N", help="also what N drafts a round would have given")
    parser.add_argument(
        "--stop-below",
        type=float,
        metavar="Q",
        help="also what ending a round after a draft whose q is below Q would have given",
    )
    parser.add_argument(
        "--draft-cost",
        type=float,
        metavar="C",
        help="as if drafting a token cost C plain steps; then nothing that was measured is told",
    )
    parser.add_argument("--json", action="store_true", help="end with one line of JSON")
    return parser


def _explained(
    run: RunReport, k: int | None, stop_below: float | None, draft_cost: float | None
) -> Explained:
    costs: Costs | None = run.statistics.costs
    if draft_cost is not None:
        if costs is None:
            raise UserError(
                "no costs were measured in this run", "--draft-cost changes one of them; record a run anew."
            )
        costs = with_draft_cost(costs, draft_cost)
    return explained(
        run.statistics,
        (*run.started.prompt, *run.started.given),
        run.rounds,
        run.facts.settings.drafter if run.facts.settings is not None else "",
        k=k,
        stop_below=stop_below,
        costs=None if draft_cost is None else costs,
    )


def _title(run: RunReport) -> str:
    stats, settings = run.statistics, run.facts.settings
    model = None if run.facts.drafter is None else run.facts.drafter.name
    who = ""
    if settings is not None:
        k = AUTO if settings.adaptive else settings.num_draft_tokens
        who = f"{drafter_words(settings.drafter, model)}, K {k}, "
    title = f"run {run.started.run}: {who}{stats.tokens} tokens in {stats.rounds} rounds"
    return title if run.facts.synthetic is None else f"{SYNTHETIC_DRAFTS} {title}"


def _as_dict(run: RunReport, told: Explained) -> dict[str, object]:
    return {"run": run.started.run, **told.statistics.as_dict(run.facts.settings), **told.as_dict()}
