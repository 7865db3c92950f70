"""``spec doctor``: what this machine, its libraries and a pair are good for, and what to change."""

from __future__ import annotations

import json
import re
import shutil
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tui.recording_commands import ParserClass
from tui.safe_text import visible
from tui.terminal import Output, Progress

if TYPE_CHECKING:
    from engine.doctor.facts import Facts
    from tui.model_list import ModelEntry

FORMAT, VERSION = "naive-speculate-doctor", 1


def doctor(words: Sequence[str], parser_class: ParserClass) -> int:
    """Run the sub-command and return the exit code. Raises SpeculateError."""
    parser = parser_class(
        prog="spec doctor",
        description="Tell what this machine, its libraries and a pair of models are good for, and what to"
        " change. Nothing is fetched or loaded. Exit code 1: the pair cannot run here, or the libraries"
        " cannot.",
    )
    parser.add_argument("config", metavar="CONFIG", nargs="?", default="builtin", help="default: builtin")
    parser.add_argument("--json", action="store_true", help="end with one line of JSON")
    parser.add_argument("--quick", action="store_true", help="measure nothing")
    parser.add_argument(
        "--set", action="append", default=[], metavar="KEY=VALUE", help="set a key, such as run.dtype=float32"
    )
    options = parser.parse_args(words)
    from engine.config import load_config
    from engine.doctor.examine import examine
    from tui.doctor_text import sections
    from tui.model_list import find_models

    config = load_config(options.config, options.set)
    output, progress = Output(sys.stdout, config.ui.color), Progress(Output(sys.stderr, config.ui.color))
    try:
        facts = examine(config, options.config, measure=not options.quick, on_stage=progress.update)
        models = find_models()
    finally:
        progress.clear()
    terminal = _terminal(output)
    for title, lines in sections(facts, models, terminal, output.width, without_home):
        output.write(
            output.styled(title, "1") + "\n" + "".join(f"{visible(line, '')}\n" for line in lines) + "\n"
        )
    if options.json:
        output.write(json.dumps(_private(as_dict(facts, models)), allow_nan=False) + "\n")
    return 1 if facts.problems else 0


def as_dict(facts: Facts, models: Sequence[ModelEntry]) -> dict[str, Any]:
    """Everything for programs; sizes in bytes, times in milliseconds, shares 0..1."""
    from engine.doctor.advice import advise
    from engine.doctor.expectation import expectation

    expected = expectation(facts)
    return {
        "format": FORMAT,
        "version": VERSION,
        "usable": not facts.problems,
        "problems": list(facts.problems),
        "facts": asdict(facts),
        "expectation": None
        if expected is None
        else {
            **asdict(expected),
            "plain_tokens_per_second": expected.plain_tokens_per_second,
            "break_even_alpha": expected.break_even_alpha,
        },
        "models": [
            {
                "name": entry.name,
                "place": entry.place.value,
                "here": entry.here,
                "disk_bytes": entry.disk_bytes,
                "problem": entry.problem,
            }
            for entry in models
        ],
        "advice": [asdict(advice) for advice in advise(facts)],
    }


def without_home(text: str) -> str:
    """The text with the user's own folder as "~": a report that is passed on should not name the user."""
    home = str(Path.home())
    return text if home == "/" else re.sub(rf"{re.escape(home)}(?![\w.-])", "~", text)


def _private(value: Any) -> Any:
    """JSON values with every text in them made private, before any of its letters becomes an escape."""
    if isinstance(value, str):
        return without_home(value)
    if isinstance(value, dict):
        return {name: _private(each) for name, each in value.items()}
    return [_private(each) for each in value] if isinstance(value, list | tuple) else value


def _terminal(output: Output) -> str:
    size = shutil.get_terminal_size()
    kind = f"{size.columns} x {size.lines}" if output.is_terminal else "none, this goes to a file or a pipe"
    colour = "colour" if output.color else "no colour"
    return f"{kind}; {colour}, {output.stream.encoding or 'ascii'}"
