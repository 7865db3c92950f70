"""Saving a configuration: only what changed is touched, and what is written reads back."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Any

import pytest
import tomli
from hypothesis import given
from hypothesis import strategies as st

from engine.config import load_config, parse_config
from engine.errors import ConfigError, DiskError
from tui.atomic_file import write_atomic
from tui.config_file import fresh, save_config, updated

EXAMPLE = (Path(__file__).parents[2] / "config.example.toml").read_text("utf-8")
CHANGES: dict[str, st.SearchStrategy[Any]] = {
    "draft.num_draft_tokens": st.integers(1, 64),
    "draft.sample_strategy": st.sampled_from(["random", "greedy"]),
    "verify.model_name": st.sampled_from(["a/b", 'it\'s "so" \\n', "\u00fc [x] # no comment"]),
    "sampling.temperature": st.none() | st.sampled_from([0, 0.1, 1.0, 2]),
    "sampling.top_k": st.none() | st.integers(0, 99),
    "run.stop": st.lists(st.text(min_size=1, max_size=6), max_size=3),
    "run.ignore_eos": st.booleans(),
    "run.rounds": st.none() | st.integers(1, 9),
    "ui.color": st.sampled_from(["auto", "always", "never"]),
}
FILES = {
    "example": EXAMPLE,
    "inline": 'draft = {method = "lookup"} # mine\nverify = {model_name = "x/y"}\n',
    "dotted": 'draft.method = "lookup"\nverify.model_name = "x/y" # why\nrun.rounds = 3\n',
    "bare": '[draft]\nmethod="lookup"\n[verify]\nmodel_name="x/y"',
    "tricky": '[draft]\nmethod = "lookup"\n\n[verify]\nmodel_name = """\\\n  x/[run]\\\n"""\n# rounds = 4\n',
    "crlf": '# top\n[draft]\nmethod = "lookup"\n[verify]\nmodel_name = "x/y"\n[run]\n# rounds = 1\n'.replace(
        "\n", "\r\n"
    ),
}


def changed(text: str, values: dict[str, Any]) -> Any:
    data = parse_config(text, "before").model_dump(mode="json")
    for key, value in values.items():
        table, name = key.split(".")
        data[table][name] = value
    return type(parse_config(text, "before")).model_validate(data)


@given(st.sampled_from(sorted(FILES)), st.data())
def test_what_is_saved_reads_back(name: str, data: st.DataObject) -> None:
    values = {key: data.draw(CHANGES[key]) for key in data.draw(st.sets(st.sampled_from(sorted(CHANGES))))}
    config = changed(FILES[name], values)
    text = updated(FILES[name], config)
    assert parse_config(text, "after") == config
    assert parse_config(fresh(config), "new") == config
    assert updated(text, config) == text, "saving again changes nothing"


def test_comments_and_order_stay() -> None:
    config = load_config("config.example.toml", ["run.rounds=7", "draft.num_draft_tokens=9", "run.threads=2"])
    before, after = EXAMPLE.splitlines(), updated(EXAMPLE, config).splitlines()
    assert len(before) == len(after)
    different = [(old, new) for old, new in zip(before, after, strict=True) if old != new]
    assert different == [
        ("num_draft_tokens = 5", "num_draft_tokens = 9"),
        ("# rounds = 10", "rounds = 7"),
        ("# threads = 8", "threads = 2"),
    ]


@pytest.mark.parametrize(
    ("comment", "stays"),
    [
        ("# temperature = 0.7 is what the paper uses", True),
        ("# temperature = 0.7, or less", True),
        ("# temperature = as you like", True),
        ("# temperature =", True),
        ("# temperature = 0.7", False),
        ("#temperature=0.7", False),
    ],
)
def test_prose_is_no_commented_key(comment: str, stays: bool) -> None:
    text = FILES["bare"] + f"\n[sampling]\n{comment}\n# top_k = 20\n"
    after = updated(text, changed(text, {"sampling.temperature": 0.5}))
    lines = after.splitlines()
    assert (comment in lines) == stays
    assert tomli.loads(after)["sampling"] == {"temperature": 0.5} and "# top_k = 20" in lines


def test_the_remark_behind_a_commented_key_stays() -> None:
    text = FILES["bare"] + '\n[run]\n# rounds = 10  # "short", as in the paper\n'
    after = updated(text, changed(text, {"run.rounds": 4}))
    assert after.endswith('[run]\nrounds = 4  # "short", as in the paper\n')


def test_nothing_changed_means_nothing_written() -> None:
    assert updated(EXAMPLE, load_config("config.example.toml")) == EXAMPLE


def test_a_value_back_to_its_default_leaves_the_file() -> None:
    text = FILES["dotted"]
    assert "rounds" not in updated(text, changed(text, {"run.rounds": None}))


def test_a_new_table_is_added() -> None:
    text = updated(FILES["bare"], changed(FILES["bare"], {"run.rounds": 4, "ui.color": "never"}))
    assert tomli.loads(text)["run"] == {"rounds": 4}
    assert tomli.loads(text)["ui"] == {"color": "never"}


def test_files(tmp_path: Path) -> None:
    config = load_config("config.example.toml")
    path = tmp_path / "new.toml"
    save_config(config, path)
    assert parse_config(path.read_text("utf-8"), "new") == config
    assert "# Target:" in path.read_text("utf-8")
    path.chmod(0o640)
    link = tmp_path / "link.toml"
    link.symlink_to(path)
    save_config(config.model_copy(update={"run": config.run.model_copy(update={"rounds": 3})}), link)
    assert link.is_symlink()
    assert "rounds = 3" in path.read_text("utf-8")
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    assert sorted(each.name for each in tmp_path.iterdir()) == ["link.toml", "new.toml"]


def test_what_is_no_toml_is_not_written_over(tmp_path: Path) -> None:
    path = tmp_path / "x.toml"
    path.write_text("[draft\nno", encoding="utf-8")
    with pytest.raises(ConfigError):
        save_config(load_config("config.example.toml"), path)
    assert path.read_text("utf-8") == "[draft\nno"


def test_an_unknown_key_is_told(tmp_path: Path) -> None:
    path = tmp_path / "x.toml"
    text = '[draft]\nmethod = "lookup"\n[verify]\nmodel_name = "x/y"\n[run]\nround = 3\n'
    path.write_text(text, encoding="utf-8")
    with pytest.raises(ConfigError, match=r"run\.round is not a known key"):
        save_config(load_config("config.example.toml"), path)
    assert path.read_text("utf-8") == text


def test_a_failed_write_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "x"
    write_atomic(path, "old")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    with pytest.raises(DiskError):
        write_atomic(path, "half \ud800")
    assert path.read_text("utf-8") == "old"
    assert [each.name for each in tmp_path.iterdir()] == ["x"]
    with pytest.raises(DiskError):
        write_atomic(tmp_path / "none" / "x", "new")


def test_only_a_file_is_replaced(tmp_path: Path) -> None:
    pipe, (here, there) = tmp_path / "pipe", (tmp_path / "here", tmp_path / "there")
    os.mkfifo(pipe)
    here.symlink_to(there)
    there.symlink_to(here)
    for path in (pipe, tmp_path, here):
        with pytest.raises(DiskError):
            write_atomic(path, "x")
    assert stat.S_ISFIFO(pipe.stat().st_mode)
    assert {each.name for each in tmp_path.iterdir()} == {"pipe", "here", "there"}


def test_names_may_be_long_and_the_umask_counts(tmp_path: Path) -> None:
    path = tmp_path / ("n" * 250)
    before = os.umask(0o027)
    try:
        write_atomic(path, "x", mode=0o666)
    finally:
        os.umask(before)
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    path.chmod(0o604)
    write_atomic(path, "y")
    assert stat.S_IMODE(path.stat().st_mode) == 0o604, "a file keeps its permissions"
