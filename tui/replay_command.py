"""``spec replay``: a recording is played, in the app or as a headless run is printed."""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from engine.errors import UserError
from tui.recording_commands import ParserClass
from tui.terminal import Output

if TYPE_CHECKING:
    from tui.playable import Playable

_LONGEST_SLEEP_S = 0.2


def replay(words: Sequence[str], parser_class: ParserClass) -> int:
    """Run the sub-command and return the exit code. Raises SpeculateError."""
    parser = parser_class(
        prog="spec replay", description="Play a recording at its own pace, in the app or as lines."
    )
    parser.add_argument("recording", metavar="FILE", help="made with --record; - reads standard input")
    parser.add_argument(
        "--speed", type=_speed, default=1.0, metavar="X", help="times its own pace, 0.1 to 16"
    )
    parser.add_argument("--from", dest="start", type=int, metavar="N", help="begin with its round N")
    parser.add_argument("--follow", action="store_true", help="at its end, wait for more to be written")
    parser.add_argument("--print", action="store_true", help="print it as a headless run is printed")
    parser.add_argument("--ascii", action="store_true", help="the app draws with ASCII signs only")
    options = parser.parse_args(words)
    from tui.playable import open_recording

    if options.follow and options.recording == "-":
        raise UserError("--follow needs a file", "What comes through a pipe is read to its end first.")
    played = open_recording(options.recording, speed=options.speed, follow=options.follow)
    if options.start is not None:
        rounds = played.source.steps
        if not 1 <= options.start <= rounds:
            raise UserError(f"the recording has no round {options.start}", f"It has {rounds:,}, from 1 on.")
        played.source.seek_step(options.start - 1)
    if options.print:
        return _print(played)
    if options.recording == "-" and sys.stdout.isatty():
        _keys_from_terminal()
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise UserError("the app needs a terminal", "Add --print to play it without one.")
    from tui.keymap import load_keymap
    from tui.launch import first_launch
    from tui.start import run_app

    ascii_only = options.ascii or Output(sys.stdout).ascii_only
    launch = first_launch(ascii_only=ascii_only, keymap=load_keymap())
    return run_app(replace(launch, demo=False, replay=played))


def _keys_from_terminal() -> None:
    """Standard input was the recording: from here on it is the terminal, if there is one."""
    try:
        terminal = os.open("/dev/tty", os.O_RDWR)
    except OSError:
        return
    os.dup2(terminal, sys.stdin.fileno())
    os.close(terminal)


def _speed(text: str) -> float:
    from tui.schedule import FASTEST, SLOWEST

    speed = float(text)
    if not SLOWEST <= speed <= FASTEST:
        raise argparse.ArgumentTypeError(f"from {SLOWEST:g} to {FASTEST:g}")
    return speed


def _print(played: Playable) -> int:
    from engine.events import Event, RunStarted
    from tui.console import Console
    from tui.interrupts import Interrupts

    console = Console(Output(sys.stdout), Output(sys.stderr), verbose=True)
    source = played.source
    source.tells_all = True
    source.play()
    runs = 0
    with Interrupts() as interrupts:
        try:
            while source.follow or not source.at_end:
                for event in source.poll():
                    if isinstance(event, RunStarted) and not event.resumed:
                        runs += 1
                        if runs > 1:
                            console.next_answer(f"run {event.run}")
                    if isinstance(event, Event):
                        console.show(event)
                time.sleep(min(source.next_due_s or 0.0, _LONGEST_SLEEP_S))
        except KeyboardInterrupt:
            return interrupts.exit_code
        finally:
            console.end_answer()
    if source.tape.damage is not None:
        console.note(f"it ends early: {source.tape.damage}")
    elif source.tape.torn:
        console.note("its last line is cut short, and was left out")
    return 0
