"""What runs on the bench's terminal: the app, with a script in the place of a user.

``python -m tui.bench.child MODE PLAN FD``: PLAN are the mode's arguments as JSON, FD is where it tells facts.
At its top it imports nothing that the ``spec`` command does not, so that a start is measured as it is.
"""

from __future__ import annotations

import fcntl
import json
import os
import sys
import termios
import time
from collections.abc import Callable

Tell = Callable[[dict[str, object]], None]


def start(tell: Tell) -> None:
    """``spec builtin --app``, up to where the engine would load the model."""
    from engine.errors import Cancelled
    from engine.session import Session
    from tui.cli import run

    class Watched(Session):
        """Says what is imported when the engine gets its first command."""

        def load(self, tell_event: object = None) -> None:
            heavy = {"torch", "transformers", "numpy"} & sys.modules.keys()
            tell({"at": time.monotonic(), "imported": sorted(heavy)})
            raise Cancelled("seen enough")

    sys.argv = ["spec", "builtin", "--app"]
    run(session_factory=Watched)


def frames(tell: Tell, folder: str, sizes: list[int], times: int) -> None:
    """The cost of a frame with ever more tokens in the panes."""
    from tui.bench.frames import frame_costs

    frame_costs(tell, folder, sizes, times)


def replay(tell: Tell, folder: str, rounds: int, seeks: int) -> None:
    """A long recording."""
    from tui.bench.long_replay import replay_costs

    replay_costs(tell, folder, rounds, seeks)


def live(tell: Tell, **plan: object) -> None:
    """Speed, keys and rest with a real model."""
    from tui.bench.live import Live, Plan

    Live(tell, Plan(**plan)).run()  # type: ignore[arg-type]  # they come as JSON


MODES: dict[str, Callable[..., None]] = {"start": start, "frames": frames, "replay": replay, "live": live}


def main() -> None:
    """Run one mode."""
    mode, plan, descriptor = sys.argv[1:]
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)  # so that the terminal's signals come here
    with os.fdopen(int(descriptor), "w", encoding="utf-8", buffering=1) as pipe:
        MODES[mode](lambda fact: pipe.write(json.dumps(fact) + "\n"), **json.loads(plan))


if __name__ == "__main__":
    main()
