"""Log lines of the core as records of Python's logging. TC_LOGS chooses the topics."""

from __future__ import annotations

import logging
import os
import sys

import tensor_comprehensions

logger = logging.getLogger("tensor_comprehensions")

if os.environ.get("TC_LOGS") and not logger.handlers:
    # Whoever sets TC_LOGS wants to see something, also where logging was not set up.
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter("[%(name)s] %(message)s"))
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)


def emit(topic: str, message: str) -> None:
    """Called by the core for every line of an enabled topic, and for what is wrong with TC_LOGS."""
    if topic == "progress":
        # Somebody waits, and may not know what for.
        if not tensor_comprehensions.SILENT:
            logger.warning("%s", message)
        return
    level = logging.WARNING if topic == "TC_LOGS" else logging.INFO
    logger.log(level, "%s: %s", topic, message)
