"""Functions of single elements."""

from __future__ import annotations

import torch
import torch.nn.functional as F

from operators.case import MATRIX, Case, matrices, matrix


def with_scalars(*scalars: float):
    return lambda v, n, d: (v(n, d), *scalars)


# Without parameters.
PLAIN = {
    "relu": F.relu,
    "relu6": F.relu6,
    "selu": F.selu,
    "gelu": F.gelu,
    "gelu_tanh": lambda x: F.gelu(x, approximate="tanh"),
    "sigmoid": torch.sigmoid,
    "log_sigmoid": F.logsigmoid,
    "tanh_activation": torch.tanh,
    "silu": F.silu,
    "mish": F.mish,
    "softsign": F.softsign,
    "tanhshrink": F.tanhshrink,
    "hardsigmoid": F.hardsigmoid,
    "hardswish": F.hardswish,
}

# With numbers, and those.
PARAMETRIC = {
    "leaky_relu": (F.leaky_relu, (0.125,)),
    "elu": (F.elu, (1.5,)),
    "celu": (F.celu, (1.5,)),
    # Its threshold leaves a function as it is where both agree to double's last digits.
    "softplus": (lambda x, beta: F.softplus(x, beta, threshold=40), (1.5,)),
    "hardtanh": (F.hardtanh, (-0.75, 0.5)),
    "hardshrink": (F.hardshrink, (0.5,)),
    "softshrink": (F.softshrink, (0.5,)),
    "threshold": (F.threshold, (0.25, -7.0)),
}


def far(v, n, d):
    """Values at which exponentials overflow and vanish."""
    return (v.between(-200, 200, n, d),)


STABLE = {"sigmoid", "log_sigmoid", "silu", "mish", "gelu", "gelu_tanh"}

# Whose values beside 0 have all digits: 1 + erf(x) and x - tanh(x) have not.
DIGITS = {"sigmoid", "log_sigmoid", "silu", "mish", "tanh_activation", "softsign"}

CASES = [
    *(
        Case(name, function, matrix, MATRIX, digits=name in DIGITS)
        for name, function in PLAIN.items()
    ),
    *(Case(name, PLAIN[name], far, [(9, 21)], digits=name in DIGITS) for name in sorted(STABLE)),
    *(
        Case(name, function, with_scalars(*scalars), MATRIX)
        for name, (function, scalars) in PARAMETRIC.items()
    ),
    Case("prelu", F.prelu, lambda v, n, d: (v(n, d), v(d)), MATRIX),
    Case("glu", lambda x: F.glu(x, 1), matrix, [(7, 38), (19, 6), (1, 2)]),
    Case("swiglu", lambda gate, up: F.silu(gate) * up, matrices, MATRIX, digits=True),
    Case("geglu", lambda gate, up: F.gelu(gate) * up, matrices, MATRIX),
    Case(
        "dropout",
        lambda x, mask, p: x * mask / (1 - p),
        lambda v, n, d: (v(n, d), v.mask(n, d), 0.25),
        MATRIX,
    ),
    Case(
        "select",
        torch.where,
        lambda v, n, d: (v.mask(n, d), v(n, d), v(n, d)),
        MATRIX,
    ),
    Case(
        "masked_fill",
        lambda x, mask, value: x.masked_fill(mask, value),
        lambda v, n, d: (v(n, d), v.mask(n, d), -2.5),
        MATRIX,
    ),
    Case("lerp", torch.lerp, lambda v, n, d: (v(n, d), v(n, d), 0.375), MATRIX),
]
