"""The parts of `python -m benchmarks.compare`.

workloads.py   what is trained: networks, data, optimizers
peers.py       the plain loops and vmap; fused.py: R networks as one; ours.py: initmem
gates.py       all of them compute the same, or nothing is timed
timing.py      CPU seconds, interleaved; peak.py: what the machine can do
apart.py       a variant in a process of its own, and the most memory it took
kernels.py     the three of them on one workload
naive_tune.py  the study a user would write; whole_study.py: it and ours, start-up included
goals.py       what was promised, against what was measured; page.py: docs/performance.md
"""

import os

os.environ.setdefault("KINETO_LOG_LEVEL", "99")  # the profiler's errors of not finding a GPU
