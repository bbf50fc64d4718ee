"""How much a cell remembers of its initialization: rows in, numbers out."""

from initmem.memory.measures import MEASURE, STATES, TRAINED
from initmem.memory.paired import spread
from initmem.memory.table import cells

__all__ = ["MEASURE", "STATES", "TRAINED", "cells", "spread"]
