"""The ``spec`` command. Start-up imports neither torch nor textual nor pydantic, so ``--help`` is instant."""

from __future__ import annotations

import argparse
import os
import sys
import textwrap
from collections.abc import Callable, Sequence
from contextlib import closing
from typing import TYPE_CHECKING, Any, NoReturn

from engine import __version__, presets
from engine.errors import ResourceError, UserError
from tui.failures import EXIT_BROKEN_PIPE, report
from tui.interrupts import Interrupts

if TYPE_CHECKING:
    from engine.config import Config, Override
    from engine.context import Message
    from engine.recording import Recorder
    from tui.console import Console

SUBCOMMANDS = (
    *("bench", "compare", "doctor", "explain", "export", "models", "paths"),
    *("replay", "schema", "verify"),
)
"""First words that are no configuration; a file of such a name is written ./schema."""

WELCOME = """\
Naive Speculate: does speculative decoding pay with this pair of models, on this
machine, for this text?

Try it on the model that comes with it:
  spec builtin

With your own models and text:
  spec config.toml context.json --rounds 10 --verbose

In a terminal of its own, `spec` opens the app. All options: spec --help
"""

DESCRIPTION = """\
Run speculative decoding and measure it against plain decoding of the same
target. The answer goes to standard output, everything else to standard error."""

_PRESETS = "\n".join(
    textwrap.fill(text, 80, initial_indent=f"  {name:<10}", subsequent_indent=" " * 12)
    for name, text in presets.PRESETS.items()
)
EPILOG = f"""\
presets:
{_PRESETS}

other commands:
  spec bench    many prompts, each beside plain decoding; --quick: 3 minutes
  spec compare  two recordings side by side: measures, first difference
  spec doctor   what this machine and a pair are good for, and what to change
  spec explain  why a recorded run was faster or slower, and what would help
  spec export   a recording as a page, a report, a table, JSON, or a cast
  spec models   what is on this machine; spec models fetch NAME downloads
  spec paths    where this program keeps its files
  spec replay   play a recording, in the app or as lines
  spec schema   the JSON Schema of a configuration file, or of recordings
  spec verify   check the arithmetic of a recording again

keys of the app: F1 there; yours go into the file that `spec paths` names

exit codes:
  0    fine
  1    the engine failed
  2    your input cannot be used
  3    memory, disk or network failed
  130  Ctrl-C          143  SIGTERM
  141  the output was closed

environment:
  NO_COLOR      no colour, unless --color always
  SPEC_DEBUG    1 shows tracebacks, as --debug does
"""

SessionFactory = Callable[["Config", "Recorder | None"], Any]


class Parser(argparse.ArgumentParser):
    """argparse, with errors told as all others are."""

    def error(self, message: str) -> NoReturn:
        """Raise UserError."""
        raise UserError(message, f"{self.prog} --help lists what it takes.")


class _Formatter(argparse.RawDescriptionHelpFormatter):
    def __init__(self, prog: str) -> None:
        super().__init__(prog, max_help_position=22, width=80)


def build_parser() -> argparse.ArgumentParser:
    """The parser of a headless run."""
    parser = Parser(
        prog="spec",
        usage="spec [CONFIG [CONTEXT]] [options]",
        description=DESCRIPTION,
        epilog=EPILOG,
        formatter_class=_Formatter,
        allow_abbrev=False,
    )
    parser.add_argument("config", metavar="CONFIG", nargs="?", help="a TOML file or a preset")
    parser.add_argument(
        "context", metavar="CONTEXT", nargs="?", help="a JSON list of messages, or -; presets have their own"
    )
    parser.add_argument("-r", "--rounds", type=int, metavar="N", help="end after N rounds (default 10)")
    parser.add_argument("--max-new-tokens", type=int, metavar="N", help="end after N tokens")
    parser.add_argument("--seed", type=int, metavar="N", help="repeat a run (default: a fresh seed)")
    parser.add_argument("--no-baseline", action="store_true", help="do not time plain decoding")
    parser.add_argument("--record", metavar="FILE", help="write all that happens to a new file")
    parser.add_argument("--json", action="store_true", help="end with one line of JSON measures")
    parser.add_argument("--verbose", action="store_true", help="show each round's tokens and their fate")
    parser.add_argument(
        "--set", action="append", default=[], metavar="KEY=VALUE", help="set a key, such as run.dtype=float32"
    )
    parser.add_argument(
        "--color", choices=("auto", "always", "never"), metavar="WHEN", help="auto, always or never"
    )
    parser.add_argument("--app", action="store_true", help="open it in the app; so does spec alone")
    parser.add_argument("--ascii", action="store_true", help="the app draws with ASCII signs only")
    parser.add_argument("--debug", action="store_true", help="show the traceback of an error")
    parser.add_argument("--version", action="version", version=f"spec {__version__}")
    return parser


def main(argv: Sequence[str] | None = None, *, session_factory: SessionFactory | None = None) -> int:
    """Run the command line and return the exit code; nothing is raised.

    ``session_factory(config, recorder)`` makes the session (default: ``engine.session.Session``).
    """
    words = list(sys.argv[1:] if argv is None else argv)
    debug = "--debug" in words or os.environ.get("SPEC_DEBUG", "") not in {"", "0"}
    try:
        return _dispatch(words, session_factory)
    except SystemExit as stop:  # argparse, after --help and --version
        return stop.code if isinstance(stop.code, int) else 0
    except KeyboardInterrupt:
        return 130
    except Exception as error:  # noqa: BLE001  # the boundary: every error becomes a message and a code
        try:
            return report(error, sys.stderr, debug=debug)
        except BrokenPipeError:
            return EXIT_BROKEN_PIPE
        except OSError:  # nobody can be told
            return ResourceError.exit_code


