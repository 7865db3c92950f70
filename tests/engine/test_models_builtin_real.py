"""The built-in model itself: what it is, and the memory that loading it takes."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from engine.models.load import Source, describe, load_model

NAME = "builtin:smollm2-135m"
MIB = 1 << 20


@pytest.fixture(scope="module")
def source() -> Source:
    """Fetched and converted if the cache has it not."""
    return describe(NAME)


def test_what_it_is(source: Source) -> None:
    lm = load_model(source, device="cpu", dtype="bfloat16")
    assert lm.info.name == NAME
    assert lm.info.sha256 == "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
    assert lm.info.licence == "Apache-2.0"
    assert lm.info.parameters == 134_515_008
    assert (lm.info.layers, lm.info.vocab_size, lm.context_length) == (30, 49152, 8192)
    assert lm.eos_ids == {2}
    assert lm.text.piece(2) == b"<|im_end|>"
    assert lm.text.special_ids == set(range(17))
    tokenizer = lm.text.tokenizer
    text = "Caf\u00e9 \u65e5\u672c\u8a9e\n\tdef f(x): return 1000"
    assert b"".join(lm.text.piece(id_) for id_ in tokenizer.encode(text)) == text.encode()
    assert "<|im_start|>assistant" in tokenizer.chat_template


_MEASURE = """
import gc, json, resource, sys
import psutil, torch, transformers
from transformers import PreTrainedModel
from engine.models.quiet import quiet
quiet()

def peak_now():
    if sys.platform == "linux":
        with open("/proc/self/status") as lines:  # getrusage counts what was there before exec
            return next(int(line.split()[1]) << 10 for line in lines if line.startswith("VmHWM"))
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

before = psutil.Process().memory_info().rss
from engine.models.load import load_model
for dtype in "bfloat16", "float32":
    lm = load_model(sys.argv[1], device="cpu", dtype=dtype)
    peak = peak_now()
    cache = lm.new_cache()
    lm.forward([1, 2, 3, 4], cache, keep=1)
    steady = psutil.Process().memory_info().rss
    print(json.dumps([peak - before, steady - before, lm.info.weight_bytes, cache.nbytes]))
    del lm, cache
    gc.collect()
"""


def test_memory(source: Source) -> None:
    """Peak at most 1.3 x the file; afterwards at most weights and caches, 10 % and 64 MB."""
    root = Path(__file__).parents[2]
    command = [sys.executable, "-c", _MEASURE, NAME]
    said = subprocess.run(command, cwd=root, capture_output=True, text=True, check=True).stdout
    file_bytes = sum(path.stat().st_size for path in source.folder.files)
    for line in said.splitlines():
        peak, steady, weights, caches = json.loads(line)
        assert peak <= 1.3 * file_bytes
        assert steady <= 1.1 * weights + caches + 64 * MIB
