"""Products whose operands are computed, against the same in PyTorch.

python benchmarks/prologues.py [PART OF A NAME ...]

Kernels are our own, without library calls. Beside them, as a variant: the product of operands that
are there already, which is what computing them costs.
"""

from __future__ import annotations

import argparse

import command
import torch
from harness import Row, Rows
from peers import torch_peers

import tensor_comprehensions as tc

OURS = tc.MappingOptions().matchLibraryCalls(False)
SIZES = ((512, 512, 512), (128, 1024, 1024), (32, 4096, 4096), (16, 512, 512))
# Operands in the text, and what PyTorch makes of them.
OPERANDS = {
    "exp(B)": ("A(m, k)", "exp(B({b}))", lambda a, b, s: (a, b.exp())),
    "exp(A)": ("exp(A(m, k))", "B({b})", lambda a, b, s: (a.exp(), b)),
    "B * s": ("A(m, k)", "(B({b}) * s(k))", lambda a, b, s: (a, b * s)),
    "relu(A)": ("max(A(m, k), 0)", "B({b})", lambda a, b, s: (a.relu(), b)),
}


def row(
    number: int, name: str, size: tuple[int, int, int], order: str, options: argparse.Namespace
) -> Row:
    m, n, k = size
    a_text, b_text, compute = OPERANDS[name]
    a, b, s = torch.randn(m, k), torch.randn(n, k) / 8, torch.rand(k)
    text = f"""
      def computed(float(M, K) A, float({order.upper()}) B, float(K) s) -> (C) {{
        C(m, n) +=! {a_text} * {b_text.format(b=order)} {"" if "s(" in b_text else "where k in 0:K"}
      }}
      def plain(float(M, K) A, float({order.upper()}) B) -> (C) {{
        C(m, n) +=! A(m, k) * B({order})
      }}"""
    t = tc.define(text, OURS, namespace=f"tc_prologues_{number}")
    across = order == "k, n"
    given = b.T.contiguous() if across else b

    def reference(a: torch.Tensor, b: torch.Tensor, s: torch.Tensor) -> torch.Tensor:
        x, y = compute(a, b.T if across else b, s)
        return x @ y.T

    x, y = compute(a, b, s)
    y = y.T.contiguous() if across else y
    return Row(
        lambda: t.computed(a, given, s),
        lambda: torch_peers({"ATen": reference}, (a, given, s), (1, 2), options.compiled),
        variants={"already computed": lambda: t.plain(x, y)},
    )


def rows(options: argparse.Namespace) -> Rows:
    number = 0
    for size in SIZES:
        for name in OPERANDS:
            for order in ("n, k", "k, n"):
                yield (
                    f"{name} of B({order}) {'x'.join(map(str, size))}",
                    lambda given=(number, name, size, order): row(*given, options),
                )
                number += 1


def arguments() -> argparse.ArgumentParser:
    return command.parser(__doc__, threads=(1, 2))


if __name__ == "__main__":
    command.main("prologues", rows, arguments())
