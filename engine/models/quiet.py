"""Keep transformers, huggingface_hub and tqdm away from the terminal: progress is shown by us, as events."""

from __future__ import annotations

import os
import sys

_SETTINGS = {
    "HF_HUB_DISABLE_PROGRESS_BARS": "1",
    "HF_HUB_DISABLE_TELEMETRY": "1",
    # The tokenizers library warns, and may hang, when its threads meet a fork.
    "TOKENIZERS_PARALLELISM": "false",
    "TQDM_DISABLE": "1",
    "TRANSFORMERS_VERBOSITY": "error",
}


def quiet() -> None:
    """Silence those libraries, whether or not they are imported; what the user's environment sets stays."""
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
