"""SIGINT, SIGTERM and SIGHUP end a run in order: nothing is left behind but records and
checkpoints."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


class Stopped(KeyboardInterrupt):
    """A signal asked for the end."""

    def __init__(self, number: int) -> None:
        super().__init__(signal.Signals(number).name)
        self.exit_status = 130 if number == signal.SIGINT else 143


@contextmanager
def stoppable() -> Iterator[None]:
    """Raise Stopped where the program stands when a signal comes; in other threads than the main
    one, where Python allows no handlers, nothing changes.

    Enter it after ray.init, which sets a handler of its own for SIGTERM.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    received: list[int] = []

    def stop(number: int, frame: FrameType | None) -> None:
        received.append(number)
        for each in before:
            signal.signal(each, signal.SIG_IGN)  # a second Ctrl-C must not break the clean-up
        raise Stopped(number)

    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = {number: signal.signal(number, stop) for number in numbers}
    try:
        yield
    except KeyboardInterrupt:  # Ray's own code may have put a bare one in the place of ours
        raise Stopped(received[0] if received else signal.SIGINT) from None
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
