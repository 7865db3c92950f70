"""Tiny random models and tokenizers, built in memory from a seed: what most tests run on.

The weights are scaled so that greedy output depends on the whole context and wanders through the
vocabulary instead of repeating one token.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers
from transformers import (
    AutoModelForCausalLM,
    Gemma3TextConfig,
    GPT2Config,
    LlamaConfig,
    MambaConfig,
    MistralConfig,
    PreTrainedTokenizerFast,
    Qwen2Config,
    Qwen3Config,
)

if TYPE_CHECKING:
    from engine.models.causal_lm import CausalLM

KINDS = ("qwen3", "llama", "gemma3", "gpt2", "mamba")
"""Every architecture of :func:`tiny_model`; "mamba" is recurrent."""

ATTENTION_KINDS = KINDS[:-1]

_LLAMA_SHAPED = {"qwen3": Qwen3Config, "llama": LlamaConfig, "qwen2": Qwen2Config, "mistral": MistralConfig}

LLAMA_SHAPED = tuple(_LLAMA_SHAPED)
"""Those that our own layers can run (engine.models.lean)."""

SLIDING_WINDOW = 8
"""Tokens the sliding layers of the tiny Gemma-3 look back."""

SPECIALS = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")

CHAT_TEMPLATE = (
    "{% for message in messages %}"
    "{% if message['role'] == 'tool' %}{{ raise_exception('no tools here') }}{% endif %}"
    "{{ '<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n' }}"
    "{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}"
    "{% if enable_thinking is defined and not enable_thinking %}"
    "{{ '<think>\n\n</think>\n\n' }}{% endif %}{% endif %}"
)

TEXT = (
    "The knight rode out of the castle before the sun was up, and the road was white with frost.",
    "A dragon slept under the hill; its breath rose like smoke between the trees of the old forest.",
    "def area(width, height):\n    return width * height\n\n\ndef volume(width, height, depth):\n    return",
    "Numbers: 0 1 2 3 4 5 6 7 8 9 10 11 12 100 1000, and words: one two three four five six seven.",
    "Caf\u00e9, na\u00efve, \u00fcber, \u65e5\u672c\u8a9e \u4e2d\u6587 \U0001f600 \U0001f680",
    "\u0440\u0443\u0441\u0441\u043a\u0438\u0439 \u2014 and back again.",
    "Why did the knight stop? Because the bridge was gone. Who took the bridge? The river did.",
)

OTHER_TEXT = (
    "Whales sing slowly. Harbours, ships and lighthouses; gulls over the breakwater every evening.",
    "SELECT name, price FROM goods WHERE price > 10 ORDER BY name; -- nothing more to say here",
    "Sauerkraut, sausages, stollen; zwiebelkuchen and quark; quiet queues quickly quelled.",
)


def _byte_level(texts: Iterable[str], size: int) -> PreTrainedTokenizerFast:
    backend = Tokenizer(models.BPE())
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=size,
        special_tokens=list(SPECIALS),
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    backend.train_from_iterator(texts, trainer)
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=backend, eos_token="<|im_end|>", pad_token="<|endoftext|>"
    )
    tokenizer.chat_template = CHAT_TEMPLATE
    return tokenizer


@lru_cache(maxsize=1)
def tiny_tokenizer() -> PreTrainedTokenizerFast:
    """A byte-level BPE with 384 ids, three of them special, and a chat template."""
    return _byte_level(TEXT, 384)


@lru_cache(maxsize=1)
def second_tokenizer() -> PreTrainedTokenizerFast:
    """Another byte-level BPE, 352 ids; it differs from :func:`tiny_tokenizer` once the bytes are over."""
    return _byte_level(OTHER_TEXT, 352)


@lru_cache(maxsize=1)
def metaspace_tokenizer() -> PreTrainedTokenizerFast:
    """Made like Llama-2's: U+2581 for a space, ``<0xEA>`` for a byte without a token, a BOS, no template."""
    words = [
        "\u2581" + word for word in ("the", "knight", "rode", "out", "of", "castle", "in", "it", "a", "b")
    ]
    letters = [*"abcdefghijklmnopqrstuvwxyzABCDEFGHIJ", "\u2581", ",", ".", "!", "\u2581\u2581"]
    tokens = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256)), *words, *letters]
    vocabulary = {token: id_ for id_, token in enumerate(tokens)}
    merges: list[tuple[str, str]] = [("\u2581", "\u2581")]
    for word in words:
        merges += _merges_of(word, vocabulary)
    backend = Tokenizer(
        models.BPE(
            vocabulary, list(dict.fromkeys(merges)), unk_token="<unk>", byte_fallback=True, fuse_unk=True
        )
    )
    backend.normalizer = normalizers.Sequence(
        [normalizers.Prepend("\u2581"), normalizers.Replace(" ", "\u2581")]
    )
    backend.decoder = decoders.Sequence(
        [
            decoders.Replace("\u2581", " "),
            decoders.ByteFallback(),
            decoders.Fuse(),
            decoders.Strip(content=" ", left=1, right=0),
        ]
    )
    backend.add_special_tokens([AddedToken(token, special=True) for token in ("<unk>", "<s>", "</s>")])
    return PreTrainedTokenizerFast(
        tokenizer_object=backend, bos_token="<s>", eos_token="</s>", unk_token="<unk>"
    )


@lru_cache(maxsize=1)
def wordpiece_tokenizer() -> PreTrainedTokenizerFast:
    """Made like BERT's: "##" before what goes on with a word; 12 ids, the second one special."""
    words = ["[UNK]", "[SEP]", "hello", "world", "knight", "##ly", "##s", "rode", "out", ".", "##d", "'"]
    backend = Tokenizer(models.WordPiece({word: id_ for id_, word in enumerate(words)}, unk_token="[UNK]"))
    backend.pre_tokenizer = pre_tokenizers.Whitespace()
    backend.decoder = decoders.WordPiece(prefix="##")
    return PreTrainedTokenizerFast(tokenizer_object=backend, unk_token="[UNK]", sep_token="[SEP]")


