"""file_sd: lists in files. In: paths and globs, looked at again and again. Out: one `Listing` of all files together.

A file that is being written may read as a valid shorter list. So a change is taken once the file looks the same in two
looks, one interval apart. A file that cannot be used keeps its own last list, and the others go on. Only a file that a
glob no longer finds, in two looks, while it still finds others, is gone; a pattern that finds nothing is a failure.
"""

from __future__ import annotations

import glob
from dataclasses import dataclass
from pathlib import Path

from agent.config import FileSd
from agent.sources.discovery.documents import MOST_JSON_BYTES, MOST_TARGETS, MOST_YAML_BYTES, read_json, read_yaml
from agent.sources.discovery.found import DiscoveryError, Found, Listing, shown

MOST_FILES = 200

_State = tuple[int, int, int]


@dataclass(slots=True)
class _File:
    """`seen`: as it looked last; `taken`: as it looked when `listing` was read."""

    seen: _State | None = None
    taken: _State | None = None
    listing: Listing | None = None


class FileLists:
    """Looks at all files of one configuration."""

    def __init__(self, config: FileSd) -> None:
        self._config = config
        self._files: dict[str, _File] = {}
        self._missing: set[str] = set()
        self._has_looked = False

    def look(self) -> Listing:
        """Everything that the files list now; `notes` name the files that cannot be used. Blocks on the disk.

        Raises DiscoveryError where no file can be used, or a pattern finds none; nothing is lost by it.
        """
        names = self._names()
        failures: list[DiscoveryError] = []
        kept: dict[str, _File] = {}
        for name in names:
            file = kept[name] = self._files.get(name) or _File()
            if name in self._missing:
                continue
            try:
                self._read(name, file)
            except DiscoveryError as error:
                failures.append(error)
        self._files, self._has_looked = kept, True
        if failures and all(file.listing is None for file in kept.values()):
            raise failures[0]
        targets: dict[str, Found] = {}
        notes = [f"{failure.text}; its last list stands" for failure in failures]
        for name, file in kept.items():
            listed = file.listing.targets if file.listing is not None else ()
            others = [target for target in listed if targets.setdefault(target.name, target) != target]
            notes += [f"{name}: {shown(other.name)} is another target in another file; left out" for other in others]
        if len(targets) > MOST_TARGETS:
            raise DiscoveryError("too_many", f"{', '.join(self._config.files)}: more than {MOST_TARGETS} targets")
        return Listing(tuple(sorted(targets.values(), key=lambda target: target.name)), tuple(notes))

    def _names(self) -> list[str]:
        """The files now, and those that were there one look ago: what is gone has to be gone twice."""
        names: list[str] = []
        for pattern in self._config.files:
            found = sorted(glob.glob(pattern))  # noqa: PTH207 - a pattern may be absolute
            if not found:
                raise DiscoveryError("no_file", f"{pattern}: no such file")
            names += [name for name in found if name not in names]
        if len(names) > MOST_FILES:
            raise DiscoveryError("too_many", f"{', '.join(self._config.files)}: more than {MOST_FILES} files")
        gone = {name for name in self._files if name not in names}
        once = gone - self._missing
        self._missing = gone
        return names + sorted(once)

    def _read(self, name: str, file: _File) -> None:
        """Brings one file up to date where it has settled. Raises DiscoveryError."""
        try:
            state = _state(name)
            has_settled = state == file.seen or not self._has_looked
            file.seen = state
            if has_settled and file.taken != state:
                file.listing, file.taken = _listing(name), state
        except OSError as error:
            raise DiscoveryError("unreadable", f"{name}: cannot be read: {error.strerror or error}") from None


def _state(name: str) -> _State:
    stat = Path(name).stat()
    return stat.st_ino, stat.st_size, stat.st_mtime_ns


def _listing(name: str) -> Listing:
    is_json = name.endswith(".json")
    with Path(name).open("rb") as file:
        data = file.read((MOST_JSON_BYTES if is_json else MOST_YAML_BYTES) + 1)
    return read_json(data, name) if is_json else read_yaml(data, name)
