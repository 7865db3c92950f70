"""The headless run, told by a scripted session: what goes where, and with which exit code."""

from __future__ import annotations

import dataclasses
import io
import json
import os
import re
from pathlib import Path

import pytest
from support.scripted import TARGET, Script, Scripted, make_round

from engine.errors import Cancelled, NumericalError, OutOfMemory
from engine.events import EndReason, Notice
from engine.recording import read_recording
from tui.cli import main
from tui.safe_text import visible
from tui.summary import REASONS
from tui.terminal import cell_width

SGR = re.compile(r"\x1b\[[0-9;]*m")
NASTY = Script(
    rounds=(
        make_round(
            1, 2, 2, pieces=[b"a\x1b]52;c;aGk=\x07", b"\x9b".decode("latin-1").encode(), b"\r\x1b[2J"]
        ),
        make_round(2, 1, 0, pieces=[b"no", "\u202eevil\n\ttab".encode()]),
    )
)


def run(capsys: pytest.CaptureFixture[str], *argv: str, script: Script | None = None) -> tuple[int, str, str]:
    code = main(list(argv), session_factory=Scripted(script))
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def test_piped_output_is_the_answer_and_nothing_else(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = run(capsys, "builtin")
    assert code == 0
    assert out == " w1.0 w1.1 w1.2 w1.3 w2.0 w2.3 w3.3"
    assert "speedup" in err


def test_text_held_back_comes_at_the_end(capsys: pytest.CaptureFixture[str]) -> None:
    _, out, _ = run(
        capsys, "builtin", script=Script(rounds=(make_round(1, 1, 1, text=" w1"),), tail=".0 w1.1")
    )
    assert out == " w1.0 w1.1"


def test_piped_text_is_raw(capsys: pytest.CaptureFixture[str]) -> None:
    _, out, _ = run(capsys, "builtin", script=NASTY)
    assert out == "".join(round_.text for round_ in NASTY.rounds)


def test_coloured_text_is_visible_text_with_our_styles_only(capsys: pytest.CaptureFixture[str]) -> None:
    _, out, err = run(capsys, "builtin", "--color", "always", "--verbose", script=NASTY)
    text = "".join(round_.text for round_ in NASTY.rounds)
    assert SGR.sub("", out) == visible(text, "\n\t") + "\n"
    assert "\x1b[32m" in out
    assert "\x1b[1;4m" in out
    assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202e]", SGR.sub("", err))


def test_json_is_the_last_line(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, "builtin", "--json", "--seed", "5", script=Script(identical=True))
    assert code == 0
    text, _, line = out.rstrip("\n").rpartition("\n")
    assert text == " w1.0 w1.1 w1.2 w1.3 w2.0 w2.3 w3.3"
    told = json.loads(line)
    assert told["tokens"] == 7
    assert told["rounds"] == 3
    assert told["tau"] == pytest.approx(7 / 3)
    assert told["alpha_hat"] == pytest.approx(4 / 6)
    assert told["speedup"] == pytest.approx(25 * 7 / told_ms(told))
    assert told["identical"] is True
    assert told["predicted_speedup"] is None
    expected = {
        "reason": "rounds",
        "seed": 5,
        "device": "cpu",
        "dtype": "float32",
        "target": "scripted:target",
        "drafter": "lookup",
        "verify_strategy": "block",
    }
    assert told.items() >= expected.items()


def told_ms(told: dict[str, float]) -> float:
    return told["draft_ms"] + told["verify_ms"] + told["host_ms"]


def test_verbose_shows_each_verdict(capsys: pytest.CaptureFixture[str]) -> None:
    _, _, err = run(capsys, "builtin", "--verbose")
    assert "round 1: 3/3 accepted" in err
    assert "\u00b7w1.0  \u00b7w1.1  \u00b7w1.2  + \u00b7w1.3" in err
    assert "\u00b7w2.0  x \u00b7w2.1  . \u00b7w2.2  > \u00b7w2.3" in err
    assert "what the words mean" in err


def test_lines_fit_80_columns(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    long = make_round(1, 9, 4, pieces=[b"word" * 20, *("\u65e5\u672c".encode() * n for n in range(9))])
    _, _, err = run(
        capsys, "builtin", "--verbose", script=Script(rounds=(long,), identical=False, first_difference=4)
    )
    assert [line for line in err.splitlines() if cell_width(line) > 80] == []


def test_rounds_limit_the_run(capsys: pytest.CaptureFixture[str]) -> None:
    _, out, _ = run(capsys, "builtin", "-r", "1")
    assert out == " w1.0 w1.1 w1.2 w1.3"


def test_options_win_over_the_file_and_set(capsys: pytest.CaptureFixture[str]) -> None:
    factory = Scripted()
    argv = [
        "builtin",
        "--set",
        "run.rounds=9",
        "--rounds",
        "2",
        "--set",
        "run.dtype=float32",
        "--max-new-tokens",
        "50",
    ]
    assert main([*argv, "--no-baseline"], session_factory=factory) == 0
    config = factory.made[0].config
    assert (config.run.rounds, config.run.max_new_tokens, config.run.dtype) == (2, 50, "float32")
    assert config.run.baseline == "off"
    assert "plain decoding was not measured" in capsys.readouterr().err


def test_the_session_is_closed(capsys: pytest.CaptureFixture[str]) -> None:
    for script in (
        Script(),
        Script(run_error=NumericalError("NaN logits in float16")),
        Script(load_error=OSError()),
    ):
        factory = Scripted(script)
        main(["builtin"], session_factory=factory)
        assert factory.made[0].closed


def test_a_context_may_come_from_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    data = b'[{"role": "user", "content": "piped"}]'
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(data)))
    factory = Scripted()
    assert main(["builtin", "-"], session_factory=factory) == 0
    assert factory.made[0].messages[0].content == "piped"


