"""What of the app's work is recorded: from which run on, in which file, until when. No screen.

A file holds the runs of one load of models, because its header names them: after another load a new one
begins. An answer that goes on with other models in its middle stays in its file, which tells of the load.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from pathlib import Path

from engine.config import Config
from engine.errors import SpeculateError
from engine.recording import Recorder
from tui.engine_thread import Record
from tui.lab import Lab
from tui.recording_folder import RecordingFolder

REC, REC_NEXT = "REC", "REC from next run"


def _now() -> datetime:
    return datetime.now().astimezone()


class SessionRecorder:
    """Starts and ends recordings, between runs.

    A file is made when a run begins, so that no run leaves no file. The engine's thread writes it.

    Args:
        lab: whose runs are recorded.
        folder: where new files go.
        fail: shows what went wrong.
        now: the time of day.
    """

    def __init__(
        self,
        lab: Lab,
        folder: RecordingFolder,
        fail: Callable[[SpeculateError], None],
        now: Callable[[], datetime] = _now,
    ) -> None:
        self._lab, self._folder, self._fail, self._now = lab, folder, fail, now
        self._wanted: bool | None = None  # what the user said; None: as the settings have it
        self._recorder: Recorder | None = None
        self._models: Config | None = None  # the load that its header tells of
        self._is_users = False  # the user named the file: it holds the whole session
        lab.on_run = self.before_run

    @property
    def path(self) -> Path | None:
        """The file that is being written."""
        return self._recorder.path if self._recorder is not None and not self._recorder.closed else None

    @property
    def sign(self) -> str:
        """What the first line says of it; "" while nothing is recorded."""
        if self.path is not None:
            return REC
        return REC_NEXT if self._wants() else ""

    def _wants(self) -> bool:
        """Whether the next run is to be recorded."""
        if self._recorder is not None and self._recorder.failure is not None:
            # Told already; a disk that is full would be told of again at every run.
            self._recorder, self._wanted = None, False
        return self._lab.config.record.always if self._wanted is None else self._wanted

    def adopt(self, recorder: Recorder) -> None:
        """One that the engine has been given already, on a file that the user named."""
        self._recorder, self._is_users, self._wanted = recorder, True, True

    def toggle(self) -> None:
        """Record from the next run on; or stop, with the end of an answer that is on its way."""
        if self._wants():
            self._wanted = False
            if self.path is None:
                self._lab.say("Nothing will be recorded.")
                return
            self._lab.after_run(self._stop)
            if self.path is not None:
                self._lab.say(f"The recording ends with this answer: {self.path.name}")
        elif self.path is not None:
            self._wanted = True
            self._lab.say(f"The recording goes on: {self.path.name}")
        else:
            self._arm()

    def _arm(self) -> None:
        try:
            self._folder.prepare()
        except SpeculateError as error:
            self._fail(error)
            return
        self._wanted = True
        self._lab.say(f"Recording from the next run on, in a new file of {self._folder.folder}")

    def _stop(self) -> None:
        if self._wants() or self.path is None or self._recorder is None:
            return  # asked for again meanwhile, or ended by itself
        has_run = self._recorder.has_header
        self._lab.say(f"Recorded {self.path.name}" if has_run else "No run came: nothing was recorded.")
        self._recorder, self._is_users = None, False
        self._lab.engine.send(Record(None))
        self._lab.on_change()

    def before_run(self) -> None:
        """A run begins: a new file, where one is wanted and there is none for these models."""
        if not self._wants():
            self._stop()  # the settings say so since the last run
            return
        models = self._lab.loaded_config
        if self.path is not None and (self._is_users or self._models is models):
            return
        config = self._lab.config
        drafter = config.draft.model_name or config.draft.method
        goes_on = self.path is not None
        try:
            recorder = self._folder.begin(config.verify.model_name, drafter, self._now())
        except SpeculateError as error:
            self._wanted = False
            self._fail(error)
            return
        self._recorder, self._models, self._is_users = recorder, models, False
        self._lab.engine.send(Record(recorder))
        if goes_on:
            self._lab.say(f"Other models, another file: {recorder.path.name}")
