"""Runs of tiny models, recorded and repeated."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from support.sessions import ASK, loaded

from engine.config import Config
from engine.events import Event
from engine.recheck_finding import Finding
from engine.recheck_models import ModelRecheck, Repeated
from engine.session import Session

Story = tuple[dict[str, Any], list[Event]]


def recorded(config: Config) -> Story:
    session = loaded(config)
    events = [*session.generate(ASK), *session.baseline()]
    header = session.header()
    session.close()
    return header, events


def repeat(
    story: Story, disturb: Callable[[Session], None] = lambda _: None
) -> tuple[list[Finding], Repeated]:
    header, events = story
    made: list[Session] = []

    def make(config: Config) -> Session:
        made.append(Session(config))
        return made[0]

    recheck = ModelRecheck(header, make)
    recheck.load()
    disturb(made[0])
    findings = list(recheck.run(events))
    recheck.close()
    return findings, recheck.result
