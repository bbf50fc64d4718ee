import initmem  # noqa: F401 - before torch, whose threads are then told not to spin
