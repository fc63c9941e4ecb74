"""What holds for all tests."""

from __future__ import annotations

import os

# Tests that look at our kernels must find them, whatever a measurement would say of the library on
# this machine today. Those of library calls say otherwise.
os.environ.setdefault("TC_MACHINE", "library_rate=1")
