"""``spec bench``: prompts by configurations, each beside plain decoding; kept if it is stopped."""

from __future__ import annotations

import argparse
import os
import shlex
import sys
import textwrap
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from engine.errors import ConfigError, ContextError, DiskError, UserError
from engine.user_text import nearest, shown_name
from tui.atomic_file import write_atomic
from tui.console import Console
from tui.interrupts import Interrupts
from tui.safe_text import visible
from tui.terminal import Output, Progress

if TYPE_CHECKING:
    from engine.bench.journal import Journal
    from engine.bench.trials.cells import Results
    from engine.bench.trials.events import Progress as Answering
    from engine.bench.trials.plan import K, Plan
    from engine.bench.trials.questions import Question
    from engine.bench.trials.sessions import Sessions
    from engine.bench.trials.units import Unit
    from engine.config import Config
    from engine.models.causal_lm import CausalLM
    from engine.session import Session

ParserClass = type[argparse.ArgumentParser]
_REPORTS = (".md", ".html")
_NOT_TUNED = (
    *("prompts", "category", "k", "rule", "temperature", "quick", "peers", "report", "state", "fresh"),
)
"""Options of a bench that say nothing to ``--tune``."""


def bench(words: Sequence[str], parser_class: ParserClass) -> int:
    """Run the sub-command and return the exit code. Raises SpeculateError."""
    options = _parser(parser_class).parse_args(words)
    if options.tune:
        return _tune(options)
    if options.names or options.save:
        raise ConfigError("--with and --save belong to --tune")
    plan = _plan(options)
    reports = [_report_path(name) for name in options.report]
    from engine.bench.journal import Journal
    from engine.bench.trials.facts import plan_key, state_path
    from engine.bench.trials.sessions import Sessions
    from engine.models.quiet import quiet

    key = plan_key(plan)
    keys = [_unit_key(question, repeat) for repeat in range(plan.repeats) for question in plan.questions]
    journal = Journal(Path(options.state) if options.state else state_path(key), key, keys, ("unit",))
    if options.fresh:
        journal.drop()
    quiet()
    console = Console(Output(sys.stdout), Output(sys.stderr))
    sessions = Sessions(_loader(console))
    command = shlex.join(["spec", "bench", *words])
    with Interrupts() as interrupts:
        try:
            results, facts = _measure(plan, journal, sessions, console, command)
        except KeyboardInterrupt:
            console.end_answer()
            _say_kept(journal, len(keys))
            return interrupts.exit_code
        finally:
            sessions.close()
    _tell(results, facts, reports, json_only=options.json)
    journal.drop()
    return 0


def _parser(parser_class: ParserClass) -> argparse.ArgumentParser:
    parser = parser_class(
        prog="spec bench",
        description="Decode prompts with each configuration and plainly, interleaved, and compare. A bench"
        " that was stopped goes on with the same command.",
    )
    add = parser.add_argument
    add("configs", nargs="+", metavar="CONFIG", help="TOML files or presets")
    prompts = parser.add_mutually_exclusive_group()
    prompts.add_argument("--context", metavar="FILE", help="one conversation: a JSON list of messages, or -")
    prompts.add_argument(
        "--prompts", metavar="FILE", help="JSON lines in Spec-Bench's keys (default: our own)"
    )
    add("--category", action="append", default=[], metavar="NAME", help="only these prompts; may be repeated")
    add("--k", type=_ks, default=(), metavar="LIST", help="such as 2,4,auto (default: the configuration's)")
    add("--rule", type=_words, default=(), metavar="LIST", help="verify_strategy, such as block,match")
    add("--temperature", type=_numbers, default=(), metavar="LIST", help="such as 0,1")
    add("--tokens", type=_positive, default=64, metavar="N", help="of an answer, at most (default 64)")
    add("--repeats", type=_positive, default=5, metavar="N", help="of each prompt, A B B A (default 5)")
    add("--quick", action="store_true", help="a prompt a category, 48 tokens, K = 2, 4, 8, 16, A B B A once")
    add("--peers", action="store_true", help="transformers' own loops too, on the same weights; greedy only")
    add("--seed", type=int, default=0, metavar="N", help="of the draws and of the bootstrap (default 0)")
    add("--set", action="append", default=[], metavar="KEY=VALUE", help="set a key of every configuration")
    add("--report", action="append", default=[], metavar="FILE", help="write FILE.md or FILE.html too")
    add("--json", action="store_true", help="print the JSON line only")
    add("--state", metavar="FILE", help="keep what is finished there (default: in the cache folder)")
    add(
        "--tune", action="store_true", help="instead: try drafters and K on --context for 30 s, and rank them"
    )
    add(
        "--with",
        action="append",
        default=[],
        dest="names",
        metavar="NAME",
        help="--tune: another drafter model",
    )
    add("--save", action="store_true", help="--tune: write the best into the configuration file")
    add("--fresh", action="store_true", help="measure anew what a stopped bench has finished")
    return parser


