"""A target and its drafter, loaded: the torch side of a session."""

from __future__ import annotations

import platform
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from importlib.metadata import version
from types import MappingProxyType
from typing import Any

import torch

from engine import __version__, registry
from engine.adaptive import LengthChooser, chooser_for
from engine.answer import Answer
from engine.autoregressive import PlainDecoder
from engine.config import Config
from engine.config_tables import AUTO
from engine.divergence import Parting, examine
from engine.drafters.base import Drafter, DrafterContext
from engine.draws import Draws
from engine.errors import ConfigError, OutOfMemory
from engine.events import Divergence, Settings
from engine.kv_cache import KVCache
from engine.machine import processor_name
from engine.models.causal_lm import CausalLM
from engine.models.devices import place, set_threads
from engine.models.generation_config import sampling_defaults
from engine.models.heap import hand_back
from engine.models.load import load_model
from engine.models.optimize import Optimize, optimize
from engine.models.token_text import compare_vocabularies
from engine.passes import Passes
from engine.prefill import prefill, rewind_to_prefix
from engine.preparing import Prepared, Reporter, are_twins, quantize_of, stages
from engine.sampling import Law
from engine.speculate import Speculator
from engine.verify import Rule

Stamp = Callable[[], tuple[int, int]]


@dataclass(slots=True)
class Pair:
    """What a session decodes with. One copy of the target serves speculation and baseline."""

    target: CausalLM
    drafter: Drafter
    cache: KVCache
    """The target's cache, shared by both ways of decoding, which never run at the same time."""
    threads: int
    notices: list[tuple[str, str]] = field(default_factory=list)
    """Key and text of what the user should know about the loading."""
    same_bits: bool | None = None
    """Whether passes of one row and of K+1 give the same logits, bit by bit; None: not known yet."""
    warmed: set[int] = field(default_factory=set)
    """Rows of the target's passes that were run before: what is timed is no first time."""

    def settings(self, config: Config, seed: int) -> Settings:
        """The configuration with nothing left open: what it does not say, the target's own defaults do.

        Raises ModelUnsupported if the target's generation_config asks for more, unless that is set aside.
        """
        sampling, target = config.sampling, self.target
        greedy = config.verify.verify_strategy == "greedy_match"
        own = sampling_defaults(target.generation_defaults, sampling, target.info.name, greedy=greedy)

        def value(name: str, off: float) -> float:
            chosen = getattr(sampling, name)
            return own.get(name, off) if chosen is None else chosen

        settings = Settings(
            drafter=config.draft.method,
            sample_strategy=config.draft.sample_strategy,
            num_draft_tokens=config.draft.most_drafts,
            adaptive=config.draft.num_draft_tokens == AUTO,
            verify_strategy=config.verify.verify_strategy,
            temperature=0.0 if greedy else value("temperature", 1.0),
            top_k=int(value("top_k", 0)),
            top_p=value("top_p", 1.0),
            min_p=value("min_p", 0.0),
            repetition_penalty=value("repetition_penalty", 1.0),
            seed=seed,
            **self.drafter.settings(),
        )
        if registry.DRAFTERS[config.draft.method].knows_text and self.text_key(settings) is None:
            following = [name for name, rule in registry.RULES.items() if rule.follows_seed]
            raise ConfigError(
                f"draft.method = {config.draft.method!r} has to know the text, but with "
                f"{settings.verify_strategy} at temperature {settings.temperature:g} chance decides it",
                f"set sampling.temperature = 0, or verify.verify_strategy to {' or '.join(following[1:])}",
            )
        return settings

    def text_key(self, settings: Settings) -> object:
        """What fixes the text that these settings write; None where it is not that of plain decoding."""
        info = self.target.info
        model = (info.name, info.sha256, info.dtype, info.quantized, info.device, info.passes, self.threads)
        if settings.temperature == 0:
            return (*model, settings.repetition_penalty)
        if not registry.RULES[settings.verify_strategy].follows_seed:
            return None
        law = (settings.temperature, settings.top_k, settings.top_p, settings.min_p)
        return (*model, settings.repetition_penalty, law, settings.verify_strategy, settings.seed)

    def parting(self, plain: Answer, decoder: PlainDecoder, written: int, passes: Passes) -> Parting:
        """Where plain decoding just chose another token than ``written``."""
        assert decoder.scores is not None, "the decoder made a step"
        *shared, chosen = plain.new_tokens
        prompt = plain.tokens[: plain.prompt_length]
        return Parting(prompt, shared, written, chosen, decoder.scores.clone(), passes)

    def divergence(self, parting: Parting, settings: Settings, cancelled: Callable[[], bool]) -> Divergence:
        """Look closely at the first difference of a run from plain decoding."""
        draws, width = self.draws(settings), settings.num_draft_tokens + 1
        measured = examine(self.target, Law(settings), draws, parting, width, cancelled)
        gap, change = measured or (None, None)
        piece = self.target.text.piece
        return Divergence(
            index=len(parting.shared),
            written=parting.written,
            written_piece=piece(parting.written),
            plain=parting.plain,
            plain_piece=piece(parting.plain),
            gap=gap,
            change=change,
        )

    def speculator(
        self, settings: Settings, settings_id: int, stamp: Stamp, chooser: LengthChooser | None = None
    ) -> Speculator:
        """A decoder for one segment of a run.

        Args:
            chooser: says how many tokens to draft; None: a new one, as the settings ask for.
        """
        rule = _rule(settings)
        return Speculator(
            target=self.target,
            cache=self.cache,
            drafter=self.drafter,
            rule=rule,
            law=Law(settings),
            draws=rule.draws(settings.seed),
            chooser=chooser or chooser_for(settings),
            settings_id=settings_id,
            stamp=stamp,
        )

    def draws(self, settings: Settings) -> Draws:
        """The source of chance of a run."""
        return _rule(settings).draws(settings.seed)

    def plain_decoder(self, settings: Settings, stamp: Stamp) -> PlainDecoder:
        """A plain decoder with the same law, seed and source of chance."""
        return PlainDecoder(self.target, self.cache, Law(settings), self.draws(settings), stamp)

    def rewind(self, held: list[int], tokens: list[int]) -> int:
        """Keep what the target's cache shares with the tokens; returns how many tokens that is."""
        return rewind_to_prefix(self.cache, held, tokens)

    def forget(self) -> None:
        """Empty the caches of target and drafter; what they allocated stays."""
        self.cache.clear()
        self.drafter.forget()

    def reserve(self, tokens: int) -> None:
        """Have the caches grow once for an answer that may reach this length."""
        self.cache.reserve(min(tokens, self.target.context_length))
        self.drafter.reserve(tokens)

    def prefill_cost(self, tokens: list[int]) -> int:
        """Tokens that ``prefill`` has to compute, of target and drafter together."""
        return len(tokens) - 1 - len(self.cache) + self.drafter.prefill_cost(tokens)

    def prefill(self, tokens: list[int]) -> Iterator[int]:
        """Take in the prompt, target first; yields the tokens done."""
        before = len(self.cache)
        yield from self.prefill_target(tokens)
        before = len(tokens) - 1 - before
        for done in self.drafter.prefill(tokens):
            yield before + done

    def prefill_target(self, tokens: list[int]) -> Iterator[int]:
        """Take in the prompt with the target only."""
        yield from prefill(self.target, self.cache, tokens)
        self.cache.check_length(len(tokens) - 1, self.target.model.config.model_type)

    def warm_up(self, num_draft_tokens: int) -> None:
        """Run each shape of pass twice on a scratch cache, so that no timed pass is the first of its kind.

        Notes on the way whether the target's passes of one row and of K+1 rows give the same bits.
        """
        self.same_bits = _warm_up(self.target, num_draft_tokens + 1)
        self.warmed |= {1, 2, num_draft_tokens + 1}
        if self.drafter.context.model is not None:
            _warm_up(self.drafter.context.model, num_draft_tokens + 1)

    def models(self) -> dict[str, CausalLM]:
        """The models held, by their role."""
        drafter = self.drafter.context.model
        return {"target": self.target, **({"drafter": drafter} if drafter else {})}

    def describe(self) -> dict[str, Any]:
        """Versions, machine and models, for the header of a recording."""
        drafter = self.drafter.model_info
        packages = ("torch", "transformers", "tokenizers", "numpy")
        return {
            "versions": {
                "naive-speculate": __version__,
                "python": platform.python_version(),
                **{name: version(name) for name in packages},
            },
            "machine": {
                "system": platform.system(),
                "processor": processor_name(),
                "threads": self.threads,
                "device": self.target.info.device,
                "dtype": self.target.info.dtype,
                "same_bits": self.same_bits,
            },
            "target": asdict(self.target.info),
            "drafter": asdict(drafter) if drafter else None,
        }


