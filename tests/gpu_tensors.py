"""Arguments on a GPU."""

from __future__ import annotations

import torch


def on_gpu(values: tuple) -> tuple:
    """Numbers stay numbers."""
    return tuple(x.cuda() if isinstance(x, torch.Tensor) else x for x in values)