def _tune(options: argparse.Namespace) -> int:
    from tui.tune_command import tune_context

    if len(options.configs) != 1:
        raise ConfigError("--tune takes one configuration", "It tries other drafters and K by itself.")
    for name in _NOT_TUNED:
        if getattr(options, name):
            raise ConfigError(f"--{name} does not go with --tune", "It tunes on one --context for 30 s.")
    return tune_context(
        options.configs[0],
        options.context,
        options.names,
        options.set,
        save=options.save,
        json_only=options.json,
    )


# -- what is asked for


def _plan(options: argparse.Namespace) -> Plan:
    from engine.bench.trials.build import plan_of, quick_plan
    from engine.config import load_config

    configs: dict[str, Config] = {}
    for source in options.configs:
        if source in configs:
            raise ConfigError(f"{shown_name(source)} is named twice", "Name each configuration once.")
        configs[source] = load_config(source, options.set)
    more: dict[str, Any] = {
        "ks": options.k,
        "rules": options.rule,
        "temperatures": options.temperature,
        "tokens": options.tokens,
        "seed": options.seed,
        "peers": options.peers,
    }
    questions = _questions(options)
    if options.quick:
        return quick_plan(configs, questions, **more)
    return plan_of(configs, questions, repeats=options.repeats, **more)


def _questions(options: argparse.Namespace) -> tuple[Question, ...]:
    from engine.bench.trials.questions import load_questions, of_context, own_questions
    from engine.context import load_context

    if options.context is not None:
        found: tuple[Question, ...] = (
            of_context(load_context(options.context), shown_name(options.context)),
        )
    else:
        found = own_questions() if options.prompts is None else load_questions(options.prompts)
    known = tuple(dict.fromkeys(question.category for question in found))
    for name in options.category:
        if name not in known:
            near = nearest(name, known)
            hint = f"Categories are {', '.join(known)}" + (f"; did you mean {near}?" if near else ".")
            raise ContextError(f"--category {shown_name(name)}: there is no such prompt", hint)
    return tuple(each for each in found if not options.category or each.category in options.category)


def _ks(text: str) -> tuple[K, ...]:
    return tuple("auto" if word == "auto" else _whole(word) for word in _words(text))


def _numbers(text: str) -> tuple[float, ...]:
    try:
        return tuple(float(word) for word in _words(text))
    except ValueError:
        raise argparse.ArgumentTypeError(f"{shown_name(text)} is no list of numbers, such as 0,1") from None


def _words(text: str) -> tuple[str, ...]:
    found = tuple(word.strip() for word in text.split(","))
    if not all(found):
        raise argparse.ArgumentTypeError(f"{shown_name(text)} is no list of values, such as 2,4")
    return tuple(dict.fromkeys(found))


def _positive(text: str) -> int:
    value = _whole(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"must be 1 or more, not {value}")
    return value


