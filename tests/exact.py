"""Operands whose sums are exact in every order and type."""

from __future__ import annotations

import torch

#: By their names in texts.
FLOATS = {
    "float": torch.float32,
    "double": torch.float64,
    "half": torch.float16,
    "bfloat16": torch.bfloat16,
}
DTYPES = {**FLOATS, "int32": torch.int32, "int8": torch.int8}


def integers(*sizes: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.randint(-2, 3, sizes).to(dtype)
