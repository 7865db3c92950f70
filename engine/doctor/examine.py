"""Finds all the facts, in the order in which they are cheap."""

from __future__ import annotations

import platform
import shutil
from collections.abc import Callable

from engine import __version__
from engine.config import Config
from engine.doctor.facts import Facts, Pair, Speed, Torch
from engine.doctor.versions import libraries
from engine.errors import ConfigError
from engine.machine import read_machine
from engine.models.cache import cache_dir


def examine(
    config: Config, name: str, *, measure: bool = True, on_stage: Callable[[str], None] = lambda _: None
) -> Facts:
    """What is to be known of this machine and a configuration; nothing is fetched.

    Args:
        name: of the configuration, as it was given.
        measure: time reads and products; without it a few seconds are saved.
        on_stage: told what goes on.
    """
    on_stage("looking at the machine")
    machine = read_machine()  # before torch keeps the processor busy
    torch = speed = pair = None
    on_stage("starting torch")
    problem = _import_problem()
    if problem is None:
        torch, pair, speed = _with_torch(config, name, measure=measure, on_stage=on_stage)
    return Facts(
        version=__version__,
        python=platform.python_version(),
        libraries=libraries(),
        machine=machine,
        cache=str(cache_dir()),
        cache_free=_cache_free(),
        torch=torch,
        torch_problem=problem,
        speed=speed,
        pair=pair,
    )


def _import_problem() -> str | None:
    """Why torch or transformers cannot be used at all."""
    try:
        import engine.doctor.pair  # noqa: F401 - brings both, and the libraries below them
    except (ImportError, OSError) as error:  # not installed, or its binary parts do not fit this system
        return f"a library cannot be imported: {' '.join(str(error).split())}"
    return None


def _with_torch(
    config: Config, name: str, *, measure: bool, on_stage: Callable[[str], None]
) -> tuple[Torch, Pair, Speed | None]:
    from engine.doctor.pair import examine_pair
    from engine.doctor.speed import measure_speed
    from engine.doctor.torch_facts import threads_as, torch_facts
    from engine.models.devices import resolve_device

    with threads_as(config.run.threads):
        found = torch_facts()
        on_stage("reading the models' files")
        pair = examine_pair(config, name)
        if not measure:
            return found, pair, None
        on_stage("measuring memory and products")
        try:
            device, _, _ = resolve_device(config.run.device)
        except ConfigError:
            device, _, _ = resolve_device("auto")  # what there is can be told all the same
        return found, pair, measure_speed(device, pair.target.bytes_a_token)


def _cache_free() -> int | None:
    """Free bytes of the disk that the cache folder is, or would be, on."""
    folder = cache_dir()
    existing = next((path for path in (folder, *folder.parents) if path.exists()), None)
    try:
        return None if existing is None else shutil.disk_usage(existing).free
    except OSError:
        return None
