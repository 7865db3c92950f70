"""A round without drafts is a plain step: the same token by every rule, from the same number."""

from __future__ import annotations

import pytest
import torch

from engine import registry
from engine.verify import judge_none

NOTHING = torch.empty(0, dtype=torch.long)


@pytest.mark.parametrize("rule", registry.RULES)
@pytest.mark.parametrize("peaked", [False, True])
def test_every_rule_comes_to_the_same(rule: str, peaked: bool) -> None:
    shipped = registry.load(registry.RULES[rule])()
    certain = peaked or rule == "greedy_match"
    for seed in range(20):
        draws = shipped.draws(seed)
        p = torch.rand(1, 50, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
        p = torch.nn.functional.one_hot(p.argmax(-1), 50).double() if certain else p / p.sum()
        short, whole = judge_none(p, draws, 7), shipped.judge(p, None, NOTHING, draws, 7)
        assert (int(short.n_accepted), int(short.token)) == (0, int(whole.token))
        assert int(whole.n_accepted) == 0
