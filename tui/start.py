"""Runs the app: from what it begins with to the exit code."""

from __future__ import annotations

import os
from collections.abc import Callable

from engine.config import Config
from engine.recording import Recorder
from engine.session import Session
from tui.app import SpecApp
from tui.engine_thread import EngineThread, Record
from tui.failures import state_dir
from tui.guards import guarded_stderr, shut_down
from tui.launch import Launch

LOG = "app.log"
_QUIET = {
    "HF_HUB_DISABLE_PROGRESS_BARS": "1",
    "TQDM_DISABLE": "1",
    "TOKENIZERS_PARALLELISM": "false",
    "TRANSFORMERS_VERBOSITY": "error",
}
"""Before those libraries are imported: their bars would draw over the app."""


def run_app(launch: Launch, session_factory: Callable[[Config], Session] = Session) -> int:
    """Run the app to its end and return the exit code.

    Raises:
        RecordingError: the recording cannot be written where the configuration says.
        Exception: what made the app crash, whatever it was. If the engine hangs as well, that is told on
            standard error instead, and the process ends.
    """
    for name, value in _QUIET.items():
        os.environ.setdefault(name, value)
    if launch.config.ui.color == "never":
        os.environ["NO_COLOR"] = "1"
    engine = EngineThread(launch.config, session_factory=session_factory)
    path = launch.config.record.path
    recorder = None if path is None else Recorder(path)
    if recorder is not None:
        engine.send(Record(recorder))
    code = 1
    crash: Exception | None = None
    try:
        with guarded_stderr(state_dir() / LOG):
            app = SpecApp(engine, launch)
            if recorder is not None:
                app.recorder.adopt(recorder)
            app.run()
            code = app.return_code or 0
            if app.crash is not None:
                raise app.crash
    except Exception as error:
        crash = error
        raise
    finally:
        shut_down(engine, code, crash=crash)
    return code