def _whole(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{shown_name(text)} is no whole number") from None


def _report_path(name: str) -> Path:
    path = Path(name)
    if path.suffix not in _REPORTS:
        raise UserError(
            f"--report {shown_name(name)}: is neither .md nor .html", "The ending says what is written."
        )
    # Told now, not after minutes of measuring.
    if path.is_dir() or not (path.parent.is_dir() and os.access(path.parent, os.W_OK)):
        raise UserError(
            f"--report {shown_name(name)}: cannot be written", "Name a file in a folder of yours."
        )
    return path


# -- running it


def _loader(console: Console) -> Callable[[Config, CausalLM | None], Session]:
    def load(config: Config, target: CausalLM | None) -> Session:
        from engine.session import Session

        console.working("starting the engine")
        session = Session(config)
        session.shared_target = target
        session.load(console.show)
        return session

    return load


def _measure(
    plan: Plan, journal: Journal, sessions: Sessions, console: Console, command: str
) -> tuple[Results, dict[str, Any]]:
    """Run what is left of the plan; the results and what they depend on."""
    from engine.bench.trials.events import Finished
    from engine.bench.trials.events import Progress as Answering
    from engine.bench.trials.facts import facts_of, load_average
    from engine.bench.trials.run import run_trials
    from engine.bench.trials.units import dump_unit, parse_unit

    load_before = load_average()
    kept: dict[str, Unit] = {}
    for name, entry in journal.entries.items():
        with suppress(ValueError):  # a line that somebody changed: measured anew
            kept[name] = parse_unit(entry["unit"])
    if kept:
        said = f"{len(kept)} of {len(plan.questions) * plan.repeats} prompts are taken from a stopped bench"
        console.note(f"{said}; --fresh measures them anew")
    for arm in plan.arms:
        sessions.of(arm.config)
    seconds = sum(unit.seconds for unit in kept.values())

    def keep(unit: Unit) -> None:
        nonlocal seconds
        seconds += unit.seconds
        journal.add(unit.key, {"unit": dump_unit(unit)})

    progress = Progress(Output(sys.stderr))
    try:
        for event in run_trials(sessions.of, plan, kept=kept, keep=keep):
            if isinstance(event, Answering):
                progress.update(*_progress_words(event))
            elif isinstance(event, Finished):
                return event.results, facts_of(plan, sessions.held, command, seconds, load_before)
    finally:
        progress.clear()
    raise AssertionError("a bench that nobody cancels runs to its end")


def _progress_words(event: Answering) -> tuple[str, str, float]:
    left = "" if event.seconds_left is None else f", {_duration(event.seconds_left)} left"
    where = visible(f"{event.category}: {event.arm}", "")
    return "measuring:", f"{event.done} of {event.total}{left}, {where}", event.done / event.total


def _duration(seconds: float) -> str:
    return f"about {seconds / 60:.0f} min" if seconds >= 90 else f"about {seconds:.0f} s"


def _say_kept(journal: Journal, total: int) -> None:
    sys.stderr.write(
        f"stopped; {len(journal.entries)} of {total} prompts are kept, the same command goes on after them\n"
    )


def _unit_key(question: Question, repeat: int) -> str:
    from engine.bench.trials.units import key_of_unit

    return key_of_unit(question.id, repeat + 1)


# -- telling it


def _tell(results: Results, facts: dict[str, Any], reports: Sequence[Path], *, json_only: bool) -> None:
    from engine.bench.trials.html_page import html_page
    from engine.bench.trials.json_results import json_results
    from engine.bench.trials.markdown import markdown

    failure: DiskError | None = None
    for path in reports:
        text = (html_page if path.suffix == ".html" else markdown)(results, facts)
        try:
            write_atomic(path, visible(text), mode=0o666)
        except DiskError as error:
            failure = error  # what was measured is told all the same
    output = Output(sys.stdout)
    if not json_only:
        output.write("".join(f"{visible(line, '')}\n" for line in _lines(results, facts, output.width)))
    output.write(json_results(results, facts) + "\n")
    if failure is not None:
        raise failure


def _lines(results: Results, facts: dict[str, Any], width: int) -> list[str]:
    from engine.bench.trials.facts import fact_rows
    from engine.bench.trials.tables import category_lines, table_lines
    from engine.bench.trials.words import sentences

    lines = []
    for name, value in fact_rows(facts):
        lines += textwrap.wrap(value, width, initial_indent=f"{name:<14}", subsequent_indent=" " * 14)
    lines += ["", *table_lines(results.cells, width), *category_lines(results, width)]
    said = [textwrap.wrap(sentence, width) for sentence in sentences(results)]
    return [*lines, "", *(line for sentence in said for line in sentence), *([""] if said else [])]
