"""What a configuration is refused for, and in which words."""

from __future__ import annotations

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from engine.config import (
    Config,
    Override,
    known_keys,
    load_config,
    parse_config,
    parse_override,
)
from engine.errors import ConfigError

PAIR = '[draft]\nmodel_name = "a"\n[verify]\nmodel_name = "b"\n'


def one_line(error: ConfigError) -> str:
    """Message and hint; the message is one printable line of bearable length."""
    assert error.message.isprintable(), error.message
    assert len(error.message) < 700, error.message
    return f"{error.message} | {error.hint}"


def refused(text: str, *overrides: str | Override) -> str:
    """The one line and the hint that a configuration is refused with."""
    with pytest.raises(ConfigError) as caught:
        parse_config(text, "my.toml", overrides)
    return one_line(caught.value)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("x", "my.toml, line 1, column 2: "),
        (PAIR + "[run]\nrounds = \n", "my.toml, line 6, column 10: Invalid value"),
        (PAIR + "[draft]\n", "my.toml, line 5, column 7: Cannot declare ('draft',) twice"),
        ("a = 1\na = 2", "line 2, column 6: Cannot overwrite a value"),
        ("a = 2024-13-01", "my.toml, line 1, column 9"),
        ("\x01", "my.toml, line 1, column 1"),
        ("a = " + "[" * 10_000, "my.toml: is nested too deeply"),
        ("a = " + "9" * 5000, "my.toml: holds a number that is too long"),
    ],
    ids=lambda text: text[:20],
)
def test_syntax_errors(text: str, said: str) -> None:
    assert said in refused(text)