def load_pair(
    config: Config,
    reporter: Reporter,
    cancelled: Callable[[], bool],
    prepared: Prepared,
    ways: Mapping[str, Optimize] = MappingProxyType({}),
) -> Pair:
    """Load what was prepared. A drafter that IS the target, bit for bit, shares its weights.

    Args:
        ways: by role, how passes run that do not run as ``run.optimize`` says.

    Raises:
        UserError, ResourceError: with the reason and what to do.
        Cancelled: ``cancelled`` said so.
    """
    run = config.run
    threads = set_threads(run.threads)
    models = dict(prepared.models)
    notices: list[tuple[str, str]] = []
    for role, source in prepared.sources.items():
        if role == "drafter" and are_twins(config):
            model = models["target"].twin()
        else:
            model = load_model(
                source,
                device=run.device,
                dtype=run.dtype,
                quantize=quantize_of(config, role),
                on_progress=stages(reporter, role),
                cancelled=cancelled,
            )
            reporter.progress(role, "optimize", 0, None)
            notices.append(("optimize", f"{role}: {optimize(model, ways.get(role, run.optimize))}"))
        models[role] = model
        reporter.finished(role, model.info)
    hand_back()  # our own layers lay matrices side by side and free the parts

    target, drafter_model = models["target"], models.get("drafter")
    entry = registry.DRAFTERS[config.draft.method]
    context = DrafterContext(
        target=target,
        model=drafter_model,
        common_ids=_common_ids(target, drafter_model, entry.any_tokenizer),
        greedy=config.draft.sample_strategy == "greedy",
        options=config.draft,
    )
    drafter: Drafter = registry.load(entry)(context)
    placement = place(run.device, run.dtype)
    notices = [("device", placement.device_reason), ("dtype", placement.dtype_reason), *notices]
    if run.thinking is not None and not target.text.knows_thinking:
        notices.append(
            ("thinking", "run.thinking has no effect: this model's chat template does not know it")
        )
    return Pair(target, drafter, target.new_cache(), threads, notices)


