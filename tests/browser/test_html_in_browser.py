"""Exported pages in a real browser, without scripts and without a network: what a reader sees."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.browser import Browser
from support.documents import TEXTS, demo, hostile, saying

from engine.events import Origin, Round, Verdict
from tui.export.html import as_html
from tui.export.report import Report
from tui.round_text import ORIGIN_MARKS, VERDICT_MARKS
from tui.safe_text import visible, visible_bytes

pytestmark = pytest.mark.browser

KINDS = ("accepted", "rejected", "ignored", "correction", "bonus")
LEAST_CONTRAST = 4.5
"""WCAG 2.2, 1.4.3, for text of the usual size."""


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with Browser(tmp_path_factory.mktemp("profile")) as opened:
        yield opened


def show(browser: Browser, report: Report, folder: Path) -> Path:
    page = folder / "run.html"
    page.write_text(as_html(report), "utf-8")
    browser.open(page)
    return page


def wanted_tokens(report: Report) -> list[tuple[str, str]]:
    """Kind and text of every token, from the events."""
    return [token for run in report.runs for round_ in run.rounds for token in _tokens(round_)]


def _tokens(round_: Round) -> Iterator[tuple[str, str]]:
    for draft in round_.drafts:
        yield draft.verdict.value, _shown(VERDICT_MARKS[draft.verdict], draft.piece)
    target = round_.target
    yield target.origin.value, _shown(ORIGIN_MARKS[target.origin], target.piece)


def _shown(mark: str, piece: bytes) -> str:
    return mark.strip() + (visible_bytes(piece) or "(nothing)")


def look(token: dict[str, Any]) -> tuple[str, ...]:
    return token["color"], token["weight"], token["line"], token["slant"]


def contrast(first: str, second: str) -> float:
    """WCAG's contrast of two opaque colours as a browser writes them: rgb(1, 2, 3)."""
    bright, dark = sorted(map(_luminance, (first, second)), reverse=True)
    return (bright + 0.05) / (dark + 0.05)


def _luminance(color: str) -> float:
    match = re.fullmatch(r"rgb\((\d+), (\d+), (\d+)\)", color)
    assert match, f"not opaque: {color}"
    parts = [int(part) / 255 for part in match.groups()]
    red, green, blue = (
        part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts
    )
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


@pytest.mark.parametrize("make", [demo, hostile])
def test_every_token_stands_there_as_it_was_recorded(browser: Browser, make: Any, tmp_path: Path) -> None:
    report = make()
    show(browser, report, tmp_path)
    tokens = browser.styled(".token")
    assert [(token["kind"].removeprefix("token "), token["text"]) for token in tokens] == wanted_tokens(
        report
    )
    assert all(token["shown"] for token in tokens)
    answers = [token["text"] for token in browser.styled("pre.answer")]
    assert answers == [visible(run.text) for run in report.runs]
    context = [token["text"] for token in browser.styled("pre:not(.answer)")]
    assert context == [visible(content) for _, content in report.context]


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_each_kind_has_a_look_of_its_own_that_can_be_read(
    browser: Browser, scheme: str, tmp_path: Path
) -> None:
    browser.scheme(scheme)
    show(browser, demo(), tmp_path)
    back = browser.style("body", "backgroundColor")
    assert (_luminance(back) > 0.5) == (scheme == "light")
    looks: dict[str, set[tuple[str, ...]]] = {}
    for token in browser.styled(".token"):
        looks.setdefault(token["kind"].removeprefix("token "), set()).add(look(token))
    assert looks.keys() == set(KINDS)
    assert all(len(found) == 1 for found in looks.values()), looks
    (colors, whole) = ({next(iter(found))[0] for found in looks.values()}, set.union(*looks.values()))
    assert len(colors) == len(whole) == len(KINDS)
    for kind, found in looks.items():
        assert contrast(next(iter(found))[0], back) >= LEAST_CONTRAST, kind
    (rejected,) = looks[Verdict.REJECTED]
    assert rejected[2] == "line-through"
    (correction,), (bonus,) = looks[Origin.CORRECTION], looks[Origin.BONUS]
    assert correction[1:3] == ("700", "underline")
    assert bonus[1:3] == ("700", "none")


@pytest.mark.parametrize("make", [demo, hostile])
def test_nothing_is_asked_for_and_nothing_complained_about(
    browser: Browser, make: Any, tmp_path: Path
) -> None:
    page = show(browser, make(), tmp_path)
    assert browser.requests() == [page.as_uri()]
    assert browser.complaints() == []


def test_text_makes_no_element(browser: Browser, tmp_path: Path) -> None:
    show(browser, saying([f"word {number}" for number in range(len(TEXTS))]), tmp_path)
    harmless = browser.tags()
    show(browser, hostile(), tmp_path)
    assert browser.tags() == harmless
    assert {*harmless} == {
        *("html", "head", "meta", "title", "style", "body", "section", "h1", "h2", "h3", "p", "pre", "span"),
        *("table", "tbody", "tr", "th", "td"),
    }
    assert browser.title == "A run of speculative decoding"


def test_the_browser_would_tell(browser: Browser, tmp_path: Path) -> None:
    """What the tests above look for can be seen where it is; the page's own scripts are off."""
    page = tmp_path / "loud.html"
    page.write_text(
        "<title>still</title><script>document.title = 'ran'</script>"
        "<img src='http://example.org/picture.png' onerror='document.title = 1'>"
    )
    browser.open(page)
    assert browser.title == "still"
    assert browser.requests() == [page.as_uri(), "http://example.org/picture.png"]
    assert any("picture.png" in complaint for complaint in browser.complaints())
    assert "img" in browser.tags()
