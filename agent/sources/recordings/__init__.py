"""Recordings: observations in a file, written by `pdwatch record`, read by `pdwatch replay`, played as if live.

The form is one JSON value per line, described in `docs/recordings.md`.
"""

from agent.sources.recordings.playback import SHIPPED_RECORDING, play
from agent.sources.recordings.reader import RecordingProblem, read_recording
from agent.sources.recordings.writer import RecordingWriter

__all__ = ["SHIPPED_RECORDING", "RecordingProblem", "RecordingWriter", "play", "read_recording"]
