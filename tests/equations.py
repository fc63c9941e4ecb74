"""A gather-based reference for extended einsum, and random equations."""

from __future__ import annotations

import random
import re
from dataclasses import dataclass, field

import torch

_TERM = re.compile(r"(?:(\d+)\*)?(\w+)(?:\[([\w,]+)\])?")


def _indices(operand: str) -> list[str]:
    """The index of each dimension, without parentheses."""
    return [a or b for a, b in re.findall(r"\(([^)]*)\)|([A-Za-z])", operand.replace(" ", ""))]


def _terms(index: str) -> list[tuple[int, str, str | None]]:
    """Factor, name or integer, and the labels of a lookup."""
    result = []
    for part in re.findall(r"[+-]?[^+-]+", index):
        sign = -1 if part[0] == "-" else 1
        factor, name, labels = _TERM.fullmatch(part.lstrip("+-")).groups()
        result.append((sign * int(factor or 1), name, labels))
    return result


def _labels(index: str) -> set[str]:
    found = set()
    for _, name, labels in _terms(index):
        found |= set(labels.split(",")) if labels else {name} if name.isalpha() else set()
    return found


def _values(index: str, at: dict[str, torch.Tensor], tables: dict) -> torch.Tensor:
    """What an index is at points that broadcast against each other."""
    total = torch.zeros((), dtype=torch.long)
    for factor, name, labels in _terms(index):
        if labels:
            value = tables[name].long()[tuple(at[label] for label in labels.split(","))]
        else:
            value = at[name] if name in at else torch.tensor(int(name))
        total = total + factor * value
    return total


def find_ranges(operands: list[list[str]], shapes: list, tables: dict) -> dict[str, range]:
    """Rounds as docs/language.md has them, by trying values one after the other."""
    ranges: dict[str, range] = {}
    for indices, shape in zip(operands, shapes, strict=True):
        for index, size in zip(indices, shape, strict=True):
            if index.isalpha():
                ranges[index] = range(size)
            for _, name, labels in _terms(index):
                for label, length in zip(
                    (labels or "").split(","), tables[name].shape if labels else ()
                ):
                    ranges[label] = range(length)
    while True:
        found: dict[str, set[int]] = {}
        for indices, shape in zip(operands, shapes, strict=True):
            for index, size in zip(indices, shape, strict=True):
                (*unknown,) = _labels(index) - set(ranges)
                if len(unknown) != 1:
                    continue
                at = {
                    label: torch.tensor(list(ranges[label])).reshape(
                        [-1 if k == d else 1 for k in range(len(ranges))]
                    )
                    for d, label in enumerate(ranges)
                    if label in _labels(index)
                }
                good = set()
                for value in range(-4 * size - 8, 4 * size + 8):
                    values = _values(index, {**at, unknown[0]: torch.tensor(value)}, tables)
                    if int(values.min()) >= 0 and int(values.max()) < size:
                        good.add(value)
                found[unknown[0]] = found.get(unknown[0], good) & good
        if not found:
            return ranges
        for label, values in found.items():
            ranges[label] = range(min(values), max(values) + 1) if values else range(0)


def reference(equation: str, *operands: torch.Tensor, **tables: torch.Tensor) -> torch.Tensor:
    """Every operand at every point of all labels, multiplied and summed, in double or int64."""
    inputs, output = equation.replace(" ", "").split("->")
    indices = [_indices(part) for part in re.split(r",(?![^\[]*\])", inputs)]
    ranges = find_ranges(indices, [x.shape for x in operands], tables)
    order = [*output, *(label for label in ranges if label not in output)]
    at = {
        label: torch.tensor(list(ranges[label]), dtype=torch.long).reshape(
            [-1 if k == d else 1 for k in range(len(order))]
        )
        for d, label in enumerate(order)
    }
    wide = torch.float64 if operands[0].is_floating_point() else torch.int64
    product = torch.ones((), dtype=wide)
    for part, x in zip(indices, operands, strict=True):
        places = tuple(_values(index, at, tables) for index in part)
        product = product * x.to(wide)[places]
    product = product.expand([len(ranges[label]) for label in order])
    return (
        product.sum(tuple(range(len(output), len(order))))
        if len(order) > len(output)
        else (product)
    )


@dataclass
class Equation:
    """An equation with sizes that fit it."""

    text: str
    shapes: list[tuple[int, ...]]
    tables: dict[str, torch.Tensor] = field(default_factory=dict)


