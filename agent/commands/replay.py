"""`pdwatch replay`. In: recordings. Out: states and events on stdout, as a table or as JSON lines.

The same engine as the live one, fed as fast as the files can be read; time is the recording's own.
"""

from __future__ import annotations

import argparse
import json
import logging
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from agent.commands.arguments import length_of_time, log_to_stderr, moment
from agent.errors import ConfigError, RecordingError

if TYPE_CHECKING:
    from agent.config import Config
    from agent.outputs.events import Changes, Event
    from agent.sources.recordings import RecordingProblem
    from agent.state import State

RETAIN_BEYOND_SECONDS = 600.0
"""Kept beyond the asked stretch, for targets whose last scrape before it is a while back."""
MOST_PROBLEM_LINES = 20

log = logging.getLogger("pdwatch")


def configure(parser: argparse.ArgumentParser) -> None:
    """The files, the stretch, the form."""
    parser.add_argument(
        "files", metavar="FILE", nargs="+", type=Path, help="recordings, read together in order of time"
    )
    parser.add_argument(
        "-c", "--config", metavar="FILE", type=Path, help="configuration; without it pools by target names"
    )
    parser.add_argument("--every", metavar="TIME", type=length_of_time, help="a state each so much recorded time")
    parser.add_argument("--from", dest="since", metavar="T", type=moment, help="one state over exactly --from to --to")
    parser.add_argument(
        "--to", dest="until", metavar="T", type=moment, help="end here: unix seconds or ISO 8601 with offset"
    )
    parser.add_argument(
        "--events", action="store_true", help="a line for each change of a verdict or problem, and for each page"
    )
    parser.add_argument("--json", action="store_true", help="JSON lines")


def main(args: argparse.Namespace) -> int:
    """Replays; 0 also when there are problems, since they are what was asked for."""
    log_to_stderr()
    if args.since is not None and args.every is not None:
        raise ConfigError("replay: --from asks for one state over a whole stretch, --every for many: give one of them")
    if args.since is not None and args.until is not None and args.since >= args.until:
        raise ConfigError("replay: --from must be before --to")
    given = _given(args.config)
    needs_names = given is None or any(pool.discovery is not None for pool in given.pools)
    survey = _Survey(args.files, wanted=needs_names or (args.since is not None and args.until is None))
    until = args.until if args.until is not None else survey.last
    if args.since is not None and until is not None and args.since >= until:
        raise ConfigError("replay: --from must be before the end of the recording")
    config = _with_names(given, survey)
    replay = _Replay(config, args.files, args.since, until)
    for output in replay.outputs(args.every, args.events):
        sys.stdout.write(_shown(output, args.json))
    return 0


def _given(path: Path | None) -> Config | None:
    import os

    from agent.config import load_config

    return None if path is None else load_config(path, os.environ)


def _with_names(config: Config | None, survey: _Survey) -> Config:
    """The pools by the recorded names, or the configured ones with those of targets that they would find."""
    from agent.config import config_from_names, config_with_recorded

    return config_from_names(survey.names) if config is None else config_with_recorded(config, survey.names)


def _pass_over(_: RecordingProblem) -> None:
    """The pass that counts says what is broken; the first look does not."""


class _Survey:
    """One pass over the files for what has to be known first: the targets' names, and where the recording ends."""

    def __init__(self, files: Sequence[Path], wanted: bool) -> None:
        from agent.model import ClockStepObservation
        from agent.sources.recordings import read_recording

        self.names: set[str] = set()
        self.last: float | None = None
        if wanted:
            for observation in read_recording(files, _pass_over):
                self.last = observation.t if self.last is None else max(self.last, observation.t)
                if not isinstance(observation, ClockStepObservation):
                    self.names.add(observation.target)


class _Replay:
    """One run of the engine over the files."""

    def __init__(self, config: Config, files: Sequence[Path], since: float | None, until: float | None) -> None:
        from agent.watch import Watch
        from agent.windows.fleet import RETAIN_SECONDS

        retain = RETAIN_SECONDS
        if since is not None and until is not None:
            retain = max(retain, until - since + RETAIN_BEYOND_SECONDS)
        self._watch = Watch(config, retain_seconds=retain)
        self._config, self._files, self._since, self._until = config, files, since, until
        self._problems = 0

    def outputs(self, every: float | None, events: bool) -> Iterator[State | Event]:
        """States at every `every` seconds and at the end, and events between them."""
        from agent.outputs.events import Changes
        from agent.sources.recordings import read_recording

        changes = Changes() if events else None
        look_every = self._config.scrape.interval_seconds
        last = next_state = next_look = None
        for observation in read_recording(self._files, self._report):
            t = observation.t
            if self._until is not None and t > self._until:
                break
            if last is None:
                next_state = t + every if every is not None else None
                next_look = t + look_every
            if next_look is not None and t > next_look:
                yield from self._look(changes, next_look)
                next_look = _after(next_look, look_every, t)
            if every is not None and next_state is not None and t > next_state:
                yield self._watch.state(next_state)
                next_state = _after(next_state, every, t)
            self._watch.observe(observation)
            last = t
        if last is None:
            raise RecordingError(f"{', '.join(map(str, self._files))}: no observation in it")
        end = self._until if self._until is not None else last
        yield from self._look(changes, end)
        yield self._watch.state(end, since=self._since) if self._since is not None else self._watch.state(end)
        if self._watch.ignored:
            log.warning("not in the configuration, left out: %s", ", ".join(sorted(self._watch.ignored)))

    def _look(self, changes: Changes | None, t: float) -> Iterator[Event]:
        """Judges the objectives, as the live watch does once per scrape interval, and tells what changed."""
        self._watch.evaluate(t)
        if changes is not None:
            yield from changes.take(self._watch.state(t))

    def _report(self, problem: RecordingProblem) -> None:
        """A broken line is said and left out; the rest of the recording is worth having."""
        self._problems += 1
        if self._problems <= MOST_PROBLEM_LINES:
            log.warning("%s", problem.error())


def _after(due: float, step: float, t: float) -> float:
    """The first moment of the grid that is not before `t`; a gap in the recording gives no states of its own."""
    return due + step * max(1, -int((due - t) // step))


def _shown(output: State | Event, as_json: bool) -> str:
    from agent.outputs.state_json import state_text
    from agent.outputs.table import state_table
    from agent.state import State

    if isinstance(output, State):
        return state_text(output) + "\n" if as_json else state_table(output) + "\n\n"
    return json.dumps(output.line()) + "\n" if as_json else f"{output.t:.3f} {output.words()}\n"
