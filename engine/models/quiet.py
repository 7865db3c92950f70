"""Keep other libraries from what they should not do meanwhile: write to the terminal, collect garbage."""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

_SETTINGS = {
    "HF_HUB_DISABLE_PROGRESS_BARS": "1",
    "HF_HUB_DISABLE_TELEMETRY": "1",
    # The tokenizers library warns, and may hang, when its threads meet a fork.
    "TOKENIZERS_PARALLELISM": "false",
    "TQDM_DISABLE": "1",
    "TRANSFORMERS_VERBOSITY": "error",
}


def quiet() -> None:
    """Silence transformers, huggingface_hub and tqdm, whether or not they are imported: progress is shown by
    us, as events. What the user's environment sets stays."""
    for name, value in _SETTINGS.items():
        os.environ.setdefault(name, value)
    if "transformers" in sys.modules:
        from transformers.utils import logging

        if os.environ["TRANSFORMERS_VERBOSITY"] == "error":
            logging.set_verbosity_error()
        logging.disable_progress_bar()
    if "huggingface_hub" in sys.modules and os.environ["HF_HUB_DISABLE_PROGRESS_BARS"] == "1":
        from huggingface_hub.utils.tqdm import disable_progress_bars

        disable_progress_bars()


@contextmanager
def paused_collection() -> Iterator[None]:
    """No search for cyclic garbage: one looks at all that torch and transformers have made at their import.

    Parsing a tokenizer makes so many objects, none of them garbage, that it would bring on several searches:
    160 of 280 ms for the built-in model's.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