def _warm_up(model: CausalLM, width: int) -> bool:
    """Run passes of ``width`` rows, of two and of one, each twice; whether their logits agree bit by bit."""
    wide = narrow = torch.empty(0)
    ids = [id_ % model.vocab_size for id_ in range(min(width, model.context_length))]
    scratch = model.new_cache()
    for _ in range(2):
        scratch.truncate(0)
        wide = model.forward(ids, scratch, keep=len(ids))  # (width, V)
        scratch.truncate(0)
        narrow = torch.cat([model.forward([id_], scratch, keep=1) for id_ in ids[:3]])  # (3, V)
        scratch.truncate(0)
        model.forward(ids[:2], scratch, keep=len(ids[:2]))
    scratch.check_length(len(ids[:2]), model.model.config.model_type)
    model.clock.take_ms()
    return torch.equal(wide[:3], narrow)


def _common_ids(target: CausalLM, drafter: CausalLM | None, any_tokenizer: bool) -> int:
    """Ids that mean the same to both models; 0 where none has to, and each keeps its own tokenizer.

    Raises VocabularyMismatch.
    """
    if drafter is None:
        return target.vocab_size
    if any_tokenizer:
        return 0
    common = compare_vocabularies(target.text, drafter.text)
    # Ids that mean the same to both are all that is ever drafted, so one tokenizer in memory will do.
    drafter.text = target.text
    return min(common, target.vocab_size, drafter.vocab_size)


def _rule(settings: Settings) -> Rule:
    rule: Rule = registry.load(registry.RULES[settings.verify_strategy])()
    return rule


@contextmanager
def map_torch_errors() -> Iterator[None]:
    """Turn torch's ways of saying "no memory left" into ours."""
    try:
        yield
    except (torch.OutOfMemoryError, MemoryError) as error:
        raise OutOfMemory(*_OUT_OF_MEMORY) from error
    except RuntimeError as error:
        # The CPU's allocator has no class of its own.
        if "can't allocate memory" in str(error) or "not enough memory" in str(error):
            raise OutOfMemory(*_OUT_OF_MEMORY) from error
        raise


_OUT_OF_MEMORY = (
    "memory ran out",
    "shorten the context, lower run.max_new_tokens, or use a smaller model or dtype",
)
