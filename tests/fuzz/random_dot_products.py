"""Random sums of products of narrow integers: what instructions that add up several terms are for.

Any number of indices of the result and of the reduction, in any order in either operand, some of
them as a window; all types of 8 and 16 bits; the ends of these are drawn as well. Mostly of types
that an instruction has, and with a bias, a scale or a condition behind it now and then.
"""

from __future__ import annotations

import random

from cases import MACHINES, Case, Tensor

SIZES = (1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 20, 33, 40)
#: Points that a program may have.
MOST = 60_000
TYPES = (
    ("uint8", "int8"),
    ("int8", "uint8"),
    ("int8", "int8"),
    ("uint8", "uint8"),
    ("int16", "int16"),
)
OTHERS = (("uint8", "int16"), ("int16", "int8"), ("uint16", "uint16"))


def make_dot_products(seed: int) -> Case:
    r = random.Random(f"dot products {seed}")
    results = list("mnb")[: r.choice([1, 2, 2, 2, 3])]
    terms = list("kpq")[: r.choice([1, 1, 2, 3])]
    sizes = {index: r.choice(SIZES) for index in results + terms}
    while points(sizes) > MOST:
        sizes[max(sizes, key=sizes.get)] //= 2
    types = r.choice(TYPES if r.random() < 0.8 else OTHERS)
    # An index of the result is in one operand, or in both, as that of a batch.
    owners = {index: r.choice([(0,), (0,), (1,), (1,), (0, 1)]) for index in results}
    inputs, reads = [], []
    for operand in (0, 1):
        own = [index for index in results if operand in owners[index]]
        own += [index for index in terms if r.random() < 0.95] or terms[:1]
        r.shuffle(own)
        subscripts, shape = subscripts_of(own, sizes, r)
        name = "AB"[operand]
        inputs.append(Tensor(name, types[operand], shape, "any", plain=r.random() < 0.6))
        reads.append(f"int32({name}({', '.join(subscripts)}))")
    if r.random() < 0.5:
        reads.reverse()
    r.shuffle(results)
    ranges = ", ".join(f"{index} in 0:{size}" for index, size in sizes.items())
    lines = [f"C({','.join(results)}) +=! {' * '.join(reads)} where {ranges}"]
    outputs = ["C"]
    if r.random() < 0.3:
        inputs.append(Tensor("bias", "int32", (sizes[results[-1]],), "any"))
        all_results = ",".join(results)
        sides = {index: f"{index} in 0:{sizes[index]}" for index in results}
        lines.append(
            f"D({all_results}) = max(C({all_results}) + bias({results[-1]}), 0)"
            f" where {', '.join(sides.values())}"
        )
        outputs = ["D"] if r.random() < 0.5 else ["C", "D"]
    signature = ", ".join(
        f"{each.type}({', '.join(str(size) for size in each.shape)}) {each.name}" for each in inputs
    )
    body = "\n    ".join(lines)
    text = f"def f({signature}) -> ({', '.join(outputs)}) {{\n    {body}\n}}\n"
    machine = r.choice(MACHINES)
    options = r.choice(["None", "None", "identity"])
    return Case(seed, text, "f", tuple(inputs), options=(f"{options} on {machine}",))


def points(sizes: dict[str, int]) -> int:
    count = 1
    for size in sizes.values():
        count *= size
    return count


def subscripts_of(
    own: list[str], sizes: dict[str, int], r: random.Random
) -> tuple[list[str], tuple[int, ...]]:
    """Subscripts of these indices and the sizes of their dimensions: two may share one, as a window
    and its place do."""
    subscripts, shape = [], []
    rest = list(own)
    while rest:
        index = rest.pop()
        if rest and r.random() < 0.1:
            other, step = rest.pop(), r.choice([1, 1, 2])
            subscripts.append(f"{step}*{other}+{index}" if step > 1 else f"{other}+{index}")
            shape.append(step * (sizes[other] - 1) + sizes[index])
        else:
            subscripts.append(index)
            shape.append(sizes[index])
    return subscripts, tuple(shape)
