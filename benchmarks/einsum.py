"""Extended einsum against PyTorch's convolutions, torch.einsum, unfold with a product, opt_einsum,
and torch.mm of as many FLOPs.

Own kernels, default options, no library call; the figure with library calls allowed, which is what
tc.einsum does, stands beside it. Rows called "axes" have the same FLOPs with one to six reduction
axes, and stand beside the product alone. One thread decides.

python benchmarks/einsum.py [part of a name ...] [--threads 1 2] [--rounds 7]
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import command
import torch
import torch.nn.functional as F
from harness import Comparison, Row, Rows
from peers import compiled

import tensor_comprehensions as tc
from tensor_comprehensions._einsum import arguments as einsum_arguments


@dataclass
class Form:
    """An equation at one size; the peers compute the same."""

    name: str
    equation: str
    operands: tuple[torch.Tensor, ...]
    tables: dict[str, torch.Tensor]
    matrix: tuple[int, int, int]  #: M, N, K of the product with as many FLOPs
    peers: dict[str, Callable[[], torch.Tensor]]
    #: The least speed over the best peer's, and over torch.mm where the form is compute-bound.
    over_peer: float = 1.0
    over_mm: float | None = 0.92


def unfolded(data: torch.Tensor, weight: torch.Tensor, **window: int) -> torch.Tensor:
    """unfold, then one product; the weight is [k, c, r, s]."""
    n, k = data.shape[0], weight.shape[0]
    columns = F.unfold(data, weight.shape[2:], **window)
    size = (data.shape[2] - window.get("dilation", 1) * (weight.shape[2] - 1) - 1) // window.get(
        "stride", 1
    ) + 1
    return (weight.reshape(k, -1) @ columns).reshape(n, k, size, -1)


def convolution(
    name: str, n: int, c: int, k: int, h: int, r: int, stride: int = 1, dilation: int = 1
) -> Form:
    size = stride * (h - 1) + dilation * (r - 1) + 1
    data, weight = torch.randn(n, c, size, size), torch.randn(c, k, r, r)
    transposed = weight.transpose(0, 1).contiguous()
    window = {"stride": stride, "dilation": dilation}

    def term(factor: int, label: str) -> str:
        return label if factor == 1 else f"{factor}*{label}"

    rows, columns = (f"({term(stride, o)}+{term(dilation, i)})" for o, i in ("hr", "ws"))
    return Form(
        name,
        f"nc{rows}{columns}, ckrs -> nkhw",
        (data, weight),
        {},
        (n * h * h, k, c * r * r),
        {
            "conv2d": lambda: F.conv2d(data, transposed, **window),
            "unfold": lambda: unfolded(data, transposed, **window),
        },
    )


def depthwise(n: int, c: int, h: int, r: int) -> Form:
    data, weight = torch.randn(n, c, h + r - 1, h + r - 1), torch.randn(c, r, r)
    filters = weight[:, None].contiguous()
    return Form(
        f"depthwise {n}x{c}x{h}",
        "nc(h+r)(w+s), crs -> nchw",
        (data, weight),
        {},
        (n * h * h, 1, c * r * r),
        {"conv2d": lambda: F.conv2d(data, filters, groups=c)},
        over_mm=None,
    )


def pointwise(n: int, c: int, k: int, h: int) -> Form:
    data, weight = torch.randn(n, c, h, h), torch.randn(c, k)
    filters = weight.t().reshape(k, c, 1, 1).contiguous()
    return Form(
        f"pointwise {n}x{c}x{h}",
        "nchw, ck -> nkhw",
        (data, weight),
        {},
        (n * h * h, k, c),
        {
            "conv2d": lambda: F.conv2d(data, filters),
            "torch.einsum": lambda: torch.einsum("nchw,ck->nkhw", data, weight),
        },
    )


def shift(n: int, c: int, k: int, h: int) -> Form:
    data, weight = torch.randn(n, c, h + 2, h + 2), torch.randn(c, k)
    tables = {"sh": torch.randint(0, 3, (c,)), "sw": torch.randint(0, 3, (c,))}
    for table in tables.values():
        table[:2] = torch.tensor([0, 2])  # both ends, so that the sizes are those of the data
    channel = torch.arange(c)[:, None, None]
    rows = tables["sh"][:, None, None] + torch.arange(h)[:, None]
    columns = tables["sw"][:, None, None] + torch.arange(h)
    filters = weight.t().contiguous()

    def gathered() -> torch.Tensor:
        return (filters @ data[:, channel, rows, columns].reshape(n, c, -1)).reshape(n, k, h, h)

    one_hot = torch.zeros(c, 1, 3, 3)
    one_hot[torch.arange(c), 0, tables["sh"], tables["sw"]] = 1
    return Form(
        f"shift {n}x{c}x{h}",
        "nc(h+sh[c])(w+sw[c]), ck -> nkhw",
        (data, weight),
        tables,
        (n * h * h, k, c),
        {
            "gather, mm": gathered,
            "depthwise, conv2d": lambda: F.conv2d(
                F.conv2d(data, one_hot, groups=c), filters[:, :, None, None]
            ),
        },
        over_peer=1.4,
    )


def sparse_filter(n: int, c: int, k: int, h: int) -> Form:
    """Seven of the 25 places of a filter, others for every channel."""
    data, weight = torch.randn(n, c, h + 4, h + 4), torch.randn(c, k, 7)
    places = torch.stack([torch.randperm(25)[:7] for _ in range(c)])
    places[0, :2] = torch.tensor([0, 24])
    places[0, 2:] = torch.arange(5, 10)
    tables = {"oh": places // 5, "ow": places % 5}
    dense = torch.zeros(k, c, 25)
    dense.scatter_(2, places.expand(k, c, 7), weight.transpose(0, 1))
    dense = dense.reshape(k, c, 5, 5)
    channel = torch.arange(c)[:, None, None, None]
    rows = tables["oh"][:, :, None, None] + torch.arange(h)[:, None]
    columns = tables["ow"][:, :, None, None] + torch.arange(h)
    filters = weight.transpose(0, 1).reshape(k, -1).contiguous()

    def gathered() -> torch.Tensor:
        values = data[:, channel, rows, columns].reshape(n, c * 7, -1)
        return (filters @ values).reshape(n, k, h, h)

    return Form(
        f"sparse filter {n}x{c}x{h}",
        "nc(h+oh[c,x])(w+ow[c,x]), ckx -> nkhw",
        (data, weight),
        tables,
        (n * h * h, k, c * 7),
        {"conv2d of 5x5": lambda: F.conv2d(data, dense), "gather, mm": gathered},
        over_peer=3,
    )


def products(name: str, equation: str, shapes: list, matrix: tuple, over_peer: float = 1.0) -> Form:
    import opt_einsum

    operands = tuple(torch.randn(*shape) for shape in shapes)
    plain = equation.replace(" ", "")
    expression = opt_einsum.contract_expression(plain, *shapes)
    return Form(
        name,
        equation,
        operands,
        {},
        matrix,
        {
            "torch.einsum": lambda: torch.einsum(plain, *operands),
            "opt_einsum": lambda: expression(*operands),
        },
        over_peer=over_peer,
    )


FORMS: list[Callable[[], Form]] = [
    lambda: convolution("convolution 16x128x28", 16, 128, 128, 28, 3),
    lambda: convolution("convolution 4x64x56", 4, 64, 64, 56, 3),
    lambda: convolution("convolution 4x512x7", 4, 512, 512, 7, 3),
    lambda: convolution("strided 4x128x28", 4, 128, 128, 28, 3, stride=2),
    lambda: convolution("dilated 16x128x28", 16, 128, 128, 28, 3, dilation=2),
    lambda: depthwise(16, 128, 56, 3),
    lambda: pointwise(16, 256, 256, 28),
    lambda: shift(16, 256, 256, 28),
    lambda: sparse_filter(16, 128, 128, 28),
    lambda: products(
        *("attention nths", "nths, hes -> nhte", [(8, 512, 12, 64), (12, 512, 64)]),
        (8 * 12 * 512, 512, 64),
        over_peer=1.4,
    ),
    lambda: products(
        *("scores nthd", "nthd, nshd -> nhts", [(8, 256, 12, 64), (8, 256, 12, 64)]),
        (8 * 12 * 256, 256, 64),
    ),
    lambda: products(
        *("weighted nhts", "nhts, nshd -> nthd", [(8, 12, 256, 256), (8, 256, 12, 64)]),
        (8 * 12 * 256, 64, 256),
    ),
    lambda: products(
        "projection", "btm, mhd -> bhtd", [(8, 256, 768), (768, 12, 64)], (2048, 768, 768)
    ),
]

# The same FLOPs, M = N = 512 and K = 4096, with so many reduction axes.
AXES = {
    1: (4096,),
    2: (64, 64),
    3: (16, 16, 16),
    4: (8, 8, 8, 8),
    5: (8, 8, 4, 4, 4),
    6: (4, 4, 4, 4, 4, 4),
}
LETTERS = "abcdef"


def axes_equation(kind: str, sizes: tuple[int, ...]) -> tuple[str, tuple, dict]:
    """data[m, reduction], weight[reduction, n], with the indices of the data in other ways."""
    labels = LETTERS[: len(sizes)]
    weight = torch.randn(*sizes, 512)
    if kind == "plain":
        return f"m{labels}, {labels}n -> mn", (torch.randn(512, *sizes), weight), {}
    if kind == "reversed":
        data = torch.randn(512, *reversed(sizes))
        return f"m{labels[::-1]}, {labels}n -> mn", (data, weight), {}
    if kind == "windowed":
        # The first axis is one of a window that slides along the rows.
        data = torch.randn(511 + sizes[0], *sizes[1:])
        return f"(m+{labels[0]}){labels[1:]}, {labels}n -> mn", (data, weight), {}
    # Backwards, the data is walked through in one order whatever the number of axes; in a random
    # order, the fewer axes the further apart neighbours are.
    order = torch.randperm if kind == "random tables" else lambda size: torch.arange(size).flip(0)
    tables = {f"t{label}": order(size) for label, size in zip(labels, sizes, strict=True)}
    index = "".join(f"(t{label}[{label}])" for label in labels)
    return f"m{index}, {labels}n -> mn", (torch.randn(512, *sizes), weight), tables


def own_kernel(equation: str, operands: tuple, tables: dict, namespace: str) -> Callable:
    """The text that einsum runs, without calls of libraries."""
    found = tc.einsum_source(equation, *operands, **tables)
    options = tc.MappingOptions().matchLibraryCalls(False)
    operator = tc.define(found, options, namespace=namespace).einsum
    arguments = einsum_arguments(equation, *operands, **tables)
    return lambda: operator(*arguments)


def row(number: int, form: Form, options: argparse.Namespace) -> Row:
    m, n, k = form.matrix
    a, b = torch.randn(m, k), torch.randn(k, n)

    def peers() -> dict:
        made = dict(form.peers)
        if options.compiled:
            # The inputs are in the closures; torch.compile takes them as its arguments.
            for name, call in form.peers.items():
                try:
                    columns = compiled(call, ())
                except Exception as error:
                    line = str(error).strip().split("\n")[0]
                    print(f"{name} is not for torch.compile: {line}", flush=True)
                    continue
                made |= {f"{column}, {name}": function for column, function in columns.items()}
        return made

    return Row(
        own_kernel(form.equation, form.operands, form.tables, f"tc_einsum_{number}"),
        peers,
        variants={"tc.einsum": lambda: tc.einsum(form.equation, *form.operands, **form.tables)},
        unrelated={"torch.mm": lambda: torch.mm(a, b)},
        target=form.over_peer,
        notes={"equation": form.equation, "asked over torch.mm": form.over_mm},
    )


KINDS = ("plain", "reversed", "windowed", "tables", "random tables")


def axes_row(kind: str, count: int) -> Row:
    equation, operands, tables = axes_equation(kind, AXES[count])
    namespace = f"tc_einsum_{kind.replace(' ', '_')}_{count}"
    a, b = torch.randn(512, 4096), torch.randn(4096, 512)
    return Row(
        own_kernel(equation, operands, tables, namespace),
        unrelated={"torch.mm": lambda: torch.mm(a, b)},
        notes={"equation": equation},
    )


def rows(options: argparse.Namespace) -> Rows:
    for number, make in enumerate(FORMS):
        # Names are those of the forms, whose operands are drawn when they are made.
        form = make()
        yield form.name, partial(row, number, form, options)
    for kind in KINDS:
        for count in AXES:
            yield f"axes, {kind}, {count}", partial(axes_row, kind, count)


def summary(comparisons: list[Comparison]) -> dict[str, object]:
    """Over torch.mm, and how much the number of reduction axes changes."""
    threads = [c for c in comparisons if c.threads == 1]
    axes = {}
    for c in threads:
        if "asked over torch.mm" in c.notes:
            over = c.timings["torch.mm"].minimum / c.timings["ours"].minimum
            print(
                f"{c.workload:30s} over torch.mm of as many FLOPs {over:.2f} "
                f"(asked {c.notes['asked over torch.mm']})"
            )
    for kind in KINDS:
        found = [c.ratio for c in threads if c.workload.startswith(f"axes, {kind},")]
        if len(found) < len(AXES):
            continue
        axes[kind] = {"over torch.mm": found, "slowest over fastest": max(found) / min(found)}
        print(
            f"1 to 6 reduction axes, {kind}: {', '.join(f'{ratio:.2f}' for ratio in found)} of "
            f"torch.mm; slowest {axes[kind]['slowest over fastest']:.2f} of the fastest "
            "(asked 1.08)"
        )
    return {"axes": axes}


def arguments() -> argparse.ArgumentParser:
    return command.parser(__doc__, threads=(1, 2))


if __name__ == "__main__":
    command.main("einsum", rows, arguments(), summary)
