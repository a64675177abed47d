"""The processes of one demo server: run as a program, never imported by the product.

In: as arguments, the command line that the launcher is to carry, then its children's titles; on standard input, lines
of `NUMBER BYTES`. Out: child NUMBER holds so many bytes of heap. The launcher forks its children and gives itself and
them their names in place, as vLLM's setproctitle does. All end when standard input does, so none outlives the demo.
"""

from __future__ import annotations

import ctypes
import gc
import os
import sys
from contextlib import suppress
from typing import BinaryIO

CHUNK_BYTES = 64 << 10
"""Below the size from which the C library maps memory apart: what is held lies on the heap, as most leaks do."""
MOST_BYTES = 256 << 20
"""No child ever holds more, whatever it is told."""
UNTITLED = 3
"""Exit code: the kernel does not let a process name itself here."""
PR_SET_NAME = 15
COMM_BYTES = 15


class ArgumentArea:
    """The bytes of this process from which the kernel shows its command line. Raises OSError where it hides them."""

    def __init__(self) -> None:
        with open("/proc/self/stat", "rb") as stat:  # noqa: PTH123 - pathlib would double the size of every child
            fields = stat.read().rpartition(b")")[2].split()
        # `arg_start` and `arg_end`, the 48th and 49th field; the command name before the bracket is the second.
        self.start, end = int(fields[45]), int(fields[46])
        self.length = end - self.start
        if self.start == 0 or self.length <= 0:
            raise OSError("the kernel does not tell where the command line lies")

    def write(self, arguments: list[str]) -> None:
        """Show these instead; what is left of the area is filled with zeros."""
        text = b"\0".join(word.encode() for word in arguments)[: self.length - 1]
        ctypes.memmove(self.start, text.ljust(self.length, b"\0"), self.length)
        name = arguments[0].rpartition("/")[2].encode()[:COMM_BYTES]
        ctypes.CDLL(None).prctl(PR_SET_NAME, name, 0, 0, 0)


def hold(source: BinaryIO) -> None:
    """Holds as many bytes as the last line said, until the lines end."""
    held: list[bytes] = []
    for line in source:
        wanted = min(int(line), MOST_BYTES) // CHUNK_BYTES
        del held[wanted:]
        while len(held) < wanted:
            held.append(b"x" * CHUNK_BYTES)


def fork(titles: list[str], area: ArgumentArea) -> list[BinaryIO]:
    """One child for each title; what leads to each of them."""
    pipes: list[BinaryIO] = []
    for title in titles:
        end, begin = os.pipe()
        if os.fork() == 0:
            os.close(begin)
            os.close(0)
            for pipe in pipes:
                pipe.close()  # or a sibling's input would not end with the launcher
            area.write([title])
            hold(os.fdopen(end, "rb"))
            os._exit(0)
        os.close(end)
        pipes.append(os.fdopen(begin, "wb", buffering=0))
    return pipes


def main(arguments: list[str]) -> int:
    """The launcher, until standard input ends."""
    gc.disable()  # nothing here makes cycles, and a collection would copy every page shared with the launcher
    gc.freeze()
    try:
        area = ArgumentArea()
        area.write(arguments[0].split(" "))
    except (OSError, IndexError, ValueError):
        return UNTITLED
    pipes = fork(arguments[1:], area)
    for line in sys.stdin.buffer:
        number, _, size = line.partition(b" ")
        with suppress(BrokenPipeError):  # somebody ended that child: the others go on
            pipes[int(number)].write(size)
    for pipe in pipes:
        pipe.close()
    for _ in pipes:
        os.wait()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
