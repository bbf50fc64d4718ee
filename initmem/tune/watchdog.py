"""Notices when Ray itself dies: without its raylet or head, Tune's loop would turn for ever."""

from __future__ import annotations

import os
import queue
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import ray

from initmem.study.spec import UserError

LOOK_EVERY_S = 5.0
ANSWER_WITHIN_S = 20.0
END_WITHIN_S = 10.0

DEAD = "ray: its raylet or head died; the same command goes on"


@contextmanager
def watched() -> Iterator[None]:
    """Raise UserError in the main thread, within a minute, when this driver's raylet or the head
    is gone. Enter it inside `stoppable`."""
    node = ray.get_runtime_context().get_node_id()
    ended, dead = threading.Event(), threading.Event()

    def look() -> None:
        while not ended.wait(LOOK_EVERY_S):
            if not _alive(node):
                dead.set()
                os.kill(os.getpid(), signal.SIGTERM)
                if not ended.wait(END_WITHIN_S):
                    _end()
                return

    threading.Thread(target=look, daemon=True).start()
    try:
        yield
    except KeyboardInterrupt:
        if dead.is_set():
            raise UserError(DEAD) from None
        raise
    finally:
        ended.set()


def _end() -> None:
    """For a main thread that hangs in Ray's own code, where no signal reaches it, until Ray ends
    the process without a word of use. Records are whole at any moment, and the kernel frees the
    owner's lock."""
    print(DEAD, file=sys.stderr, flush=True)
    os._exit(2)


def shut_down() -> None:
    """ray.shutdown, which waits for ever for a head that is gone, for at most ten seconds."""
    thread = threading.Thread(target=ray.shutdown, daemon=True)
    thread.start()
    thread.join(10)


def _alive(node: str) -> bool:
    answers: queue.Queue[bool] = queue.Queue()

    def ask() -> None:
        answers.put(any(n["Alive"] for n in ray.nodes() if n["NodeID"] == node))

    threading.Thread(target=ask, daemon=True).start()
    try:
        return answers.get(timeout=ANSWER_WITHIN_S)
    except queue.Empty:
        return False
