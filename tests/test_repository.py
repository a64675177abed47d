"""The rules of the house that tools can hold: size of files, walls between rooms, libraries in their places.

In: the repository's own files. Out: one failing sentence per broken rule, with every place that breaks it.
"""

import ast
import os
import re
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from fnmatch import fnmatch
from pathlib import Path

import pytest

MOST_LINES_IN_A_FILE = 350

# The pure rooms and the pure files beside them.
PURE_ROOMS = {"reading", "windows", "indicators", "verdicts"}
PURE_FILES = {"watch", "memory", "catalogue", "state", "errors", "model"}

# Where a third-party library may be imported: globs below agent/, whose `*` covers folders inside folders.
# A library that is not named here may be imported nowhere.
LIBRARY_PLACES = {
    "aiohttp": ("sources/*", "outputs/*", "demo/*"),
    "dns": ("sources/discovery/dns.py",),
    "google": ("sources/traces*", "outputs/otlp*"),
    "grafana_foundation_sdk": ("export/dashboards/*",),
    "grpc": ("sources/traces*", "outputs/otlp*"),
    "opentelemetry": ("sources/traces*", "outputs/otlp*"),
    "prometheus_client": ("outputs/*",),
    "psutil": ("sources/processes*",),
    "rich": ("outputs/terminal/*",),
    "yaml": ("config*", "check*", "export/*"),
}

# Libraries that take long to import and that `pdwatch version` and `pdwatch --help` do without.
HEAVY_LIBRARIES = (
    "aiohttp",
    "grafana_foundation_sdk",
    "numpy",
    "opentelemetry",
    "prometheus_client",
    "psutil",
    "rich",
)

# Written in two parts, so that this file does not hold what it looks for.
FOREIGN_WORDS = {
    "a path of one machine": re.compile(r"(?<![\w.])/(?:wo" r"rk|ro" r"ot)/|/ho" r"me/\w+/"),
    "the host of a package registry": re.compile(
        r"py" r"pi\.org|files\.python" r"hosted|registry\.np" r"mjs|deb\.deb" r"ian\.org|proxy\.go" r"lang"
    ),
    "the number of a task": re.compile(r"\bis" r"sues?[ -]#?\d{1,2}\b", re.IGNORECASE),
    "an unresolved merge": re.compile(r"^(?:<{7}|>{7}|\|{7}) ", re.MULTILINE),
}


def package_files(repository: Path) -> list[Path]:
    return sorted((repository / "agent").rglob("*.py"))


def imports_of(path: Path) -> Iterator[tuple[int, str]]:
    """Line and top-level name of every import in a file, those inside functions included."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"), str(path))):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield node.lineno, alias.name.partition(".")[0]
        elif isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            yield node.lineno, node.module.partition(".")[0]


def test_no_file_of_the_package_is_longer_than_one_idea(repository: Path) -> None:
    lines = {
        str(path.relative_to(repository)): len(path.read_text(encoding="utf-8").splitlines())
        for path in package_files(repository)
    }
    assert lines
    assert {name: count for name, count in lines.items() if count > MOST_LINES_IN_A_FILE} == {}


def test_every_file_says_first_what_it_is_for(repository: Path) -> None:
    silent = [
        str(path.relative_to(repository))
        for path in package_files(repository)
        if not ast.get_docstring(ast.parse(path.read_text(encoding="utf-8")))
    ]
    assert silent == []


def test_every_third_party_library_is_imported_only_in_its_place(repository: Path) -> None:
    misplaced = []
    for path in package_files(repository):
        inside = path.relative_to(repository / "agent")
        for line, library in imports_of(path):
            if library == "agent" or library in sys.stdlib_module_names:
                continue
            if not any(fnmatch(inside.as_posix(), place) for place in LIBRARY_PLACES.get(library, ())):
                misplaced.append(f"agent/{inside}:{line} imports {library}")
    assert misplaced == []


def test_pure_rooms_open_nothing_print_nothing_and_keep_no_global_state(repository: Path) -> None:
    impure = []
    for path in package_files(repository):
        inside = path.relative_to(repository / "agent")
        if inside.parts[0].removesuffix(".py") in PURE_ROOMS | PURE_FILES:
            tree = ast.parse(path.read_text(encoding="utf-8"))
            impure += [f"agent/{inside}:{line} {what}" for line, what in impurities(tree)]
    assert impure == []


def impurities(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Line and description of what a pure room does not do and an import does not betray."""
    for node in ast.walk(tree):
        match node:
            case ast.Global():
                yield node.lineno, "changes a global"
            case ast.Call(func=ast.Name(id="open" | "print" | "input" | "breakpoint" as called)):
                yield node.lineno, f"calls {called}()"
            case ast.Attribute(value=ast.Name(id="sys"), attr="stdin" | "stdout" | "stderr" | "argv" | "exit"):
                yield node.lineno, f"uses sys.{node.attr}"
            case ast.Attribute(attr="now" | "utcnow" | "today") if "date" in ast.unparse(node.value):
                yield node.lineno, "reads the clock"


