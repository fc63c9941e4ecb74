"""Every definition of ops/ with inputs at small odd sizes and what PyTorch says of it.

A case has one reference for all dtypes: it is computed in double, from the values that the
definition gets. The modules of this package hold the cases by family; CASES is all of them.
"""

from __future__ import annotations

from operators import (
    attention,
    elementwise,
    layers,
    losses,
    movement,
    products,
    recurrences,
    rows,
)
from operators.case import Case, Values

_MODULES = (attention, elementwise, layers, losses, movement, products, recurrences, rows)

CASES: list[Case] = [case for family in _MODULES for case in family.CASES]

#: The first case of each definition, by family.
FAMILIES: dict[str, list[Case]] = {
    family.__name__.split(".")[-1]: list({c.definition: c for c in reversed(family.CASES)}.values())
    for family in _MODULES
}

__all__ = ["CASES", "FAMILIES", "Case", "Values"]
