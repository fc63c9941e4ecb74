"""A random program with its inputs: made, run by the interpreter and the compiler, compared."""

from __future__ import annotations

import math
import os
import re
import zlib
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

import numpy as np
import torch

import tensor_comprehensions as tc
from tensor_comprehensions import reference
from tensor_comprehensions.reference._syntax import Statement, parse

DTYPES = {
    "bool": torch.bool,
    **{f"{s}int{b}": getattr(torch, f"{s}int{b}") for s in ("", "u") for b in (8, 16, 32, 64)},
    "half": torch.float16,
    "bfloat16": torch.bfloat16,
    "float": torch.float32,
    "double": torch.float64,
}
#: On which tasks, parts, copies and tables pay for small programs too; on the last one they do not,
#: and nothing stays in its cache.
MACHINES = (
    "vector_bits=512,dot_products=2,vector_registers=32,cores=2,cache_bytes=2048,last_cache_bytes=4,"
    "least_percent=1",
    "vector_bits=128,vector_registers=16,cores=4,cache_bytes=256,last_cache_bytes=4,least_percent=1",
    "vector_bits=256,dot_products=2,vector_registers=16,cores=3,cache_bytes=4096,least_percent=2",
    "vector_bits=512,dot_products=2,vector_registers=32,cores=2,cache_bytes=512",
)
FLOATS = ("half", "bfloat16", "float", "double")