@pytest.mark.parametrize(
    ("setting", "said"),
    [
        (
            "draft={method='lookup', quantize='int8'}",
            "draft.quantize is 'int8', but the method 'lookup' loads no model | Remove quantize",
        ),
        (
            "verify.quantize=int2",
            "verify.quantize must be 'none', 'int8' or 'int4', not 'int2' | Did you mean 'int8'?",
        ),
        ("draft.num_draft_tokens=0", "draft.num_draft_tokens must be at least 1, not 0"),
        ("draft.num_draft_tokens=65", "draft.num_draft_tokens must be at most 64, not 65"),
        ("draft.num_draft_tokens=5.0", "draft.num_draft_tokens must be a whole number or 'auto', not 5.0"),
        ("draft.num_draft_tokens=true", "draft.num_draft_tokens must be a whole number or 'auto', not true"),
        ("draft.num_draft_tokens='5'", "draft.num_draft_tokens must be a whole number or 'auto', not '5'"),
        (
            "draft.num_draft_tokens=Auto",
            "draft.num_draft_tokens must be a whole number or 'auto', not 'Auto'",
        ),
        (
            "draft.method=lokup",
            "not 'lokup' | Did you mean 'lookup'?",
        ),
        ("draft.method=1", "draft.method must be text in quotes, not 1"),
        ("draft.sample_strategy=gredy", "must be 'random' or 'greedy', not 'gredy' | Did you mean 'greedy'?"),
        ("draft.model_name=''", "draft.model_name must not be empty"),
        (
            'draft.model_name="a\\u001b"',
            "draft.model_name has a control character or an outer space: 'a\\x1b'",
        ),
        ("draft.model_name=' a'", "draft.model_name has a control character or an outer space: ' a'"),
        (
            "verify.model_name=" + "x" * 5000,
            "verify.model_name must be at most 4096 characters long, not 5000",
        ),
        ("verify.model_name=123", "verify.model_name must be text in quotes, not 123"),
        (
            "verify.model_name=2024-01-01",
            "verify.model_name must be text in quotes, not datetime.date(2024, 1, 1)",
        ),
        ("verify.model_name=\udcff", "verify.model_name must be valid Unicode, not '\\udcff'"),
        ("verify.verify_strategy=greedy", "'match' or 'seed_exact', not 'greedy'"),
        ("sampling.temperature=-0.1", "sampling.temperature must be at least 0, not -0.1"),
        ("sampling.temperature=101", "sampling.temperature must be at most 100, not 101"),
        ("sampling.temperature=nan", "sampling.temperature must be a finite number, not nan"),
        ("sampling.temperature=inf", "sampling.temperature must be a finite number, not inf"),
        ("sampling.temperature=1e-9", "sampling.temperature must be 0 (greedy) or at least 0.001, not 1e-09"),
        ("sampling.temperature=true", "sampling.temperature must be a number, not true"),
        ("sampling.temperature=hot", "sampling.temperature must be a number, not 'hot'"),
        ("sampling.top_k=-1", "sampling.top_k must be at least 0, not -1"),
        ("sampling.top_p=0", "sampling.top_p must be more than 0, not 0"),
        ("sampling.top_p=1.5", "sampling.top_p must be at most 1, not 1.5"),
        ("sampling.min_p=1", "sampling.min_p must be less than 1, not 1"),
        ("sampling.repetition_penalty=0", "sampling.repetition_penalty must be at least 0.01, not 0"),
        ("sampling.seed=-1", "sampling.seed must be at least 0, not -1"),
        (
            "sampling.seed=9223372036854775808",
            "must be less than 9223372036854775808, not 9223372036854775808",
        ),
        (
            "sampling.seed=0x" + "f" * 5000,
            "sampling.seed must be less than 9223372036854775808, not a value too long",
        ),
        ("run.rounds=0", "run.rounds must be at least 1, not 0"),
        ("run.max_new_tokens=0", "run.max_new_tokens must be at least 1, not 0"),
        ("run.threads=0", "run.threads must be at least 1, not 0"),
        ("run.stop=END", "run.stop must be a list of texts, not 'END' | For example: run.stop = [\"END\"]"),
        ("run.stop=['a', '']", "run.stop[1] must not be empty"),
        ("run.stop=[1]", "run.stop[0] must be text in quotes, not 1"),
        ("run.stop=['" + "x" * 1001 + "']", "run.stop[0] must be at most 1000 characters long, not 1001"),
        (f"run.stop={['x'] * 17}", "run.stop must hold at most 16 entries, not 17"),
        ("run.ignore_eos=1", "run.ignore_eos must be true or false, not 1"),
        ("run.thinking=yes", "run.thinking must be true or false, not 'yes'"),
        (
            "run.device=cuda:",
            "run.device must be 'auto', 'cpu', 'cuda', 'cuda:N', 'mps' or 'balanced', not 'cuda:'",
        ),
        ("run.device=cuda:-1", "not 'cuda:-1'"),
        ("run.device=cuda:٣", "not 'cuda:٣'"),
        ("run.device=gpu", "not 'gpu'"),
        ("run.device=cpuu", "not 'cpuu' | Did you mean 'cpu'?"),
        ("run.dtype=bf16", "run.dtype must be 'auto', 'float32', 'bfloat16' or 'float16', not 'bf16'"),
        ("run.template=jinja", "run.template must be 'chat' or 'raw', not 'jinja'"),
        ("run.baseline=on", "run.baseline must be 'calibrated', 'full' or 'off', not 'on'"),
        ("record.path=' '", "record.path has a control character or an outer space"),
        ("ui.color=yes", "ui.color must be 'auto', 'always' or 'never', not 'yes'"),
        ("draft=5", "draft must be a table, not 5"),
        ("verify={}", 'verify.model_name is missing | Add model_name = "..." under [verify].'),
        (
            "draft.num_draft_token=3",
            "draft.num_draft_token is not a known key | Did you mean draft.num_draft_tokens?",
        ),
        ("draft.temperature=1", "draft.temperature is not a known key | Did you mean sampling.temperature?"),
        ("draft.qqqqqqq=1", "draft.qqqqqqq is not a known key | Known keys: draft.method, draft.model_name"),
        ("rounds=3", "rounds is not a known key | Did you mean run.rounds?"),
        ("verfy.model_name=b", "verfy.model_name is not a known key | Did you mean verify.model_name?"),
        ("drafts=1", "drafts is not a known key | Did you mean [draft]?"),
        (
            "zzz=1",
            "zzz is not a known key | Tables are [draft], [verify], [sampling], [run], [record], [ui].",
        ),
        ("run.rounds.x=1", "run.rounds.x is not a known key"),
        ("a.b.c=1", "a.b.c is not a known key"),
        ("run.roundz=", "run.roundz is not a known key | Did you mean run.rounds?"),
        ("run.=1", "run. is not a known key"),
        ("\x1b[31m=1", "'\\x1b[31m' is not a known key"),
    ],
    ids=lambda text: ascii(text[:40]),
)
def test_set_is_refused_by_name(setting: str, said: str) -> None:
    told = refused(PAIR, setting)
    assert said in told
    assert told.startswith("--set ")
    if setting.isprintable() and len(setting) < 60:
        assert told.startswith(f"--set {setting}: ")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "",
            "draft.model_name is missing, and the method 'model' loads a model; verify.model_name is missing",
        ),
        (PAIR + "[run]\nrounds = 0", "my.toml: run.rounds must be at least 1, not 0 | None"),
        (PAIR + "[run]\nround = 1", "my.toml: run.round is not a known key | Did you mean run.rounds?"),
        (PAIR + "[sampler]\n", "my.toml: sampler is not a known key | Did you mean [sampling]?"),
        ("draft = 5\n[verify]\nmodel_name = 'b'", "my.toml: draft must be a table, not 5"),
        ("draft = []\n[verify]\nmodel_name = 'b'", "my.toml: draft must be a table, not []"),
        ('"\\u202e" = 1\n' + PAIR, "my.toml: '\\u202e' is not a known key"),
        (
            "draft.x = 1\nrun = {a = 1, b = 2, c = 3}\n",
            "draft.x is not a known key; verify.model_name is missing; run.a is not a known key; and 2 more",
        ),
        (
            PAIR + "[sampling]\ntemperature = 0.5\n" + "[ui]\ncolor = 1\n",
            "ui.color must be 'auto', 'always' or",
        ),
    ],
    ids=lambda text: ascii(text[:40]),
)
def test_files_are_refused_by_key(text: str, said: str) -> None:
    assert said in refused(text)


