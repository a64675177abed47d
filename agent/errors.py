"""Every error pdwatch raises on purpose. In: nothing. Out: one tree; a caller catches as widely as it means to.

    PdwatchError
    |-- ConfigError        a configuration or command line that cannot be used (exit code 2)
    |-- RecordingError     a recording that cannot be read or written (names file and line)
    |-- PageError          one page of one target that cannot be used; becomes a problem of that target
    |   |-- PageTooLarge
    |   |-- NotVllm
    |   `-- NotRouter
    |-- StateError         saved history that cannot be restored; the history starts anew and says so
    `-- ViewerError        a running pdwatch that a viewer cannot read (exit code 2)

Nothing that comes from the outside world after start may end the process: `PageError` is caught where
the page was taken and becomes a counted, visible problem.
"""

from __future__ import annotations


class PdwatchError(Exception):
    """The root: a message says what happened, where, and what to do."""


class ConfigError(PdwatchError):
    """A configuration that cannot be used: one line with file, key path, what is wrong, nearest valid name."""


class RecordingError(PdwatchError):
    """A recording that cannot be read or written; the message names the file and the line."""


class PageError(PdwatchError):
    """One page of one target that cannot be used as a whole."""


class PageTooLarge(PageError):
    """A page past the configured size or number of engines."""


class NotVllm(PageError):
    """A page that holds no vLLM metric (an HTML page, another exporter, an empty body)."""


class NotRouter(PageError):
    """A page that holds no metric of the router it should be of."""


class StateError(PdwatchError):
    """Saved history that cannot be restored (other version, damaged)."""


class ViewerError(PdwatchError):
    """A running pdwatch that a viewer cannot read: one line with its address and why."""