@pytest.mark.parametrize(
    ("speedup_ms", "words"),
    [(7.625, " 2.00x"), (400.0, "slower than plain decoding: 0.")],
)
def test_a_loss_is_said_in_words(capsys: pytest.CaptureFixture[str], speedup_ms: float, words: str) -> None:
    rounds = (make_round(1, 3, 3, host_ms=speedup_ms),)
    _, _, err = run(capsys, "builtin", script=Script(rounds=rounds))
    line = next(line for line in err.splitlines() if line.startswith("speedup"))
    assert words in line
    assert line.endswith("x")


def test_the_share_of_the_host_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    one = make_round(1, 3, 3, host_ms=1.5)
    _, _, err = run(capsys, "builtin", script=Script(rounds=(one,)))
    line = next(line for line in err.splitlines() if line.startswith("a round takes"))
    assert line.endswith(f"host 1.5 ms, host {1.5 / one.ms:.1%} of it")


def test_a_difference_in_half_precision_is_explained(capsys: pytest.CaptureFixture[str]) -> None:
    target = dataclasses.replace(TARGET, dtype="bfloat16")
    script = Script(identical=False, first_difference=2, target=target)
    _, _, err = run(capsys, "builtin", script=script)
    words = " ".join(err.split())
    assert "token 3 is the first that differs" in words
    assert "float32 decides" in words


def test_notices_are_told(capsys: pytest.CaptureFixture[str]) -> None:
    notice = Notice(0, 0, "speculation_off", "speculation is off: \x1b[31m")
    _, _, err = run(capsys, "builtin", script=Script(notices=(notice,)))
    assert "note: speculation is off: \u241b[31m\n" in err


@pytest.mark.parametrize(
    ("error", "code", "line"),
    [
        (NumericalError("NaN logits in float16", "Try float32."), 1, "error: NaN logits in float16"),
        (OutOfMemory("memory ran out"), 3, "error: memory ran out"),
        (Cancelled("loading was cancelled"), 130, "loading was cancelled"),
        (OSError(5, "Input/output error"), 3, "error: input/output error"),
        (MemoryError(), 3, "error: memory ran out"),
    ],
)
def test_errors_keep_the_text(
    capsys: pytest.CaptureFixture[str], error: BaseException, code: int, line: str
) -> None:
    got, out, err = run(capsys, "builtin", script=Script(run_error=error))
    assert got == code
    assert out.startswith(" w1.0")
    assert line in err.splitlines()
    assert "Traceback" not in err


def test_hostile_error_messages_are_shown_safely(capsys: pytest.CaptureFixture[str]) -> None:
    error = NumericalError("bad\x1b]0;x\x07\nerror: fake")
    _, _, err = run(capsys, "builtin", script=Script(load_error=error))
    assert "error: bad\u241b]0;x\u2407\u240aerror: fake" in err.splitlines()


def test_an_unexpected_error_goes_to_a_log(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("tui.failures.state_dir", lambda: tmp_path / "state")
    script = Script(load_error=RuntimeError("surprise"))
    code, _, err = run(capsys, "builtin", script=script)
    assert code == 1
    assert "error: internal error: RuntimeError: surprise" in err
    assert "Traceback" not in err
    (log,) = (tmp_path / "state").iterdir()
    assert str(log) in err
    assert "Traceback" in log.read_text()
    _, _, err = run(capsys, "builtin", "--debug", script=script)
    assert "Traceback" in err


def test_a_recording_is_written(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    code, _, _ = run(capsys, "builtin", "--record", str(path))
    assert code == 0
    read = read_recording(path)
    assert read.header["config"]["record"]["path"] == str(path)
    assert read.header["context"][-1]["role"] == "user"
    assert [type(event).__name__ for event in read.events][-1] == "BaselineFinished"
    code, out, err = run(capsys, "builtin", "--record", str(path))
    assert (code, out) == (2, "")
    assert "the file exists" in err


def test_a_disk_that_fills_up_is_told_and_the_run_ends(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    real = os.write

    def full(fd: int, data: bytes) -> int:
        if b'"Round"' in bytes(data):
            raise OSError(28, "No space left on device")
        return real(fd, data)

    monkeypatch.setattr(os, "write", full)
    code, out, err = run(capsys, "builtin", "--record", str(tmp_path / "r.jsonl"))
    assert code == 3
    assert out.endswith("w3.3")
    assert "note: the recording ends here" in err
    assert "tau" in err
    assert len([line for line in err.splitlines() if line.startswith("error: ")]) == 1
    assert read_recording(tmp_path / "r.jsonl").events


def test_a_failed_load_leaves_no_file(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    script = Script(load_error=OutOfMemory("memory ran out"))
    code, _, _ = run(capsys, "builtin", "--record", str(tmp_path / "r.jsonl"), script=script)
    assert code == 3
    assert list(tmp_path.iterdir()) == []


def test_every_reason_has_words(capsys: pytest.CaptureFixture[str]) -> None:
    assert REASONS.keys() == set(EndReason)


def test_no_words_print_a_welcome(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = run(capsys)
    assert (code, err) == (0, "")
    assert "spec builtin" in out


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, "--version")
    assert code == 0
    assert re.fullmatch(r"spec \S.*\n", out)


def test_a_headless_run_is_recorded_where_it_was_told_only(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """``record.always`` is about the sessions of the app."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    path = tmp_path / "run.jsonl"
    code, _, _ = run(capsys, "builtin", "--set", "record.always=true", "--record", str(path))
    assert code == 0
    assert read_recording(path).events
    assert not (tmp_path / "state").exists()
