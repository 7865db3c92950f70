"""``spec bench CONFIG --tune``: which drafter and K are the fastest on a context, without the app."""

from __future__ import annotations

import json
import sys
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from engine import presets
from engine.config import Config, load_config
from engine.context import load_context, preset_context
from engine.errors import ContextError
from engine.tune_ranking import LeftOut, Ranked, Trying, Tuned, sentence
from engine.user_text import shown_name
from tui.console import Console
from tui.interrupts import Interrupts
from tui.safe_text import visible
from tui.terminal import Output, Progress
from tui.tune_rows import applied, draft_lines, heading, row_text, save_draft

if TYPE_CHECKING:
    from engine.context import Message

_WIDEST = 100
"""Columns that the table takes, however wide the terminal is."""


def tune_context(
    source: str,
    context: str | None,
    names: Sequence[str],
    overrides: Sequence[str],
    *,
    save: bool,
    json_only: bool,
) -> int:
    """Tune, tell the ranking, save the best if that is asked for; returns the exit code.

    Args:
        source: a configuration file or a preset.
        context: a file of messages, or "-"; None for the preset's own.
        names: models that may draft too.
        overrides: as ``--set`` takes them.
        save: write the best row into the file; a preset's is told instead.

    Raises:
        SpeculateError: as loading and tuning raise it.
    """
    config = load_config(source, overrides)
    messages = _messages(source, context)
    console = Console(Output(sys.stdout), Output(sys.stderr))
    with Interrupts() as interrupts:
        try:
            tuned, left_out = _measure(config, messages, names, console)
        except KeyboardInterrupt:
            console.end_answer()
            sys.stderr.write("stopped; nothing is ranked or saved\n")
            return interrupts.exit_code
    output = Output(sys.stdout)
    if not json_only:
        lines = tuned_lines(tuned, left_out, min(output.width, _WIDEST))
        output.write("".join(f"{visible(line, '')}\n" for line in lines))
    try:
        if save:
            _save(source, config, tuned.best)
    finally:  # a file that cannot be written loses no ranking
        output.write(json.dumps(tuned_json(tuned, left_out)) + "\n")
    return 0


def tuned_lines(tuned: Tuned, left_out: Sequence[LeftOut], width: int) -> list[str]:
    """The ranking as a table, and what came of it in words; no line wider than ``width``."""
    rows = [heading(width), *(row_text(row, width) for row in tuned.rows)]
    said = [sentence(tuned), *(f"Left out: {each.drafter}: {each.why}" for each in left_out)]
    return [*rows, "", *(line for text in said for line in textwrap.wrap(text, width)), ""]


def tuned_json(tuned: Tuned, left_out: Sequence[LeftOut]) -> dict[str, Any]:
    """The same for machines; an absent measure is null."""
    return {
        "ranking": [
            {
                "drafter": row.drafter or None,
                "k": row.k,
                "speedup": row.speedup,
                "speedup_low": row.low,
                "speedup_high": row.high,
                "measured": row.measured,
                "tau": row.tau,
                "settings": dict(row.settings),
            }
            for row in tuned.rows
        ],
        "left_out": {each.drafter: each.why for each in left_out},
        "prompt_tokens": tuned.prompt_tokens,
        "answer_tokens": tuned.answer_tokens,
        "seconds": round(tuned.seconds, 1),
    }


def _messages(source: str, context: str | None) -> tuple[Message, ...]:
    if context is not None:
        return load_context(context)
    if presets.is_preset(source):
        return preset_context(source)
    raise ContextError("--tune needs a context: K is chosen for one", "Name it: --context context.json.")


def _measure(
    config: Config, messages: Sequence[Message], names: Sequence[str], console: Console
) -> tuple[Tuned, list[LeftOut]]:
    from engine.session import Session
    from engine.tune import tune

    console.working("starting the engine")
    session = Session(config)
    progress, left_out = Progress(Output(sys.stderr)), list[LeftOut]()
    try:
        session.load(console.show)
        for event in tune(session, messages, names=names):
            if isinstance(event, Trying):
                detail = f"{event.seconds:.0f} s of at most {event.limit:.0f}: {visible(event.what, '')}"
                progress.update("tuning:", detail, event.seconds / event.limit)
            elif isinstance(event, LeftOut):
                left_out.append(event)
            elif isinstance(event, Tuned):
                return event, left_out
    finally:
        progress.clear()
        session.close()
    raise AssertionError("tuning that nobody cancels runs to its end")


def _save(source: str, config: Config, best: Ranked) -> None:
    """Save, or tell what to write; says on standard error which of them."""
    tuned = applied(config, best)
    err = Output(sys.stderr)
    if presets.is_preset(source):
        err.write("a preset cannot be changed; in a file of your own these lines do the same:\n")
        err.write("".join(f"{visible(line, '')}\n" for line in draft_lines(tuned).split("\n")))
    else:
        save_draft(tuned.draft, Path(source))
        err.write(f"saved in {shown_name(source)}\n")
