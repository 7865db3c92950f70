"""What the documents point to is there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
DOCUMENTS = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")])


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_links(document: Path) -> None:
    text = document.read_text("utf-8")
    links = re.findall(r"\]\((?!https?:|#)([^)#]+)", text)
    missing = [link for link in links if not (document.parent / link).exists()]
    assert not missing


def test_the_readme_draws_the_tree_that_is_there() -> None:
    tree = re.search(r"## The tree\n\n```\n(.*?)```", (ROOT / "README.md").read_text("utf-8"), re.DOTALL)
    assert tree
    folder = ""
    named = set()
    for line in tree[1].splitlines():
        name = line.split()[0]
        folder = name if not line.startswith(" ") else folder
        named.add(name if not line.startswith(" ") else folder + name)
        assert (ROOT / (name if not line.startswith(" ") else folder + name)).exists(), name
    assert "engine/speculate.py" in named
