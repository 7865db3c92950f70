"""The sub-commands on recordings: compare, explain, export, replay, verify. Only the last may load models."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from engine.errors import UserError
from engine.recording import Recording, read_recording
from engine.user_text import shown_name
from tui.atomic_file import write_atomic
from tui.export.forms import FORMS, written
from tui.safe_text import visible, visible_bytes
from tui.terminal import Output

if TYPE_CHECKING:
    from tui.compare import Comparison, Token

ParserClass = type[argparse.ArgumentParser]


def read(path: str) -> Recording:
    """As much as can be read; what cannot is said on standard error."""
    recording = read_recording(path, tolerant=True)
    if recording.damage is not None:
        _warn(f"{recording.damage}. What comes before it was read.")
    elif recording.torn:
        _warn("The last line is cut short; what comes before it was read.")
    if recording.skipped:
        _warn(f"{recording.skipped} lines of kinds that this version does not know were left out.")
    return recording


def _warn(text: str) -> None:
    sys.stderr.write(f"warning: {visible(text, '')}\n")


def _export(words: Sequence[str], parser_class: ParserClass) -> int:
    parser = parser_class(
        prog="spec export",
        description="Write a recording as one HTML page, as Markdown, as JSON, its rounds as CSV, or as a"
        " cast that asciinema plays.",
    )
    parser.add_argument("recording", metavar="FILE", help="made with --record; - reads standard input")
    parser.add_argument("--to", choices=FORMS, required=True, metavar="FORMAT", help=", ".join(FORMS))
    parser.add_argument("--output", "-o", metavar="FILE", help="where to; default: standard output")
    options = parser.parse_args(words)
    recording = read(options.recording)
    text = written(recording, options.to)
    if options.output is None:
        _print(text)
        return 0
    target = Path(options.output)
    if target.exists():
        raise UserError(
            f"{shown_name(options.output)} exists", "Give another name, or remove that file first."
        )
    write_atomic(target, text)
    return 0


def _print(text: str) -> None:
    """To a pipe or file as it is; a terminal gets nothing that it would obey."""
    output = Output(sys.stdout)
    output.write(visible(text, "\n\t") if output.is_terminal else text)


def _verify(words: Sequence[str], parser_class: ParserClass) -> int:
    from tui.verify_command import verify

    return verify(words, parser_class)


def _explain(words: Sequence[str], parser_class: ParserClass) -> int:
    from tui.explain_command import explain

    return explain(words, parser_class)


def _replay(words: Sequence[str], parser_class: ParserClass) -> int:
    from tui.replay_command import replay

    return replay(words, parser_class)


def _compare(words: Sequence[str], parser_class: ParserClass) -> int:
    parser = parser_class(
        prog="spec compare",
        description="Set two recorded runs side by side: where their texts part, and their measures.",
    )
    parser.add_argument("first", metavar="A", help="made with --record")
    parser.add_argument("second", metavar="B", help="another one, or the same file with --runs")
    parser.add_argument(
        "--runs",
        nargs=2,
        type=int,
        metavar="N",
        help="numbers of the runs in A and in B; default: the last ones",
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    options = parser.parse_args(words)
    from tui.compare import chosen_run, compare_runs
    from tui.export.report import build_report

    numbers = options.runs or (None, None)
    runs = []
    for path, number in zip((options.first, options.second), numbers, strict=True):
        recording = read(path)
        runs.append(chosen_run(build_report(recording.header, recording.events), number, shown_name(path)))
    comparison = compare_runs(*runs)
    if options.json:
        sys.stdout.write(json.dumps(comparison.as_dict()) + "\n")
    else:
        for line in _comparison_lines(comparison):
            say(line)
    return 0


def _comparison_lines(comparison: Comparison) -> Iterator[str]:
    from tui.compare_text import ratio_text, value_text

    if not comparison.same_prompt:
        yield "The prompts differ, so the answers need not agree."
    at = comparison.difference
    if at is None:
        yield f"The answers are the same: {len(comparison.first_tokens)} tokens."
    else:
        yield f"The answers part at token {at + 1}:"
        for name, tokens in (("A", comparison.first_tokens), ("B", comparison.second_tokens)):
            yield f"  {name}  {_around(tokens, at)}"
    yield ""
    rows = [("", "A", "B", "B / A")]
    for name, (first, second) in comparison.measures.items():
        rows.append((name, value_text(first), value_text(second), ratio_text(first, second)))
    for name, (first, second) in comparison.settings.items():
        rows.append((name, value_text(first), value_text(second), ""))
    widths = [max(len(row[column]) for row in rows) for column in range(4)]
    for row in rows:
        cells = [row[0].ljust(widths[0]), *(row[column].rjust(widths[column]) for column in (1, 2, 3))]
        yield "  ".join(cells).rstrip()


def _around(tokens: Sequence[Token], at: int) -> str:
    before = b"".join(token.piece for token in tokens[max(at - 8, 0) : at]).decode("utf-8", "replace")
    if at >= len(tokens):
        return f"...{visible(before, '')}  (no more tokens)"
    token = tokens[at]
    piece = visible_bytes(token.piece) or "(nothing)"
    return f"...{visible(before, '')}[{piece}]  id {token.id}, {token.origin.value}, round {token.round}"


def say(text: str) -> None:
    """A line on standard output."""
    sys.stdout.write(visible(text, "") + "\n")


COMMANDS: dict[str, Callable[[Sequence[str], ParserClass], int]] = {
    "compare": _compare,
    "explain": _explain,
    "export": _export,
    "replay": _replay,
    "verify": _verify,
}