def run(*, session_factory: SessionFactory | None = None) -> NoReturn:
    """The ``spec`` executable."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:  # closed by the caller
            setattr(sys, name, os.fdopen(os.open(os.devnull, os.O_WRONLY), "w", encoding="utf-8"))
        else:
            # A terminal that is not UTF-8 gets \u escapes rather than an error.
            stream.reconfigure(errors="backslashreplace")
    code = main(session_factory=session_factory)
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    except OSError as error:
        code = code or report(error, sys.stderr)
    if code == EXIT_BROKEN_PIPE:
        # The interpreter flushes once more at its end, and would complain.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    sys.exit(code)


def _dispatch(words: list[str], session_factory: SessionFactory | None) -> int:
    if not words and not (sys.stdin.isatty() and sys.stdout.isatty()):
        sys.stdout.write(WELCOME)
        return 0
    if words and words[0] in SUBCOMMANDS:
        from tui.commands import run_command

        return run_command(words[0], words[1:], Parser)
    parser = build_parser()
    options = parser.parse_args(words)
    if options.app or not words or (options.ascii and options.config is None):
        return _app(options, session_factory)
    if options.config is None:
        parser.error("CONFIG is missing")
    return _headless(options, session_factory)


def _app(options: argparse.Namespace, session_factory: SessionFactory | None) -> int:
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise UserError("the app needs a terminal", "Leave --app out to run without one.")
    from engine.config import load_config
    from tui.keymap import load_keymap
    from tui.launch import first_launch, launch_with
    from tui.start import run_app
    from tui.terminal import Output

    looks: dict[str, Any] = {
        "ascii_only": options.ascii or Output(sys.stdout).ascii_only,
        "keymap": load_keymap(),
    }
    if options.config is None:
        launch = first_launch([*options.set, *_overrides(options)], **looks)
    else:
        config = load_config(options.config, [*options.set, *_overrides(options)])
        messages = None if options.context is None else _messages(options)
        launch = launch_with(config, options.config, messages, **looks)
    if session_factory is None:
        return run_app(launch)
    return run_app(launch, lambda config: session_factory(config, None))


def _headless(options: argparse.Namespace, session_factory: SessionFactory | None) -> int:
    from engine.config import load_config
    from engine.recording import Recorder
    from tui.console import Console
    from tui.terminal import Output

    config = load_config(options.config, [*options.set, *_overrides(options)])
    messages = _messages(options)
    out, err = Output(sys.stdout, config.ui.color), Output(sys.stderr, config.ui.color)
    console = Console(out, err, verbose=options.verbose)
    recorder = None if config.record.path is None else Recorder(config.record.path)
    try:
        with Interrupts() as interrupts:
            try:
                measures = _run(config, messages, console, recorder, interrupts, session_factory)
            except KeyboardInterrupt:
                return interrupts.exit_code
            finally:
                console.end_answer()
            console.summary(measures)
            if options.json:
                console.json(measures)
            if interrupts.signal is not None:
                return interrupts.exit_code
    finally:
        if recorder is not None:
            recorder.close()
    if recorder is not None and recorder.failure is not None:
        raise recorder.failure
    return 0


def _run(
    config: Config,
    messages: tuple[Message, ...],
    console: Console,
    recorder: Recorder | None,
    interrupts: Interrupts,
    session_factory: SessionFactory | None,
) -> dict[str, Any]:
    """Load, generate and measure; returns the measures. A signal ends the work early, what is done counts."""
    console.working("starting the engine")
    if session_factory is None:
        from engine.session import Session

        session_factory = Session
    session: Any = session_factory(config, recorder)
    with closing(session):
        session.load(console.show)
        console.facts.threads = session.header()["machine"]["threads"]
        interrupts.cancel = session.cancel
        _follow(session, session.generate(messages), console, interrupts)
        if config.run.baseline != "off" and interrupts.signal is None:
            _follow(session, session.baseline(), console, interrupts)
        measures: dict[str, Any] = session.statistics()
        return measures


def _follow(session: Any, events: Any, console: Console, interrupts: Interrupts) -> None:
    with closing(events):
        for event in events:
            console.show(event)
            if interrupts.signal is not None:
                # Once more: a signal before the first event came before the run could be cancelled.
                session.cancel()


def _overrides(options: argparse.Namespace) -> list[Override]:
    """What the options say, the way ``--set`` says it."""
    from engine.config import Override

    said = (
        ("run.rounds", options.rounds, f"--rounds {options.rounds}"),
        ("run.max_new_tokens", options.max_new_tokens, f"--max-new-tokens {options.max_new_tokens}"),
        ("sampling.seed", options.seed, f"--seed {options.seed}"),
        ("run.baseline", "off" if options.no_baseline else None, "--no-baseline"),
        ("record.path", options.record, f"--record {options.record}"),
        ("ui.color", options.color, f"--color {options.color}"),
    )
    return [Override(key, value, label) for key, value, label in said if value is not None]


def _messages(options: argparse.Namespace) -> tuple[Message, ...]:
    from engine.context import load_context, preset_context

    if options.context is not None:
        return load_context(options.context, sys.stdin)
    if not presets.is_preset(options.config):
        raise UserError(
            "no CONTEXT is given",
            'It is a JSON list such as [{"role": "user", "content": "Hello"}]; only presets have their own.',
        )
    return preset_context(options.config)
