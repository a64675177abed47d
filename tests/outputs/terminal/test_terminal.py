"""The command on a real terminal: that keys work, and that the terminal is as before however it ends."""

import fcntl
import json
import os
import pty
import select
import signal
import struct
import subprocess
import sys
import termios
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from agent.cli import main
from agent.outputs.terminal.keys import keys_in
from tests.outputs.terminal.documents import broken

WAIT_SECONDS = 30.0
# The first terminal that a new session opens is the one that Ctrl-C in it is typed into.
_COMMAND = "import os, sys; os.open(sys.argv.pop(1), os.O_RDWR); from agent.cli import main; sys.exit(main())"
LEAVE = b"\x1b[?1049l"


class _States(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        body = json.dumps(broken()).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Says nothing."""


@pytest.fixture
def address() -> Iterator[str]:
    """A server that answers with one state."""
    server = HTTPServer(("127.0.0.1", 0), _States)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


class Terminal:
    """A pseudo-terminal of 80x24 with the command in it."""

    def __init__(self, address: str, **environment: str) -> None:
        self._ours, self._theirs = pty.openpty()
        fcntl.ioctl(self._theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
        self._before = termios.tcgetattr(self._theirs)
        kept = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "LINES", "NO_COLOR")}
        self.process = subprocess.Popen(
            [sys.executable, "-c", _COMMAND, os.ttyname(self._theirs), "top", address],
            stdin=self._theirs,
            stdout=self._theirs,
            stderr=self._theirs,
            env={**kept, "TERM": "xterm-256color", "PYTHONUTF8": "1", **environment},
            start_new_session=True,
        )
        self.seen = b""

    def until(self, expected: bytes) -> bytes:
        """What is drawn until this is in it, which is then forgotten."""
        end = time.monotonic() + WAIT_SECONDS
        while expected not in self.seen:
            ready, _, _ = select.select([self._ours], [], [], max(0.0, end - time.monotonic()))
            assert ready, f"{expected!r} never came: {self.seen[-2000:]!r}"
            self.seen += os.read(self._ours, 1 << 16)
        drawn, _, self.seen = self.seen.partition(expected)
        return drawn

    def press(self, keys: bytes) -> None:
        os.write(self._ours, keys)

    def end(self) -> int:
        """Waits for the end; the terminal must be as it was."""
        self.until(LEAVE)
        exit_code = self.process.wait(WAIT_SECONDS)
        assert termios.tcgetattr(self._theirs) == self._before
        return exit_code

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        os.close(self._ours)
        os.close(self._theirs)


@pytest.fixture
def terminal(address: str) -> Iterator[Terminal]:
    opened = Terminal(address)
    yield opened
    opened.close()


def test_keys_sort_and_turn_pages_and_q_ends_it_with_the_terminal_as_before(terminal: Terminal) -> None:
    terminal.until(b"\x1b[1;31mBREACHED")
    terminal.press(b"r")
    terminal.until("RUN▼".encode())
    terminal.press(b"r")
    terminal.until("RUN▲".encode())
    terminal.press(b"\t")
    terminal.until(b"page 2/4")
    terminal.press(b"q")
    assert terminal.end() == 0


@pytest.mark.parametrize(("number", "exit_code"), [(signal.SIGTERM, 0), (signal.SIGHUP, 0)])
def test_a_signal_ends_it_with_the_terminal_as_before(terminal: Terminal, number: int, exit_code: int) -> None:
    terminal.until(b"BREACHED")
    terminal.process.send_signal(number)
    assert terminal.end() == exit_code


def test_ctrl_c_ends_it_with_130_and_the_terminal_as_before(terminal: Terminal) -> None:
    terminal.until(b"BREACHED")
    terminal.press(b"\x03")
    assert terminal.end() == 130


def test_ctrl_z_gives_the_terminal_back_and_takes_it_again(terminal: Terminal) -> None:
    terminal.until(b"BREACHED")
    terminal.press(b"\x1a")
    terminal.until(LEAVE)
    _, status = os.waitpid(terminal.process.pid, os.WUNTRACED)
    assert os.WIFSTOPPED(status)
    terminal.process.send_signal(signal.SIGCONT)
    terminal.until(b"BREACHED")
    terminal.press(b"q")
    assert terminal.end() == 0


def test_without_colour_nothing_is_coloured(address: str) -> None:
    terminal = Terminal(address, NO_COLOR="1")
    try:
        drawn = terminal.until(b"tok/s")
        assert b"BREACHED" in drawn
        assert b"31m" not in drawn
        terminal.press(b"q")
        assert terminal.end() == 0
    finally:
        terminal.close()


def test_once_prints_plain_text(address: str, capsys: pytest.CaptureFixture[str]) -> None:
    for arguments in (["top", address, "--once"], ["top", address]):  # without a terminal there is nothing to stay in
        assert main(arguments) == 0
        out, err = capsys.readouterr()
        assert out.startswith("pdwatch glm-prod  1 critical")
        assert "\x1b" not in out
        assert err == ""
        assert all(line == line.rstrip() and len(line) <= 80 for line in out.splitlines())


def test_nobody_there_is_one_line_and_exit_code_two(capsys: pytest.CaptureFixture[str]) -> None:
    server = HTTPServer(("127.0.0.1", 0), _States)
    server.server_close()
    assert main(["top", f"127.0.0.1:{server.server_port}", "--once"]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.count("\n") == 1
    assert "cannot be reached: connection refused" in err


def test_a_missing_library_is_said_with_what_to_install(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in [name for name in sys.modules if name.startswith(("agent.outputs.terminal", "rich"))]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "rich", None)
    assert main(["top", "--once"]) == 2
    assert "pip install 'pdwatch[top]'" in capsys.readouterr().err


def test_bytes_become_keys_and_half_sequences_nothing() -> None:
    assert keys_in(b"tr\t \x1b[A\x1b[6~\x1bOB\x1b[Z") == [
        "t",
        "r",
        "tab",
        "page down",
        "up",
        "page down",
        "down",
        "back tab",
    ]
    assert keys_in(b"\x1b[1;5C\x1b[200~x") == ["x"]
    assert keys_in(b"\x1b[") == keys_in(b"\x1b") == keys_in(b"\xc3\xa9\x00") == keys_in(b"") == []
