"""Collecting what an arm does with a prompt, and comparing its texts with plain decoding's."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import TYPE_CHECKING

from engine.bench.trials.decode import Written
from engine.bench.trials.plan import Arm
from engine.bench.trials.units import ArmTrial
from engine.context import Message
from engine.costs import Costs
from engine.stats import Statistics, Timing
from engine.what_if import oracle

if TYPE_CHECKING:
    from engine.session import Session


class Pairing:
    """An arm's answers to one prompt, beside plain decoding's."""

    def __init__(self, arm: Arm, session: Session) -> None:
        self._arm, self._session = arm, session
        self._counts = Statistics()
        self._decode_ms = 0.0
        self._ttft: list[float] = []
        self._costs: Costs | None = None
        self._compared = self._identical = self._ties = 0
        self._first: int | None = None
        self._oracle_ms = self._oracle_plain_ms = 0.0
        self._digest = hashlib.sha256()

    def add(self, messages: Sequence[Message], written: Written, reference: Written) -> None:
        """Take an answer of the arm, and the plain one it is to be compared with."""
        counts = written.statistics
        self._decode_ms += counts.decode_ms
        if written.ttft_ms is not None:
            self._ttft.append(written.ttft_ms)
        self._costs = counts.costs or self._costs
        if counts.costs is not None and written.rounds:
            plain_ms = counts.costs.t1_ms * counts.tokens
            self._oracle_plain_ms += plain_ms
            self._oracle_ms += plain_ms / oracle(written.rounds, counts.costs).speedup
        self._counts.merge(counts)
        self._digest.update(repr(written.ids).encode())
        if written.greedy and reference.greedy:
            self._compare(messages, written.ids, reference.ids)

    def trial(self) -> ArmTrial:
        """All of it."""
        self._counts.timing = Timing(self._decode_ms, None)
        return ArmTrial(
            arm=self._arm.name,
            counts=self._counts,
            ttft_ms=tuple(self._ttft),
            costs=self._costs,
            compared=self._compared,
            identical=self._identical,
            ties=self._ties,
            first_difference=self._first,
            dtype=self._session.pair.target.info.dtype,
            oracle_ms=self._oracle_ms,
            oracle_plain_ms=self._oracle_plain_ms,
            digest=self._digest.hexdigest()[:12],
        )

    def _compare(self, messages: Sequence[Message], ids: Sequence[int], plain: Sequence[int]) -> None:
        self._compared += 1
        pairs = zip(ids, plain, strict=False)
        at = next((index for index, (one, other) in enumerate(pairs) if one != other), None)
        if at is None and len(ids) != len(plain):
            at = min(len(ids), len(plain))
        if at is None:
            self._identical += 1
            return
        self._first = at if self._first is None else min(self._first, at)
        self._ties += self._is_tie(messages, ids, plain)

    def _is_tie(self, messages: Sequence[Message], ids: Sequence[int], plain: Sequence[int]) -> bool:
        """Whether rounding explains the difference: in float32 only, where it hardly ever has to."""
        pair = self._session.pair
        if pair.target.info.dtype != "float32" or len(ids) != len(plain):
            return False
        from engine.bench.equality import compare

        prompt = self._session.prompt_tokens(messages)[0]
        return compare(pair.target, prompt, plain, ids, self._arm.config.draft.most_drafts).tied
