"""Recordings: observations in a file, written by `pdwatch record`, read by `pdwatch replay`.

The form is one JSON value per line, described in `docs/recordings.md`.
"""

from pathlib import Path

from agent.sources.recordings.reader import RecordingProblem, read_recording
from agent.sources.recordings.writer import RecordingWriter

__all__ = ["SHIPPED_RECORDING", "RecordingProblem", "RecordingWriter", "read_recording"]

SHIPPED_RECORDING = Path(__file__).parents[2] / "data" / "real-fleet.jsonl.gz"
"""Thirteen minutes of a real prefill/decode fleet, from the start of its servers (`docs/recordings.md`)."""
