"""Products whose operands are computed, against the same in PyTorch.

python benchmarks/prologues.py [PART OF A NAME ...]

Kernels are our own, without library calls. Beside them, as a variant: the product of operands that
are there already, which is what computing them costs.
"""

from __future__ import annotations

import argparse

import torch
from harness import compare, print_comparison, save, use_same_memory

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


def case(name: str, size: tuple[int, int, int], order: str) -> tuple:
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
    t = tc.define(text, OURS, namespace=f"tc_prologues_{abs(hash((name, size, order)))}")
    across = order == "k, n"
    given = b.T.contiguous() if across else b

    def operands() -> tuple[torch.Tensor, torch.Tensor]:
        return compute(a, given.T if across else given, s)

    def reference() -> torch.Tensor:
        x, y = operands()
        return x @ y.T

    x, y = operands()
    y = y.T.contiguous() if across else y
    return (
        f"{name} of B({order}) {m}x{n}x{k}",
        lambda: t.computed(a, given, s),
        reference,
        {"already computed": lambda: t.plain(x, y)},
    )


def main() -> None:
    use_same_memory()
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help="parts of the names of what to run")
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    arguments = parser.parse_args()
    comparisons = []
    for size in SIZES:
        for name in OPERANDS:
            for order in ("n, k", "k, n"):
                title, ours, reference, variants = case(name, size, order)
                if arguments.names and not any(part in title for part in arguments.names):
                    continue
                found = compare(
                    title, ours, {"ATen": reference}, variants=variants, threads=arguments.threads
                )
                comparisons += found
                for comparison in found:
                    print_comparison(comparison)
    print("saved", save("prologues", comparisons))


if __name__ == "__main__":
    main()
