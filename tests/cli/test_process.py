"""The command as a process: start-up, pipes, a real terminal, signals."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pyte
import pytest
from support.terminal import ROOT, environment, run_on_terminal, run_piped, spec_argv

from tui.cli import main
from tui.safe_text import visible

NASTY = r"a\x1b]52;c;aGk=\x07b\x9b31m\x1b[2Jc\rd\x08\u202e\n\tend"
NASTY_TEXT = NASTY.encode().decode("unicode_escape")
NASTY_SCRIPT = f'Script(rounds=(make_round(1, 1, 1, pieces=["{NASTY}".encode(), b" bonus"]),))'
SLOW = "Script(rounds=tuple(make_round(n, 2, 1) for n in range(1, 50)), pause_s=20)"
HEAVY = ("torch", "transformers", "textual", "rich", "pydantic", "numpy", "huggingface_hub")


def test_help_is_fast_and_light(tmp_path: Path) -> None:
    code = (
        "import sys\nfrom tui.cli import main\ncode = main(['--help'])\n"
        f"print([name for name in {HEAVY!r} if name in sys.modules], file=sys.stderr)\nsys.exit(code)"
    )
    done = run_piped([sys.executable, "-c", code], cwd=tmp_path)
    assert done.returncode == 0
    assert done.stderr.strip() == b"[]"
    assert all(len(line) <= 80 for line in done.stdout.decode().splitlines())
    # CPU time of a child, not the clock: other work on the machine does not count.
    timed = "import resource; print(sum(resource.getrusage(resource.RUSAGE_SELF)[:2]), file=sys.stderr)"
    done = run_piped(
        [sys.executable, "-c", f"{code.splitlines()[0]}\n{code.splitlines()[1]}\nmain(['-h'])\n{timed}"],
        cwd=tmp_path,
    )
    assert float(done.stderr) <= 0.25


def test_a_headless_run_imports_no_screen(tmp_path: Path) -> None:
    code = (
        f"import sys; sys.path.insert(0, {str(ROOT / 'tests')!r})\n"
        "from support.scripted import Scripted\nfrom tui.cli import main\n"
        "main(['builtin', '--verbose'], session_factory=Scripted())\n"
        "print([name for name in ('torch', 'transformers', 'textual') if name in sys.modules])"
    )
    done = run_piped([sys.executable, "-c", code], cwd=tmp_path)
    assert done.stdout.splitlines()[-1].endswith(b"[]")


def write(path: Path, data: bytes) -> str:
    path.write_bytes(data)
    return str(path)


CONFIG = b'[draft]\nmethod = "lookup"\n[verify]\nmodel_name = "m"\n'
CONTEXT = b'[{"role": "user", "content": "hi"}]'
BAD: dict[str, tuple[str, ...]] = {
    "no such config": ("nope.toml", "ok.json"),
    "directory for the config": ("folder", "ok.json"),
    "no context": ("ok.toml",),
    "no such context": ("ok.toml", "nope.json"),
    "directory for the context": ("ok.toml", "folder"),
    "empty context": ("ok.toml", "empty.json"),
    "wrong context": ("ok.toml", "wrong.json"),
    "huge context": ("ok.toml", "huge.json"),
    "unknown role": ("ok.toml", "role.json"),
    "unknown key": ("key.toml", "ok.json"),
    "broken config": ("broken.toml", "ok.json"),
    "no rounds": ("ok.toml", "ok.json", "--rounds", "0"),
    "rounds of words": ("ok.toml", "ok.json", "--rounds", "ten"),
    "no tokens": ("ok.toml", "ok.json", "--max-new-tokens", "0"),
    "bad seed": ("ok.toml", "ok.json", "--seed", "-1"),
    "bad set": ("ok.toml", "ok.json", "--set", "rounds"),
    "unknown set": ("ok.toml", "ok.json", "--set", "run.round=3"),
    "unknown option": ("ok.toml", "ok.json", "--fast"),
    "shortened option": ("ok.toml", "ok.json", "--round", "3"),
    "too many words": ("ok.toml", "ok.json", "more"),
    "bad colour": ("ok.toml", "ok.json", "--color", "blue"),
    "recording in no folder": ("ok.toml", "ok.json", "--record", "no/r.jsonl"),
    "recording to a folder": ("ok.toml", "ok.json", "--record", "folder"),
    "recording over a file": ("ok.toml", "ok.json", "--record", "ok.toml"),
    "control characters": ("\x1b[2Jnope", "ok.json"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_input_is_one_line_with_a_hint(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    make_files(tmp_path)
    monkeypatch.chdir(tmp_path)
    before = {path: path.read_bytes() for path in tmp_path.iterdir() if path.is_file()}
    code = main(BAD[name], session_factory=_no_session)
    captured = capsys.readouterr()
    assert (code, captured.out) == (2, "")
    lines = captured.err.splitlines()
    assert [line.split(":")[0] for line in lines] == ["error", "hint"], captured.err
    assert "\x1b" not in captured.err
    assert {path: path.read_bytes() for path in tmp_path.iterdir() if path.is_file()} == before


def _no_session(*args: object) -> object:
    raise AssertionError("the session was reached")


def make_files(folder: Path) -> None:
    (folder / "folder").mkdir()
    for name, data in {
        "ok.toml": CONFIG,
        "ok.json": CONTEXT,
        "empty.json": b"",
        "wrong.json": b'{"a": 1}',
        "huge.json": b" " * (16 * 2**20 + 1),
        "role.json": b'[{"role": "robot", "content": "hi"}]',
        "key.toml": CONFIG + b"[run]\nround = 3\n",
        "broken.toml": b"[draft\n",
    }.items():
        (folder / name).write_bytes(data)


def test_bad_input_as_a_process(tmp_path: Path) -> None:
    done = run_piped(spec_argv("nope.toml"), cwd=tmp_path)
    assert done.returncode == 2
    assert done.stderr.startswith(b"error: nope.toml")
    assert b"Traceback" not in done.stderr


def test_piped_bytes_are_raw(tmp_path: Path) -> None:
    done = run_piped(spec_argv("builtin", script=NASTY_SCRIPT), cwd=tmp_path)
    assert done.returncode == 0
    assert done.stdout.decode() == NASTY_TEXT + " bonus"
    assert not re.search(rb"[\x00-\x09\x0b-\x1f\x7f]", done.stderr)


def test_json_after_the_text(tmp_path: Path) -> None:
    done = run_piped(spec_argv("builtin", "--json", script=NASTY_SCRIPT), cwd=tmp_path)
    assert json.loads(done.stdout.split(b"\n")[-2])["tokens"] == 2


def test_a_closed_pipe_is_quiet(tmp_path: Path) -> None:
    line = r"[b'line' * 2000 + b'\n'] * 6"
    script = f"Script(rounds=tuple(make_round(n, 5, 5, pieces={line}) for n in range(1, 200)))"
    child = subprocess.Popen(
        spec_argv("builtin", "--set", "run.rounds=199", script=script),
        cwd=tmp_path,
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert child.stdout is not None
    assert child.stderr is not None
    with child:
        child.stdout.readline()
        child.stdout.close()
        err = child.stderr.read()
    assert child.returncode == 141
    assert b"error" not in err
    assert b"Traceback" not in err
    assert b"Exception" not in err


def test_a_closed_pipe_of_help_is_quiet(tmp_path: Path) -> None:
    command = f"{sys.executable} -m tui --help | true; exit ${{PIPESTATUS[0]}}"
    done = run_piped(["bash", "-c", command], cwd=tmp_path)
    assert done.returncode in {0, 141}
    assert done.stderr == b""


def test_closed_streams_are_no_crash(tmp_path: Path) -> None:
    command = [*spec_argv("builtin", script="Script()")]
    done = run_piped(["bash", "-c", '"$@" >&- 2>&-', "bash", *command], cwd=tmp_path)
    assert done.returncode == 0


def test_a_full_output_is_an_error_of_the_machine(tmp_path: Path) -> None:
    command = [*spec_argv("builtin", script="Script()")]
    done = run_piped(["bash", "-c", '"$@" >/dev/full', "bash", *command], cwd=tmp_path)
    assert done.returncode == 3
    assert b"error: no space left on device" in done.stderr
    assert b"Traceback" not in done.stderr


def test_a_hostile_text_cannot_steer_the_terminal(tmp_path: Path) -> None:
    code, data = run_on_terminal(spec_argv("builtin", "--verbose", script=NASTY_SCRIPT), cwd=tmp_path)
    assert code == 0
    text = data.decode()
    allowed = re.compile(r"\x1b\[[0-9;]*m|\x1b\[K|\r\n|\r(?=[^\n])|\n|\t")
    assert not re.search(r"[\x00-\x1f\x7f-\x9f\u202e]", allowed.sub("", text))
    assert "\x1b[2J" not in text
    assert "]52;" in text
    screen = pyte.Screen(80, 60)
    pyte.Stream(screen).feed(text)
    shown = "\n".join(line.rstrip() for line in screen.display)
    assert visible("a\x1b]52;c;aGk=\x07b", "") in shown
    assert "bonus" in shown
    assert "round 1: 1/1 accepted" in shown


def test_no_color_leaves_no_style(tmp_path: Path) -> None:
    code, data = run_on_terminal(
        spec_argv("builtin", "--verbose", script="Script()"), cwd=tmp_path, env=environment(NO_COLOR="1")
    )
    assert code == 0
    assert not re.search(rb"\x1b\[[0-9;]*m", data)


def test_a_plain_terminal_gets_no_escape_at_all(tmp_path: Path) -> None:
    code, data = run_on_terminal(
        spec_argv("builtin", script=NASTY_SCRIPT), cwd=tmp_path, env=environment(TERM="dumb")
    )
    assert code == 0
    assert b"\x1b" not in data


def test_a_terminal_that_is_not_utf8(tmp_path: Path) -> None:
    env = environment(PYTHONUTF8="0", PYTHONIOENCODING="ascii")
    code, data = run_on_terminal(
        spec_argv("builtin", "--verbose", script=NASTY_SCRIPT), cwd=tmp_path, env=env
    )
    assert code == 0
    assert data.isascii()
    assert b"a<U+001B>]52;" in data


def test_ctrl_c_keeps_the_text_and_prints_the_summary(tmp_path: Path) -> None:
    start = time.monotonic()
    code, data = run_on_terminal(
        spec_argv("builtin", "--record", "r.jsonl", script=SLOW), cwd=tmp_path, press=(b"w1.2", b"\x03")
    )
    assert time.monotonic() - start < 15
    assert code == 130
    text = re.sub(r"\x1b\[[0-9;]*[mK]", "", data.decode())
    assert " w1.0 w1.2" in text
    assert re.search(r"tokens +2 in 1 rounds", text)
    assert "it was stopped" in text
    assert "Traceback" not in text
    assert b'"reason":"cancelled"' in (tmp_path / "r.jsonl").read_bytes()


def start_slow(tmp_path: Path, script: str) -> subprocess.Popen[bytes]:
    child = subprocess.Popen(
        spec_argv("builtin", script=script),
        cwd=tmp_path,
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert child.stdout is not None
    assert child.stdout.read(5) == b" w1.0"
    return child


def test_sigterm_ends_the_run_in_order(tmp_path: Path) -> None:
    child = start_slow(tmp_path, SLOW)
    child.send_signal(signal.SIGTERM)
    _, err = child.communicate(timeout=15)
    assert child.returncode == 143
    assert b"it was stopped" in err


def test_a_second_ctrl_c_ends_at_once(tmp_path: Path) -> None:
    stubborn = "Script(rounds=(make_round(1, 1, 1), make_round(2, 1, 1)), stubborn_s=30)"
    child = start_slow(tmp_path, stubborn)
    child.send_signal(signal.SIGINT)
    time.sleep(0.5)
    assert child.poll() is None
    child.send_signal(signal.SIGINT)
    _, err = child.communicate(timeout=15)
    assert child.returncode == -signal.SIGINT
    assert b"Traceback" not in err


def test_ctrl_c_while_loading_has_no_traceback(tmp_path: Path) -> None:
    child = subprocess.Popen(
        spec_argv("builtin", script="Script(load_s=30)"),
        cwd=tmp_path,
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert child.stderr is not None
    while b"loading" not in child.stderr.readline():
        pass
    child.send_signal(signal.SIGINT)
    out, err = child.communicate(timeout=15)
    assert (child.returncode, out) == (130, b"")
    assert b"Traceback" not in err