@pytest.mark.parametrize(
    ("source", "what"),
    [
        ("def f():\n    global n\n    n = 1", "changes a global"),
        ("open('/proc/stat')", "calls open()"),
        ("import sys\nsys.stdout.write('')", "uses sys.stdout"),
        ("import datetime\ndatetime.datetime.now(tz)", "reads the clock"),
    ],
)
def test_an_impurity_is_seen(source: str, what: str) -> None:
    assert [found for _, found in impurities(ast.parse(source))] == [what]


def test_the_import_contracts_are_kept(repository: Path, tmp_path: Path) -> None:
    done = subprocess.run(
        [Path(sys.executable).with_name("lint-imports"), "--cache-dir", tmp_path],
        cwd=repository,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_command_line_starts_without_heavy_libraries(repository: Path) -> None:
    program = "import sys, agent.cli; print(*sorted({name.partition('.')[0] for name in sys.modules}))"
    done = subprocess.run([sys.executable, "-c", program], cwd=repository, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert set(done.stdout.split()) & set(HEAVY_LIBRARIES) == set()


def test_the_repository_speaks_of_the_product_alone(repository: Path) -> None:
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=repository,
        capture_output=True,
        text=True,
        check=True,
    )
    found = []
    for name in sorted(set(listed.stdout.split("\0")) - {""}):
        try:
            text = (repository / name).read_text(encoding="utf-8")
        except (UnicodeDecodeError, FileNotFoundError, IsADirectoryError):
            continue  # a picture, a compressed recording, a file deleted and not yet committed
        for what, pattern in FOREIGN_WORDS.items():
            for match in pattern.finditer(text):
                line = text.count("\n", 0, match.start()) + 1
                found.append(f"{name}:{line} holds {what}: {match.group()!r}")
    assert found == []


@pytest.mark.parametrize(
    ("ci", "exit_code", "last_line"),
    [("true", 1, "1 failed, 1 passed, 1 xfailed"), ("", 0, "1 passed, 1 skipped, 1 xfailed")],
)
def test_a_skipped_test_fails_the_run_on_ci_and_only_there(
    ci: str, exit_code: int, last_line: str, repository: Path, tmp_path: Path
) -> None:
    source = """
        import pytest

        def test_that_passes():
            pass

        def test_that_is_skipped():
            pytest.skip("nothing to look at")

        @pytest.mark.xfail
        def test_that_is_expected_to_fail():
            assert False
    """
    (tmp_path / "test_sample.py").write_text(textwrap.dedent(source), encoding="utf-8")
    (tmp_path / "pytest.ini").write_text("[pytest]\n", encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "tests.conftest", "-p", "no:cacheprovider", str(tmp_path)],
        cwd=repository,
        env={**os.environ, "CI": ci},
        capture_output=True,
        text=True,
    )
    assert done.returncode == exit_code, done.stdout + done.stderr
    assert last_line in done.stdout.splitlines()[-1]
