"""The sub-commands that run no model: models, paths, schema; the others have files of their own."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from engine.errors import UserError
from tui.failures import state_dir
from tui.interrupts import Interrupts
from tui.safe_text import visible
from tui.terminal import Output, Progress

ParserClass = type[argparse.ArgumentParser]


def run_command(name: str, words: Sequence[str], parser_class: ParserClass) -> int:
    """Run one sub-command and return the exit code. Raises SpeculateError."""
    if name in _COMMANDS:
        return _COMMANDS[name](words, parser_class)
    from tui import recording_commands

    return recording_commands.COMMANDS[name](words, parser_class)


def _schema(words: Sequence[str], parser_class: ParserClass) -> int:
    parser = parser_class(
        prog="spec schema", description="Print the JSON Schema of a configuration file, or of recordings."
    )
    parser.add_argument(
        "of",
        nargs="?",
        choices=("config", "recording"),
        default="config",
        help="config (default) or recording",
    )
    parser.add_argument("--write", metavar="FILE", help="write it to a file instead")
    options = parser.parse_args(words)
    if options.of == "recording":
        from engine.recording_schema import recording_schema

        text = json.dumps(recording_schema(), indent=2, ensure_ascii=False) + "\n"
    else:
        from engine.config import schema_text

        text = schema_text()
    if options.write is None:
        sys.stdout.write(text)
    else:
        try:
            Path(options.write).write_text(text, encoding="utf-8")
        except OSError as error:
            why = (error.strerror or str(error)).lower()
            raise UserError(f"cannot write {options.write}: {why}", "Give the path of a file.") from error
    return 0


def _paths(words: Sequence[str], parser_class: ParserClass) -> int:
    parser_class(prog="spec paths", description="Print where this program keeps its files.").parse_args(words)
    from engine.models.cache import cache_dir
    from tui.conversation_store import default_folder
    from tui.keymap import keymap_path
    from tui.recording_folder import default_folder as recordings

    places = {
        "models and cache": cache_dir(),
        "conversations": default_folder(),
        "recordings": recordings(),
        "keys": keymap_path(),
        "error logs": state_dir(),
    }
    for label, path in places.items():
        there = "" if path.exists() else "  (not there yet)"
        _say(f"{label + ':':<18}{path}{there}")
    return 0


def _models(words: Sequence[str], parser_class: ParserClass) -> int:
    parser = parser_class(
        prog="spec models",
        description="List the built-in model and what this program's cache holds, or fetch a model into it.",
    )
    parser.add_argument("action", nargs="?", choices=("list", "fetch"), default="list")
    parser.add_argument("name", nargs="?", metavar="NAME", help="what to fetch, as in a configuration file")
    options = parser.parse_args(words)
    if options.action == "list":
        if options.name is not None:
            parser.error("list takes no NAME")
        return _list_models()
    if options.name is None:
        parser.error("fetch needs the NAME of a model, such as builtin:smollm2-135m")
    return _fetch(options.name)


def _list_models() -> int:
    from engine.models.builtin import BUILTINS, PREFIX, is_cached
    from engine.models.cache import cache_dir

    for name, model in BUILTINS.items():
        state = "here" if is_cached(PREFIX + name) else f"not fetched, {model.download_bytes / _MB:.0f} MB"
        _say(f"{PREFIX + name}  ({state}, {model.licence})")
    converted = sorted(cache_dir().glob("gguf/*/config.json"))
    if converted:
        _say("\nconverted from GGUF files:")
    for config in converted:
        size = sum(file.stat().st_size for file in config.parent.iterdir() if file.is_file())
        _say(f"  {_name_of(config.parent)}  ({size / _MB:.0f} MB)  {config.parent}")
    return 0


def _name_of(folder: Path) -> str:
    """What the GGUF file called itself."""
    from engine.models.gguf import NOTE

    try:
        name = json.loads((folder / NOTE).read_text(encoding="utf-8")).get("name")
    except (OSError, ValueError, AttributeError):
        return "unnamed"
    return name if isinstance(name, str) else "unnamed"


def _fetch(name: str) -> int:
    from engine.models.load import describe

    progress = Progress(Output(sys.stderr))

    def show(stage: str, done: int, total: int | None) -> None:
        detail = f"{done / total:.0%}" if total else ""
        progress.update(f"{visible(name, '')}: {stage}", detail, done / total if total else None)

    with Interrupts() as interrupts:
        try:
            source = describe(name, show)
        except KeyboardInterrupt:
            return interrupts.exit_code
        finally:
            progress.clear()
    _say(f"{name}: ready in {source.folder.path}")
    return 0


def _say(text: str) -> None:
    sys.stdout.write(visible(text) + "\n")


_MB = 10**6


def _bench(words: Sequence[str], parser_class: ParserClass) -> int:
    from tui.bench_command import bench

    return bench(words, parser_class)


def _doctor(words: Sequence[str], parser_class: ParserClass) -> int:
    from tui.doctor_command import doctor

    return doctor(words, parser_class)


_COMMANDS: dict[str, Callable[[Sequence[str], ParserClass], int]] = {
    "bench": _bench,
    "doctor": _doctor,
    "models": _models,
    "paths": _paths,
    "schema": _schema,
}
