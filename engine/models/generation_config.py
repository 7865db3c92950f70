"""What a model's own generation_config asks for: taken over, without effect on the text, or refused.

transformers' ``generate`` obeys that file, so a text that is to be the model's own obeys it too. What this
program does not have is refused by name and never ignored; ``sampling.generation_config = false`` sets the
whole file aside. Every field of transformers' ``GenerationConfig`` stands in one of the three tables here;
tests/engine/test_generation_config.py fails for one that does not. Needs no torch.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from engine.config_errors import translate
from engine.config_tables import SamplingConfig
from engine.errors import ModelUnsupported
from engine.models.folder import CONFIG, GENERATION_CONFIG, Folder
from engine.user_text import shown

PENALTY = "repetition_penalty"
SAMPLING = ("temperature", "top_k", "top_p", "min_p", PENALTY)
"""Taken over where [sampling] leaves them open."""

TAKEN = frozenset({*SAMPLING, "do_sample", "eos_token_id"})
"""Everything that is taken over: ``do_sample = false`` leaves the penalty only."""

WITHOUT_EFFECT = frozenset(
    {
        # Length is for [run] to say.
        *("max_length", "max_new_tokens", "max_time"),
        # Of beam search, which is refused itself.
        *("early_stopping", "length_penalty"),
        # The law of a token is the same before and after.
        "renormalize_logits",
        # How passes are computed, and how transformers drafts when it is the one that speculates.
        *("use_cache", "cache_config", "max_cache_len", "prefill_chunk_size", "low_memory"),
        *("compile_config", "disable_compile", "continuous_batching_config"),
        *("use_mtp", "speculation_type", "prompt_lookup_num_tokens", "max_matching_ngram_size"),
        *("num_assistant_tokens", "num_assistant_tokens_schedule", "assistant_confidence_threshold"),
        *("assistant_early_exit", "assistant_lookbehind", "target_lookbehind"),
        # What ``generate`` returns beside the text.
        *("output_attentions", "output_hidden_states", "output_scores", "output_logits"),
        "return_dict_in_generate",
        # Ids of padding, of the prompt's start (its tokenizer sees to that), and of encoder-decoder models.
        *("pad_token_id", "bos_token_id", "decoder_start_token_id"),
        *("transformers_version", "_from_model_config"),
    }
)
"""Fields that change no token."""


Acts = Callable[[Any], bool]
"""Whether a value that is given, and not null, changes the text."""


def _always(_: Any) -> bool:
    return True


def _is_true(value: Any) -> bool:
    return value is True


def _not_one(value: Any) -> bool:
    return bool(value != 1)


def _below_one(value: Any) -> bool:
    return not isinstance(value, int | float) or value < 1


def _within_one(value: Any) -> bool:
    return not isinstance(value, int | float) or 0 < value < 1


REFUSED: Mapping[str, Acts] = {
    "min_length": bool,
    "min_new_tokens": bool,
    "stop_strings": bool,
    "num_beams": _not_one,
    "num_beam_groups": _not_one,
    "diversity_penalty": bool,
    "num_return_sequences": _not_one,
    "constraints": bool,
    "force_words_ids": bool,
    "penalty_alpha": bool,
    "dola_layers": bool,
    "encoder_repetition_penalty": _not_one,
    "no_repeat_ngram_size": bool,
    "encoder_no_repeat_ngram_size": bool,
    "bad_words_ids": bool,
    "forced_bos_token_id": _always,
    "forced_eos_token_id": _always,
    "remove_invalid_values": _is_true,
    "exponential_decay_length_penalty": bool,
    "suppress_tokens": bool,
    "begin_suppress_tokens": bool,
    "sequence_bias": bool,
    "token_healing": _is_true,
    "guidance_scale": _not_one,
    "watermarking_config": bool,
    "cache_implementation": lambda value: value == "quantized",  # the others compute the same
    "is_assistant": _is_true,
    "assistant_ensemble_weight": _always,
}
"""Fields that change the text and that this program does not have; whether a value that is given does."""

REFUSED_WHEN_SAMPLING: Mapping[str, Acts] = {
    "top_h": _always,
    "typical_p": _below_one,
    "epsilon_cutoff": _within_one,
    "eta_cutoff": _within_one,
}
"""The same, of fields that ``generate`` looks at only when it samples."""


def generation_defaults(folder: Folder) -> dict[str, Any]:
    """What a model's generation_config says of its text: values to sample with, and what has to be refused.

    A model without that file may say it in config.json, as old ones do. ``do_sample = false`` states no
    sampling: only the repetition penalty counts then.
    """
    stated = folder.generation if _file(folder).name == GENERATION_CONFIG else _of_config(folder)
    samples = stated.get("do_sample") is not False
    names = SAMPLING if samples else (PENALTY,)
    refused = {**REFUSED, **(REFUSED_WHEN_SAMPLING if samples else {})}
    found = {name: stated[name] for name in (*names, *refused) if stated.get(name) is not None}
    return {name: value for name, value in found.items() if name in names or refused[name](value)}


def sampling_defaults(
    stated: Mapping[str, Any], sampling: SamplingConfig, where: str, *, greedy: bool = False
) -> dict[str, float]:
    """The values that a model gives for what [sampling] leaves open.

    Args:
        stated: what ``generation_defaults`` found.
        where: the file or the model, for the error.
        greedy: the rule is one of temperature 0.

    Raises:
        ModelUnsupported: the model asks for what this program does not have, or states a value that
            [sampling] would not take either. Not where ``sampling.generation_config`` is false.
    """
    if not sampling.generation_config:
        return {}
    taken = [name for name in SAMPLING if name in stated and getattr(sampling, name) is None]
    temperature = stated.get("temperature") if sampling.temperature is None else sampling.temperature
    unheard = REFUSED_WHEN_SAMPLING if greedy or temperature == 0 else {}
    refused = [name for name in stated if name not in SAMPLING and name not in unheard]
    if refused:
        asked = ", ".join(f"{name} = {shown(stated[name])}" for name in refused)
        raise ModelUnsupported(
            f"{where} asks for {asked}, which this program does not have",
            "decode without the model's own settings by --set sampling.generation_config=false",
        )
    values = {name: stated[name] for name in taken}
    _check_values(values, where)
    return values


def check_generation_config(folder: Folder, sampling: SamplingConfig, *, greedy: bool) -> None:
    """Raise what ``sampling_defaults`` would, with the file's name, before anything of it is loaded."""
    sampling_defaults(generation_defaults(folder), sampling, str(_file(folder)), greedy=greedy)


def _file(folder: Folder) -> Path:
    """Where transformers reads these values."""
    file = folder.path / GENERATION_CONFIG
    return file if file.is_file() else folder.path / CONFIG


def _of_config(folder: Folder) -> dict[str, Any]:
    """config.json; what its outer part leaves open may stand in the part of the language model."""
    outer = {name: value for name, value in folder.config.items() if value is not None}
    return {**folder.text_config, **outer}


def _check_values(stated: Mapping[str, Any], where: str) -> None:
    try:
        SamplingConfig(**stated)
    except ValidationError as failure:
        refusal = translate(failure, where, {}, ())
        keys = dict.fromkeys(str(error["loc"][0]) for error in failure.errors())
        raise ModelUnsupported(
            refusal.message,
            f"correct or remove {', '.join(keys)} in that file, give a value in [sampling] instead, "
            "or --set sampling.generation_config=false",
        ) from failure