def random_equation(seed: int) -> Equation:
    """Two or three operands of labels, sums and lookups; each label stands alone somewhere, but
    for the outer ones that sums leave open."""
    r = random.Random(seed)
    letters = iter(r.sample("abcdefghijklmnopqrstuvwxyzABCD", 20))
    size = {next(letters): r.choice([1, 2, 3, 5]) for _ in range(r.randint(2, 4))}
    known = list(size)
    opened: list[str] = []
    tables: dict[str, torch.Tensor] = {}
    first, first_shape = [], []
    for _ in range(r.randint(1, 3)):
        kind = r.choice(["plain", "window", "window", "lookup", "integer", "only"])
        if kind == "plain":
            label = r.choice(known)
            if label in "".join(first):
                continue
            first.append(label)
            first_shape.append(size[label])
            continue
        label, reach, low = r.choice(known), 0, 0
        terms = []
        for _ in range(r.randint(1, 2)):
            factor, sign = r.choice([1, 1, 2, 3]), r.choice([1, 1, -1])
            spelled = f"{factor}*" if factor > 1 else ""
            if kind == "lookup" or (kind == "only" and not terms):
                labels = r.sample(known, min(len(known), r.randint(1, 2)))
                name = f"tab{len(tables)}"
                generator = torch.Generator().manual_seed(seed + len(tables))
                sizes = [size[k] for k in labels]
                tables[name] = torch.randint(-2, 4, sizes, generator=generator)
                if r.random() < 0.5:
                    tables[name] = tables[name].to(r.choice([torch.int32, torch.int8, torch.int16]))
                term, ends = f"{name}[{','.join(labels)}]", (-2, 3)
            else:
                label = r.choice(known)
                term, ends = label, (0, size[label] - 1)
            ends = sorted(sign * factor * e for e in ends)
            low, reach = low + ends[0], reach + ends[1]
            terms.append(("-" if sign < 0 else "+") + spelled + term)
        if kind == "integer" or kind == "only":
            shift = -low if kind == "only" else r.randint(0, 3)
            low, reach = low + shift, reach + shift
            terms.append(f"{'-' if shift < 0 else '+'}{abs(shift)}")
        if kind == "only":
            index, extent = "".join(terms), reach + 1 + r.randint(0, 2)
        else:
            outer = next(letters)
            stride = r.choice([1, 1, 2])
            opened.append(outer)
            index = (f"{stride}*" if stride > 1 else "") + outer + "".join(terms)
            extent = reach - low + 1 + stride * r.randint(1, 4)
        first.append(f"({index.removeprefix('+')})")
        first_shape.append(extent)
    operands, shapes = ["".join(first)], [tuple(first_shape)]
    for _ in range(r.randint(1, 2)):
        labels = r.sample(known, r.randint(1, len(known)))
        operands.append("".join(labels))
        shapes.append(tuple(size[k] for k in labels))
    missing = [k for k in known if k not in "".join(operands[1:])]
    if missing:
        operands[-1] += "".join(missing)
        shapes[-1] += tuple(size[k] for k in missing)
    order = r.sample(range(len(operands)), len(operands))
    outer = opened + r.sample(known, r.randint(0, len(known)))
    r.shuffle(outer)
    if r.random() < 0.2 and opened:
        outer.remove(opened[0])
    text = ",".join(operands[k] for k in order) + "->" + "".join(outer)
    return Equation(text, [shapes[k] for k in order], tables)


def ordinary_equation(seed: int) -> Equation:
    """What torch.einsum takes: diagonals, ellipses, sizes of 1, outputs left out."""
    r = random.Random(seed)
    labels = r.sample("abcdefgABC", r.randint(1, 6))
    size = {label: r.choice([1, 2, 3, 5]) for label in labels}
    operands, shapes = [], []
    batch = [r.choice([1, 2, 3]) for _ in range(2)]
    for _ in range(r.choice([1, 1, 2, 2, 2, 3, 4])):
        names = [r.choice(labels) for _ in range(r.randint(0, 4))]
        shape = [1 if r.random() < 0.1 and names.count(n) == 1 else size[n] for n in names]
        if r.random() < 0.2:
            at, count = r.randint(0, len(names)), r.randint(0, 2)
            names.insert(at, "...")
            shape[at:at] = [r.choice([1, b]) for b in batch[len(batch) - count :]]
        operands.append("".join(names))
        shapes.append(tuple(shape))
    text = ",".join(operands)
    used = sorted(set(text) - set(".,"))
    if r.random() < 0.8:
        out = r.sample(used, r.randint(0, len(used)))
        if "..." in text and r.random() < 0.8:
            out.insert(r.randint(0, len(out)), "...")
        text += "->" + "".join(out)
    return Equation(text, shapes)