@dataclass(frozen=True)
class Tensor:
    """An argument: what it holds and how it lies follow from the seed and its name."""

    name: str
    type: str
    shape: tuple[int, ...] | None  # None: a scalar
    kind: str = "small"  # or "whole", "any", "special", "index"
    bound: tuple[int, int] = (0, 0)  # of an index: the values it may have
    bad: bool = False  # one of them is another one
    plain: bool = False  # dense

    def make(self, seed: int) -> object:
        rng = np.random.default_rng([seed, zlib.crc32(self.name.encode())])
        values = torch.from_numpy(np.asarray(self.values(rng))).to(DTYPES[self.type])
        if self.shape is None:
            return values.item()
        return values if self.plain else lay_out(values, rng)

    def values(self, rng: np.random.Generator) -> np.ndarray:
        shape = self.shape or ()
        if self.kind == "index":
            values = rng.integers(self.bound[0], self.bound[1], shape)
            return self.spoil(values, rng) if self.bad and values.size else values
        if self.type == "bool":
            return rng.random(shape) < 0.5
        if self.type not in FLOATS:
            info = np.iinfo(self.type)
            if self.kind == "any":
                return rng.integers(info.min, info.max, shape, info.dtype, endpoint=True)
            return rng.integers(max(-4, info.min), 5, shape)
        if self.kind == "whole":
            return rng.integers(-4, 5, shape).astype(np.float64)
        if self.kind == "small":  # quarters: most sums and products of them are exact
            return rng.integers(-8, 9, shape) / 4.0
        values = rng.standard_normal(shape)
        if self.kind == "special":
            special = rng.choice([0.0, -0.0, np.inf, -np.inf, np.nan, 1.0], shape)
            values = np.where(rng.random(shape) < 0.3, special, values)
        return values

    def spoil(self, values: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """With one value of the type that is outside of the bound, as far as there is one."""
        info = np.iinfo(self.type)
        low, high = self.bound
        beyond = [low - 1, low - 1000, high, high + 1, high + 1000, int(info.min), int(info.max)]
        good = [v for v in beyond if info.min <= v <= info.max and not low <= v < high]
        flat = values.astype(self.type).reshape(-1)
        flat[rng.integers(flat.size)] = good[rng.integers(len(good))] if good else low
        return flat.reshape(values.shape)

    def __str__(self) -> str:
        sizes = "" if self.shape is None else str(list(self.shape))
        bound = f" in {self.bound[0]}:{self.bound[1]}" if self.kind == "index" else ""
        bound += ", but for one" if self.bad else ""
        return f"{self.name}: {self.type}{sizes} {self.kind}{bound}"


def lay_out(values: torch.Tensor, rng: np.random.Generator) -> torch.Tensor:
    """The same values in another order of dimensions, between others, or at an odd offset."""
    draw = rng.random()
    if values.dim() == 0 or draw < 0.6:
        return values
    order = rng.permutation(values.dim())
    steps = [int(rng.choice([1, 1, 2])) if draw < 0.8 else 1 for _ in order]
    ordered = values.permute(*order.tolist())
    sizes = [size * step + 1 for size, step in zip(ordered.shape, steps)]
    around = torch.ones(sizes, dtype=values.dtype)
    view = around[tuple(slice(1, None, step) for step in steps)]
    view.copy_(ordered)
    return view.permute(*np.argsort(order).tolist())


def with_temporaries_as_results(text: str, entry: str) -> str:
    """The same definition, which returns everything that it computes."""
    (definition,) = (each for each in parse(text) if each.name == entry)
    targets = {
        name
        for each in definition.body
        for name in ([each.target] if isinstance(each, Statement) else each.targets)
    }
    hidden = sorted(targets - set(definition.results))
    results = text.index("-> (", text.index(f"def {entry}(")) + len("-> (")
    return text[:results] + "".join(f"{name}, " for name in hidden) + text[results:]


@dataclass(frozen=True)
class Case:
    seed: int
    text: str
    entry: str
    inputs: tuple[Tensor, ...]
    initial: tuple[Tensor, ...] = ()  # the contents of results, where they are read first
    options: tuple[str, ...] = ("None",)  # Python that makes them, "on" a machine

    def __str__(self) -> str:
        parts = [f"seed {self.seed}, options {', '.join(self.options)}", self.text]
        parts += [str(t) for t in self.inputs]
        parts += [f"outputs: {t}" for t in self.initial]
        return "\n".join(parts)

    def make_inputs(self) -> list:
        return [t.make(self.seed) for t in self.inputs]

    def make_initial(self) -> tuple | None:
        return tuple(t.make(self.seed) for t in self.initial) or None

    def wanted(self) -> tuple[tuple[torch.Tensor, ...], tuple[np.ndarray, ...]]:
        """The interpreter's results, and how far others may lie from them."""
        inputs = [torch.as_tensor(t.make(self.seed), dtype=DTYPES[t.type]) for t in self.inputs]
        results, bounds = reference.error_bounds(
            self.text, self.entry, *inputs, outputs=self.make_initial()
        )
        results = results if isinstance(results, tuple) else (results,)
        return tuple(torch.as_tensor(r) for r in results), bounds

    def promises_everything(self) -> bool:
        """Whether there is something to expect of all that the statements compute, temporaries too,
        which is not so where one of them reads what none of them wrote."""
        whole = replace(self, text=with_temporaries_as_results(self.text, self.entry))
        return all(np.isfinite(bound).all() for bound in whole.wanted()[1])

    def actual(self, options: str) -> tuple[torch.Tensor, ...]:
        """The compiler's results."""
        options, _, machine = options.partition(" on ")
        # An operator keeps its kernels, whatever machine they were made for.
        t = tc.define(self.text, make_options(options), namespace=namespace_for(machine))
        initial = self.make_initial()
        keywords = {} if initial is None else {"outputs": initial}
        with on_machine(machine):
            results = t(self.entry, *self.make_inputs(), **keywords)
        return results if isinstance(results, tuple) else (results,)

    def reads(self, tensor: str, line: int) -> bool:
        """Whether a result of the simplified program depends on a read of a tensor that a line of
        the text has."""
        executor = tc.compile(self.text, self.entry, None, *self.make_inputs())
        program = executor.text("program")
        needed = set(re.findall(r"^ *output .* (\w+)$", program, re.M))
        # The first name of a statement is the tensor that it writes.
        statements = re.findall(r"^ *S\d+: (\w+)\b(.*)", program, re.M)
        # Where the line's own statement is left, it has what is left of its reads.
        target = re.match(r"\s*(\w+)", self.text.split("\n")[line - 1])
        own = {target[1]} if target else set()
        own = (
            own if any(written in own for written, _ in statements) else {w for w, _ in statements}
        )
        while True:
            found = {
                n for written, rest in statements if written in needed for n in NAME.findall(rest)
            }
            if found <= needed:
                return any(
                    written in needed & own and re.search(rf"\b{tensor}\(", rest)
                    for written, rest in statements
                )
            needed |= found


def namespace_for(machine: str) -> str:
    everything = f"{machine} {os.environ.get('TC_MACHINE')}"
    return f"tc_fuzz_{zlib.crc32(everything.encode()):x}"


@contextmanager
def on_machine(machine: str) -> Iterator[None]:
    """What is compiled inside is for this machine; empty: for the one that is."""
    before = os.environ.get("TC_MACHINE")
    if machine:
        os.environ["TC_MACHINE"] = f"{machine},{before}" if before else machine
    try:
        yield
    finally:
        if before is None:
            os.environ.pop("TC_MACHINE", None)
        else:
            os.environ["TC_MACHINE"] = before


def make_options(text: str) -> object:
    if text.startswith("MappingOptions"):
        return eval(f"tc.{text}", {"tc": tc})
    return None if text == "None" else text


NAME = re.compile(r"\w+")


class Disagreement(AssertionError):
    """The compiler's results, or its refusal, are not what the interpreter says."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind


def check(case: Case) -> Counter[str]:
    """Raises Disagreement where the compiler and the interpreter differ.

    Counts what was compared, so that a test can see that it tests something: "programs" or
    "refused", of these "bad indices" (an index is data and bad), "elements", of these "compared"
    (something is promised) and "exact" (they had to be equal).
    """
    try:
        wanted, bounds = case.wanted()
    except tc.TCError as refusal:
        for options in case.options:
            try:
                case.actual(options)
            except (tc.LanguageError, tc.ShapeError):
                continue
            read = re.match(r"reads (\w+) outside \(line (\d+)\)", str(refusal))
            if read and not case.reads(read[1], int(read[2])):
                return Counter()  # no result depends on what it says
            raise Disagreement("accepted", f"the interpreter refuses: {refusal}") from refusal
        return Counter({"refused": 1, "bad indices": int(any(t.bad for t in case.inputs))})
    for options in case.options:
        try:
            actual = case.actual(options)
        except tc.LanguageError as error:
            if "with its lets and calls replaced" not in str(error):
                raise Disagreement("refused", f"options {options}: {error}") from error
            return Counter()  # a limit of the language that the interpreter does not have
        except Exception as error:
            message = str(error).split("\n")[0]
            outside = isinstance(error, tc.ShapeError) and " outside: at " in message
            if outside and not case.promises_everything():
                # A condition on what no statement wrote may let a read happen, and may not.
                return Counter()
            kind = type(error).__name__ + "".join(c for c in message if c.isalpha())[-40:]
            raise Disagreement(
                kind, f"options {options}: {type(error).__name__}: {error}"
            ) from error
        for k, (a, w, bound) in enumerate(zip(actual, wanted, bounds, strict=True)):
            compare(a, w, bound, f"options {options}, result {k}")
    return Counter(
        programs=1,
        elements=sum(bound.size for bound in bounds),
        compared=sum(int(np.isfinite(bound).sum()) for bound in bounds),
        exact=sum(int((bound == 0).sum()) for bound in bounds),
    )


def compare(a: torch.Tensor, w: torch.Tensor, bound: np.ndarray, where: str) -> None:
    if a.dtype != w.dtype:
        raise Disagreement("dtype", f"{where} is {a.dtype}, expected {w.dtype}")
    if a.shape != w.shape:
        raise Disagreement("shape", f"{where} is {list(a.shape)}, expected {list(w.shape)}")
    if a.dtype.is_floating_point:
        x, y = a.double().numpy(), w.double().numpy()
        with np.errstate(all="ignore"):
            # Both results are rounded; the bound is of one of them.
            near = np.abs(x - y) <= 2 * bound
        same = near | (x == y) | (np.isnan(x) & np.isnan(y)) | np.isinf(bound)
    else:
        x, y = a.numpy(), w.numpy()
        same = (x == y) | np.isinf(bound)
    if not np.all(same):
        places = np.argwhere(~np.asarray(same))
        at = tuple(places[0].tolist())
        raise Disagreement(
            "values",
            f"{where} at {at} is {x[at]}, expected {y[at]} within {2 * bound[at]}; "
            f"{len(places)} of {math.prod(a.shape)} elements differ",
        )