def test_blames_the_file_and_the_override_for_their_own() -> None:
    told = refused(PAIR + "[run]\nrounds = 0\nthreads = 0", "sampling.top_k=-1", "run.rounds=-3")
    assert told.startswith(
        "--set sampling.top_k=-1: sampling.top_k must be at least 0, not -1; "
        "--set run.rounds=-3: run.rounds must be at least 1, not -3; "
        "my.toml: run.threads must be at least 1, not 0 | "
    )


def test_an_option_is_blamed_in_its_own_words() -> None:
    assert refused(PAIR, Override("run.rounds", 0, "--rounds 0")) == (
        "--rounds 0: run.rounds must be at least 1, not 0 | None"
    )


def test_method_and_model_go_together() -> None:
    assert (
        parse_config('[draft]\nmethod = "lookup"\n[verify]\nmodel_name = "b"', "x").draft.model_name is None
    )
    told = refused('[draft]\nmethod = "lookup"\nmodel_name = "a"\n[verify]\nmodel_name = "b"')
    assert "my.toml: draft.model_name is 'a', but the method 'lookup' loads no model" in told
    assert "--set draft.model_name= " in told
    told = refused('[draft]\nmethod = "model"\n[verify]\nmodel_name = "b"')
    assert (
        "my.toml: draft.model_name is missing, and the method 'model' loads a model | Name the drafter"
        in told
    )


@pytest.mark.parametrize(("temperature", "fits"), [("0", True), ("0.0", True), ("0.5", False), ("1", False)])
def test_greedy_match_is_temperature_0(temperature: str, fits: bool) -> None:
    overrides = ["verify.verify_strategy=greedy_match", f"sampling.temperature={temperature}"]
    if fits:
        assert parse_config(PAIR, "x", overrides).sampling.temperature == 0
    else:
        told = refused(PAIR, *overrides)
        assert told.startswith(
            f"--set sampling.temperature={temperature}: sampling.temperature is {float(temperature)}"
        )
        assert "greedy_match is temperature 0 | Leave it out" in told


@pytest.mark.parametrize("text", ["", "=", "=3", " = 3", "run.rounds", "run.rounds: 3"])
def test_overrides_without_key_or_value(text: str) -> None:
    with pytest.raises(ConfigError, match="is not KEY=VALUE"):
        parse_override(text)


keys = st.sampled_from([*known_keys(), "run", "draft", "x.y", "zzz"]) | st.text()
toml_values = st.sampled_from(
    ["1", "0", "-1", "1.5", "nan", "true", "''", "'a'", "[]", "['a']", "{}", "{a=1}", "2024-01-01"]
)


@given(
    st.binary()
    | st.lists(st.tuples(keys, toml_values)).map(lambda rows: "\n".join(map(" = ".join, rows)).encode())
)
@example(b"[[draft]]")
@example(b"draft.model_name.x = 1")
@settings(max_examples=200, deadline=None)
def test_any_file_is_read_or_refused(tmp_path_factory: pytest.TempPathFactory, data: bytes) -> None:
    path = tmp_path_factory.getbasetemp() / "any.toml"
    path.write_bytes(data)
    try:
        load_config(str(path))
    except ConfigError as error:
        one_line(error)


@given(keys, st.text() | toml_values)
@settings(max_examples=200, deadline=None)
def test_any_override_is_taken_or_refused(key: str, value: str) -> None:
    try:
        config = parse_config(PAIR, "my.toml", [f"{key}={value}"])
    except ConfigError as error:
        one_line(error)
    else:
        assert Config.model_validate(config.model_dump(mode="json")) == config
