"""Every definition of ops/ with inputs at small odd sizes and what PyTorch says of it.

A case has one reference for all dtypes: it is computed in double, from the values that the
definition gets. The modules of this package hold the cases by family; CASES is all of them.
"""

from __future__ import annotations

from operators import attention, elementwise, layers, losses, movement, products, rows
from operators.case import Case, Values

CASES: list[Case] = [
    case
    for family in (attention, elementwise, layers, losses, movement, products, rows)
    for case in family.CASES
]

__all__ = ["CASES", "Case", "Values"]
