"""file_sd on a real disk: files that are written while they are read, break, vanish and come back."""

import json
import os
from pathlib import Path

import pytest

from agent.config import FileSd
from agent.sources.discovery.files import FileLists
from agent.sources.discovery.found import DiscoveryError


def write(path: Path, *addresses: str) -> None:
    path.write_text(json.dumps([{"targets": list(addresses)}]), encoding="utf-8")


def names(lists: FileLists) -> list[str]:
    return [target.name for target in lists.look().targets]


def settled(lists: FileLists) -> list[str]:
    """What is taken once a change has stood for one look."""
    lists.look()
    return names(lists)


def test_the_first_look_takes_what_is_there_and_a_change_is_taken_once_it_stands(tmp_path: Path) -> None:
    file = tmp_path / "decode.json"
    write(file, "a:1")
    lists = FileLists(FileSd((str(file),)))
    assert names(lists) == ["a:1"]
    write(file, "a:1", "b:1", "c:1")
    assert names(lists) == ["a:1"]
    assert names(lists) == ["a:1", "b:1", "c:1"]


def test_a_yaml_file_that_grows_is_not_read_half(tmp_path: Path) -> None:
    file = tmp_path / "decode.yaml"
    lines = ["- targets: [a:1]\n", "- targets: [b:1]\n", "- targets: [c:1]\n"]
    file.write_text("".join(lines), encoding="utf-8")
    lists = FileLists(FileSd((str(file),)))
    assert names(lists) == ["a:1", "b:1", "c:1"]
    for count in (1, 2, 3):  # each part would be a valid list by itself
        file.write_text("".join(lines[:count]), encoding="utf-8")
        os.utime(file, ns=(count, count))
        assert names(lists) == ["a:1", "b:1", "c:1"]
    assert names(lists) == ["a:1", "b:1", "c:1"]


def test_a_broken_file_keeps_its_list_and_is_named_while_the_others_go_on(tmp_path: Path) -> None:
    write(tmp_path / "a.json", "a:1")
    write(tmp_path / "b.json", "b:1")
    lists = FileLists(FileSd((str(tmp_path / "*.json"),)))
    assert names(lists) == ["a:1", "b:1"]
    (tmp_path / "a.json").write_text('[{"targets": ["a:1", ', encoding="utf-8")
    write(tmp_path / "b.json", "b:1", "b:2")
    lists.look()
    listing = lists.look()
    assert [target.name for target in listing.targets] == ["a:1", "b:1", "b:2"]
    (note,) = listing.notes
    assert "a.json: not valid JSON" in note
    assert note.endswith("its last list stands")
    assert lists.look().notes, "it is said as long as it is so"
    write(tmp_path / "a.json", "a:9")
    assert settled(lists) == ["a:9", "b:1", "b:2"]
    assert lists.look().notes == ()


def test_a_file_that_a_glob_finds_no_more_is_gone_after_two_looks(tmp_path: Path) -> None:
    write(tmp_path / "a.json", "a:1")
    write(tmp_path / "b.json", "b:1")
    lists = FileLists(FileSd((str(tmp_path / "*.json"),)))
    lists.look()
    (tmp_path / "b.json").unlink()
    assert names(lists) == ["a:1", "b:1"]
    assert names(lists) == ["a:1"]
    write(tmp_path / "c.json", "c:1")
    assert settled(lists) == ["a:1", "c:1"]


def test_a_pattern_that_finds_nothing_is_a_failure_and_no_empty_list(tmp_path: Path) -> None:
    file = tmp_path / "decode.json"
    lists = FileLists(FileSd((str(file),)))
    with pytest.raises(DiscoveryError, match="no such file"):
        lists.look()
    write(file, "a:1")
    assert settled(lists) == ["a:1"]
    file.unlink()
    with pytest.raises(DiscoveryError, match="no such file"):
        lists.look()


def test_files_that_contradict_each_other_are_named_and_the_first_holds(tmp_path: Path) -> None:
    for name, address in (("a", "x:1"), ("b", "y:1")):
        group = {"targets": [address], "labels": {"pdwatch_target": "same"}}
        (tmp_path / f"{name}.json").write_text(json.dumps([group]), encoding="utf-8")
    listing = FileLists(FileSd((str(tmp_path / "*.json"),))).look()
    assert [target.address for target in listing.targets] == ["x:1"]
    assert "another target in another file" in listing.notes[0]


def test_a_file_that_may_not_be_read_keeps_its_list(tmp_path: Path) -> None:
    file = tmp_path / "decode.json"
    write(file, "a:1")
    lists = FileLists(FileSd((str(file),)))
    lists.look()
    file.unlink()
    file.mkdir()  # what cannot be read as a file, for root too
    lists.look()
    listing = lists.look()
    assert [target.name for target in listing.targets] == ["a:1"]
    assert "cannot be read" in listing.notes[0]
