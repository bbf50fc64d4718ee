"""How much a cell remembers of its initialization: rows in, numbers out."""

from initmem.memory.paired import MEASURE, STATES, TRAINED, spread
from initmem.memory.table import cells

__all__ = ["MEASURE", "STATES", "TRAINED", "cells", "spread"]
