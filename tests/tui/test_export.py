"""Recordings as documents: everything is in them, and nothing of it acts."""

from __future__ import annotations

import csv
import io
import json
import re
import subprocess
import sys
from collections.abc import Sequence
from html.parser import HTMLParser
from pathlib import Path

import pytest
from support.documents import demo, hostile, story
from support.nasty import OBEYED
from support.scripted import make_round

from engine.events import BaselineFinished, EndReason, Event, RunFinished, Verdict
from engine.recording import Recorder, read_recording
from tui.export.cast import as_cast
from tui.export.html import as_html
from tui.export.markdown import as_markdown
from tui.export.report import Report, build_report
from tui.export.tables import COLUMNS, as_csv, as_json
from tui.playable import PATH

FORMATS = {"html": as_html, "md": as_markdown, "json": as_json, "csv": as_csv}


class Page(HTMLParser):
    """Reads a page: its tags, the classes of its spans with their text, and what it would load."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: list[str] = []
        self.open: list[str] = []
        self.loads: list[str] = []
        self.tokens: list[tuple[str, str]] = []
        self.answer: list[tuple[str, str]] = []
        self._spans: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: Sequence[tuple[str, str | None]]) -> None:
        told = dict(attrs)
        self.tags.append(tag)
        self.loads += [name for name in told if name in {"src", "href", "srcset", "data", "action"}]
        assert not any(name.startswith("on") for name in told), told
        if tag not in {"meta", "br", "link"}:
            self.open.append(tag)
        if tag == "span":
            self._spans.append(told.get("class") or "")

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag, f"</{tag}> ends something else"
        if tag == "span":
            self._spans.pop()

    def handle_data(self, data: str) -> None:
        if self._spans and self._spans[-1].startswith("token "):
            self.tokens.append((self._spans[-1].removeprefix("token "), data))
        elif self._spans and "pre" in self.open:
            self.answer.append((self._spans[-1], data))


def test_the_page_has_every_round_and_token() -> None:
    report = demo()
    (run,) = report.runs
    page = Page(as_html(report))
    assert not page.open
    wanted = [each.verdict.value for round_ in run.rounds for each in round_.drafts]
    drafts = [kind for kind, _ in page.tokens if kind in set(Verdict)]
    assert drafts == wanted
    assert len(page.tokens) == len(wanted) + len(run.rounds)
    assert "".join(text for _, text in page.answer) == run.text
    assert {"accepted", "correction", "bonus"} <= {kind for kind, _ in page.answer}
    assert page.tags.count("tr") >= len(run.rounds)


@pytest.mark.parametrize("report", [demo(), hostile()], ids=["demo", "hostile"])
def test_the_page_loads_and_runs_nothing(report: Report) -> None:
    text = as_html(report)
    page = Page(text)
    assert not page.open
    assert not page.loads
    assert not {"script", "iframe", "img", "link", "object", "form", "base"} & {*page.tags}
    style = text[text.index("<style>") : text.index("</style>")]
    assert "url(" not in style and "@import" not in style
    assert "default-src 'none'" in text


@pytest.mark.parametrize("form", FORMATS)
def test_no_text_acts(form: str) -> None:
    text = FORMATS[form](hostile())
    assert not OBEYED.search(text.replace("\n", "").replace("\t", "")), form
    text.encode("utf-8")


def test_markdown_keeps_its_shape() -> None:
    text = as_markdown(hostile())
    fence: str | None = None
    outside = []
    for line in text.splitlines():
        mark = re.fullmatch("`{3,}", line)
        if fence is None and mark:
            fence = line
        elif fence is not None and line == fence:
            fence = None
        elif fence is None:
            outside.append(line)
    assert fence is None, "a code block is open at the end"
    prose = "\n".join(outside)
    assert not re.search(r"(?<!\\)<[a-z/]", prose)
    assert not re.search(r"(?<!\\)\]\(", prose)
    headings = {"# A run of speculative decoding", "## Run 1", "### Answer", "### Rounds"}
    assert {line for line in outside if line.startswith("#")} == headings
    rows = [line for line in outside if line.startswith("|")]
    assert {len(re.findall(r"(?<!\\)\|", line)) for line in rows} <= {3, 5}


def test_the_csv_has_a_line_a_round_and_no_formula() -> None:
    for report in (demo(), hostile()):
        rows = list(csv.DictReader(io.StringIO(as_csv(report))))
        (run,) = report.runs
        assert [int(row["round"]) for row in rows] == [each.number for each in run.rounds]
        assert tuple(rows[0]) == COLUMNS
        for row in rows:
            for name in ("drafts", "target", "text", "k_reason"):
                assert not row[name].startswith(("=", "+", "-", "@")), row[name]


def test_the_json_has_the_measures_by_their_names() -> None:
    report = demo()
    told = json.loads(as_json(report))
    (run,) = told["runs"]
    assert run["measures"] == json.loads(json.dumps(report.runs[0].measures))
    assert run["measures"]["speedup"] > 1
    assert len(run["rounds"]) == run["measures"]["rounds"]
    assert told["recording"]["context"] == report.header["context"]
    assert told["incomplete"] is False


def test_several_runs_stand_one_below_the_other() -> None:
    end = RunFinished(0, 0, EndReason.ROUNDS, " tail", 8, 10.0, 40.0, 60.0)
    timed = BaselineFinished(0, 0, 8, tuple(range(8)), 240.0, 10.0, True, None, True)
    one: list[Event] = [*story(), make_round(1, 3, 3), make_round(2, 3, 3), end, timed]
    report = build_report({}, [*one, *story(), make_round(1, 3, 0)])
    first, second = report.runs
    assert first.text.endswith(" tail")
    assert first.measures["speedup"] == pytest.approx(4.0)
    assert second.measures["speedup"] is None
    assert Page(as_html(report)).tags.count("section") == 2


# -- the commands


def spec(*words: str, data: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    return subprocess.run([sys.executable, "-m", "tui", *words], input=data, capture_output=True, check=False)


@pytest.mark.parametrize("form", [*FORMATS, "cast"])
def test_export_writes_what_is_asked_for(form: str, tmp_path: Path) -> None:
    recording = read_recording(PATH)
    cast = as_cast(recording.header, recording.events)
    wanted = (cast if form == "cast" else FORMATS[form](demo())).encode("utf-8")
    out = tmp_path / f"report.{form}"
    done = spec("export", str(PATH), "--to", form, "--output", str(out))
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
    assert out.read_bytes() == wanted
    again = spec("export", str(PATH), "--to", form, "--output", str(out))
    assert again.returncode == 2
    assert b"exists" in again.stderr
    piped = spec("export", "-", "--to", form, data=PATH.read_bytes())
    assert piped.stdout == wanted


def test_a_damaged_file_is_written_as_far_as_it_goes(tmp_path: Path) -> None:
    lines = PATH.read_bytes().splitlines(keepends=True)
    at = [index for index, line in enumerate(lines) if line.startswith(b'{"event":"Round"')][4]
    broken = tmp_path / "broken.jsonl"
    broken.write_bytes(b"".join([*lines[:at], b"{garbage}\n", *lines[at + 1 :]]))
    done = spec("export", str(broken), "--to", "csv")
    assert done.returncode == 0
    assert b"line %d" % (at + 1) in done.stderr
    assert done.stdout.count(b"\n") > 2
    assert b"ends in the middle" in spec("export", str(broken), "--to", "md").stdout


def test_verify_says_whether_a_recording_is_sound(tmp_path: Path) -> None:
    fine = spec("verify", str(PATH))
    assert fine.returncode == 0
    assert b"nothing is wrong" in fine.stdout
    lines = PATH.read_text().splitlines()
    at = next(index for index, line in enumerate(lines) if '"verdict":"rejected"' in line)
    lines[at] = re.sub(r'"u":[0-9.]+', '"u":0.25', lines[at], count=1)
    forged = tmp_path / "forged.jsonl"
    forged.write_text("\n".join(lines) + "\n")
    found = spec("verify", str(forged))
    assert found.returncode == 1
    assert b"BUG: run 1, round" in found.stdout
    told = json.loads(spec("verify", "--json", str(forged)).stdout)
    assert {finding["check"] for finding in told["findings"]} == {"draw"}
    assert told["whole"] is True


def test_verify_reads_what_a_recorder_writes(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path / "empty.jsonl")
    recorder.write_header({})
    recorder.close()
    done = spec("verify", str(tmp_path / "empty.jsonl"))
    assert done.returncode == 0
    assert b"0 rounds" in done.stdout


def test_verify_repeats_the_shipped_recording_with_the_built_in_model() -> None:
    done = spec("verify", str(PATH), "--models", "--json")
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert told["repeated"]["rounds"] == told["rounds"] > 10
    assert not [finding for finding in told["findings"] if finding["grade"] == "BUG"]
    (free,) = told["repeated"]["free"]
    assert 0 < free["same_tokens"] <= free["tokens"] == demo().runs[0].statistics.tokens
    assert free["identical"] == (free["token"] is None)
    assert told["repeated"]["same_prompt"] is True


def test_verify_with_models_tells_where_a_free_run_parts(tmp_path: Path) -> None:
    lines = PATH.read_text().splitlines()
    at = max(index for index, line in enumerate(lines) if '"origin":"correction"' in line)
    event = json.loads(lines[at])
    event["target"]["id"] = event["tokens"][-1] = event["target"]["id"] + 1
    lines[at] = json.dumps(event)
    forged = tmp_path / "forged.jsonl"
    forged.write_text("\n".join(lines) + "\n")
    done = spec("verify", str(forged), "--models")
    assert done.returncode == 1
    said = done.stdout.decode()
    assert re.search(r"^BUG: run 1, round \d+: free: token \d+ is id \d+ ", said, re.MULTILINE)
    assert re.search(
        r"^run 1 once more, freely with seed 1: \d+ of \d+ tokens are the same, then it parts", said, re.M
    )