@lru_cache(maxsize=1)
def word_end_tokenizer() -> PreTrainedTokenizerFast:
    """Made like the first GPT's: "</w>" behind what ends a word; 10 ids, the first one special."""
    words = ["<unk>", "hel", "lo</w>", "wor", "ld</w>", "caf\u00e9</w>", "a", "a</w>", ".</w>", "kn"]
    backend = Tokenizer(
        models.BPE({word: id_ for id_, word in enumerate(words)}, [], end_of_word_suffix="</w>")
    )
    backend.pre_tokenizer = pre_tokenizers.Whitespace()
    backend.decoder = decoders.BPEDecoder(suffix="</w>")
    return PreTrainedTokenizerFast(tokenizer_object=backend, unk_token="<unk>")


def _merges_of(word: str, vocabulary: dict[str, int]) -> list[tuple[str, str]]:
    """Left-to-right merges that build ``word``; its prefixes join the vocabulary."""
    merges = []
    for end in range(1, len(word)):
        merges.append((word[:end], word[end]))
        for part in (word[end], word[: end + 1]):
            vocabulary.setdefault(part, len(vocabulary))
    return merges


def tiny_config(kind: str, vocab_size: int, **overrides: Any) -> Any:
    """The transformers configuration behind :func:`tiny_model`."""
    common: dict[str, Any] = {
        "vocab_size": vocab_size,
        "bos_token_id": 1,
        "eos_token_id": 2,
        "pad_token_id": 0,
    }
    attention: dict[str, Any] = {
        "hidden_size": 64,
        "intermediate_size": 128,
        "num_hidden_layers": 3,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "head_dim": 16,
        "max_position_embeddings": 512,
        "tie_word_embeddings": False,
    }
    if kind == "mistral":
        attention["sliding_window"] = None
    if kind in _LLAMA_SHAPED:
        return _LLAMA_SHAPED[kind](**(common | attention | overrides))
    if kind == "gemma3":
        sliding = {
            "num_hidden_layers": 4,
            "sliding_window": SLIDING_WINDOW,
            "layer_types": ["sliding_attention", "sliding_attention", "full_attention", "sliding_attention"],
            "query_pre_attn_scalar": 16,
        }
        return Gemma3TextConfig(**(common | attention | sliding | overrides))
    if kind == "gpt2":
        shape = {"n_embd": 64, "n_layer": 3, "n_head": 4, "n_positions": 512, "tie_word_embeddings": False}
        return GPT2Config(**(common | shape | overrides))
    if kind == "mamba":
        shape = {"hidden_size": 64, "num_hidden_layers": 2, "state_size": 8, "tie_word_embeddings": False}
        return MambaConfig(**(common | shape | overrides))
    raise ValueError(f"unknown kind {kind!r}; known: {', '.join(KINDS)}")


def tiny_model(kind: str, seed: int = 0, **overrides: Any) -> Any:
    """A random causal LM in float32, ready to run; ``overrides`` go to its configuration.

    The same kind, seed and overrides give the same weights.
    """
    config = tiny_config(kind, overrides.pop("vocab_size", len(tiny_tokenizer())), **overrides)
    model = AutoModelForCausalLM.from_config(config, dtype=torch.float32)
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if weight.ndim == 2:
                fan_in = weight.shape[0] if kind == "gpt2" and ".c_" in name else weight.shape[1]
                scale = 1.0 if "embed" in name or "wte" in name else 2.5 / fan_in**0.5
                weight.copy_(torch.randn(weight.shape, generator=generator) * scale)
    model.requires_grad_(False)
    return model.eval()


def noisy_copy(model: Any, amount: float, seed: int = 0) -> Any:
    """A copy whose matrices are off by ``amount`` x their own spread: a drafter that is right now and then.

    0.0 is the model itself, 0.1 agrees often, 1.0 hardly ever.
    """
    other = copy.deepcopy(model)
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for weight in other.parameters():
            if weight.ndim == 2:
                weight.add_(torch.randn(weight.shape, generator=generator) * weight.std() * amount)
    return other


def tiny_lm(
    kind: str, seed: int = 0, *, model: Any = None, tokenizer: Any = None, **overrides: Any
) -> CausalLM:
    """A tiny model as the engine holds it; ``model`` and ``tokenizer`` replace the default ones."""
    from engine.models.causal_lm import CausalLM
    from engine.models.describe import model_info
    from engine.models.token_text import TokenText

    text = TokenText(tokenizer or tiny_tokenizer())
    model = model or tiny_model(kind, seed, **overrides)
    info = model_info(model, text, name=f"tiny-{kind}-{seed}")
    return CausalLM(
        model=model,
        text=text,
        info=info,
        eos_ids=frozenset({2}),
        generation_defaults={},
        context_length=info.context_length,
    )


def static_lm(kind: str, seed: int = 0, **overrides: Any) -> CausalLM:
    """A tiny model whose passes run through our own layers, captured."""
    from engine.models.optimize import optimize

    lm = tiny_lm(kind, seed, **overrides)
    optimize(lm, "static")
    return lm


def save_folder(path: Path, model: Any, tokenizer: Any) -> Path:
    """Write a model folder as the Hub has them: config, safetensors, tokenizer."""
    from engine.models.quiet import quiet

    quiet()
    model.save_pretrained(path)
    tokenizer.save_pretrained(path)
    return path
