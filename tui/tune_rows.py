"""The ranking of a tuned context as rows of text, and its best row as lines of a configuration."""

from __future__ import annotations

from pathlib import Path

from engine.config import Config, load_config
from engine.config_tables import DraftConfig
from engine.tune_ranking import Ranked
from tui.changes import with_values
from tui.config_file import fresh, save_config

_COLUMNS = (("K", 5), ("speedup", 8), ("spread", 13), ("tau", 5), ("known by", 9))
"""What stands to the right of the drafter, and how wide; two blanks before each."""


def heading(width: int) -> str:
    """Names of the columns."""
    return _line("drafter", tuple(name for name, _ in _COLUMNS), width)


def row_text(row: Ranked, width: int) -> str:
    """A row, exactly as wide as it may be."""
    spread = "-" if row.low is None or row.high is None else f"{row.low:.2f} .. {row.high:.2f}"
    values = (
        str(row.k),
        f"{row.speedup:.2f}x",
        spread,
        "-" if row.tau is None else f"{row.tau:.2f}",
        "timed" if row.measured else "predicted",
    )
    name = row.drafter if row.settings else f"{row.drafter}, as it is set"
    return _line("plain decoding" if row.is_plain else name, values, width)


def _line(name: str, values: tuple[str, ...], width: int) -> str:
    right = "".join(f"  {value:>{wide}}" for value, (_, wide) in zip(values, _COLUMNS, strict=True))
    room = max(1, width - len(right))
    return (name if len(name) <= room else f"{name[: room - 3]}...").ljust(room) + right


def applied(config: Config, row: Ranked) -> Config:
    """The configuration with a row's settings. Raises ConfigError."""
    return with_values(config, dict(row.settings))


def save_draft(draft: DraftConfig, path: Path) -> None:
    """Write who drafts, and K, into a configuration file; the rest stays. Raises ConfigError, DiskError."""
    config = load_config(str(path))
    save_config(config.model_copy(update={"draft": draft}), path)


def draft_lines(config: Config) -> str:
    """The table [draft] of a configuration, to be copied into a file."""
    lines = fresh(config).splitlines()
    start = lines.index("[draft]")
    end = next((at for at in range(start + 1, len(lines)) if lines[at].startswith("[")), len(lines))
    return "\n".join(line for line in lines[start:end] if line and not line.startswith("#"))
