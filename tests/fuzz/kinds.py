"""The kinds of random programs: how one is made from a seed, what is tried, what is counted.

`block.py` runs them, a block of seeds in a process; `run.py` draws seeds, and the tests have theirs
from `seeds.py`.
"""

from __future__ import annotations

import os
import random
import re
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial

import emulated
import equations
import numpy as np
import random_batches
import random_calls
import random_cuda
import random_derivatives
import random_integers
import random_plans
import shardings
import torch
from cases import (
    DTYPES,
    MACHINES,
    Case,
    Disagreement,
    check,
    make_options,
    namespace_for,
    with_temporaries_as_results,
)
from features import features
from random_dot_products import make_dot_products
from random_layers import make_derivable, make_layers, make_products
from random_programs import make_case
from random_scatters import RandomScatter, make_scatter
from seeds import count, first_seed

import tensor_comprehensions as tc

NARROW = ("half", "bfloat16")
#: The library is so fast that every call of it is worth making.
LIBRARY = "library_rate=1000000000,library_call_cycles=1"


@dataclass(frozen=True)
class Kind:
    """`check` looks at one program and counts; `enough` asserts that a block's counts, of so many
    programs, show that something was tested."""

    make: Callable[[int], object]
    check: Callable[[object], Counter[str]]
    count: int  # programs in CI
    block: int
    enough: Callable[[Counter[str], int], None]


def share(name: str, least: float) -> Callable[[Counter[str], int], None]:
    def enough(counts: Counter[str], programs: int) -> None:
        assert counts[name] >= least * programs, counts

    return enough


# ---- programs and layers


def check_program(case: Case) -> Counter[str]:
    counts = check(case)
    if counts["programs"]:
        counts.update(f"has {feature}" for feature in features(case.text))
    return counts


def compared(counts: Counter[str], programs: int) -> None:
    """Programs that are refused, and elements of which nothing is promised, test little."""
    assert counts["programs"] >= 0.8 * programs, counts
    assert counts["compared"] >= 0.7 * counts["elements"], counts
    assert counts["exact"] >= 0.2 * counts["elements"], counts


def layers_compared(counts: Counter[str], programs: int) -> None:
    assert counts["programs"] >= 0.95 * programs, counts
    assert counts["compared"] >= 0.5 * counts["elements"], counts


def check_with_library(case: Case) -> Counter[str]:
    """As if the library were so fast that every call is worth making; counts those made."""
    with environment(TC_MACHINE=LIBRARY):
        try:
            counts = check(case)
        except Disagreement:
            if not may_spread(case):
                raise
            with environment(TC_MACHINE="library_rate=1"):
                check(case)
            return Counter(spread=1)
        if counts["programs"]:
            operator = tc.define(case.text, namespace=namespace_for(""))
            executor = getattr(operator, case.entry).compile(*case.make_inputs())
            counts["calls"] += executor.explain().count("call: ATen")
    return counts


def may_spread(case: Case) -> bool:
    """Whether infinities or NaN meet ATen's products of 16-bit floats, which let a NaN appear in a
    neighbouring row of the result where the processor has instructions for tiles."""
    narrow = any(each.type in ("half", "bfloat16") for each in case.inputs)
    everything = replace(case, text=with_temporaries_as_results(case.text, case.entry))
    results = [w for w in everything.wanted()[0] if w.is_floating_point()]
    return narrow and not all(bool(w.isfinite().all()) for w in results)


@contextmanager
def environment(**variables: str) -> Iterator[None]:
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


# ---- integers: values wrap around, subscripts and ranges are right, or refused for their bits


def check_integers(case: Case) -> Counter[str]:
    return Counter([random_integers.check(case)])


def check_integer_derivative(text: str) -> Counter[str]:
    return Counter([random_integers.check_derivative(text)])


def integers_ran(counts: Counter[str], programs: int) -> None:
    assert counts["ran"] >= 0.6 * programs, counts
    assert counts["too wide"] <= 0.2 * programs, counts


def plans_ran(counts: Counter[str], programs: int) -> None:
    assert counts["plans"] >= 0.8 * programs, counts
    assert counts["internal errors"] <= max(1, 0.03 * programs), counts
    assert counts["reasons"] >= 0.1 * programs, counts


# ---- scatters, beside NumPy: every schedule, any number of threads, CUDA's text under the emulator

SCATTER_OPTIONS = (
    None,
    "identity",
    "MappingOptions('naive').tile(3, 4, 5)",
    "MappingOptions('naive').tile(2, 16).outerScheduleFusionStrategy('Max')",
)


@dataclass(frozen=True)
class ScatterCase:
    seed: int
    scatter: RandomScatter

    def __str__(self) -> str:
        return f"seed {self.seed}\n{self.scatter.text}"


def make_scatter_case(seed: int) -> ScatterCase:
    return ScatterCase(seed, make_scatter(seed))


def check_scatter(case: ScatterCase) -> Counter[str]:
    seed = case.seed
    ways = [(options, "cpu") for options in SCATTER_OPTIONS[: 4 if seed % 5 == 0 else 1]]
    if seed % 10 == 0:
        ways.append((None, "cuda:sm_90"))
    with environment(TC_MACHINE=f"cores={1 + seed % 4},library_rate=1"):
        for options, target in ways:
            try:
                run_scatter(case.scatter, options, target)
            except Exception as error:
                error.add_note(f"options {options}, {target}")
                raise
    return Counter(ran=len(ways))


def run_scatter(scatter: RandomScatter, options: str | None, target: str) -> None:
    inputs, chosen = scatter_inputs(scatter), make_options(options or "None")
    kernel = tc.compile(scatter.text, "scatter", chosen, *inputs, target=target)
    compare_scatter(scatter, kernel.run if target == "cpu" else partial(emulated.run, kernel))


def check_gpu_scatter(case: ScatterCase) -> Counter[str]:
    inputs = tuple(map(random_cuda.on_gpu, scatter_inputs(case.scatter)))

    def run(_: tuple, outputs: tuple) -> None:
        on_gpu = tuple(output.cuda() for output in outputs)
        tc.compile(case.scatter.text, "scatter", None, *inputs).run(inputs, on_gpu)
        for output, result in zip(outputs, on_gpu, strict=True):
            output.copy_(result)

    # Atomic updates, and owners, whose order is always the same.
    for deterministic in (False, True):
        torch.use_deterministic_algorithms(deterministic)
        try:
            compare_scatter(case.scatter, run)
        finally:
            torch.use_deterministic_algorithms(False)
    return Counter(ran=1)


def scatter_inputs(scatter: RandomScatter) -> tuple[torch.Tensor, ...]:
    return tuple(torch.from_numpy(np.ascontiguousarray(value)) for value in scatter.inputs)


def compare_scatter(scatter: RandomScatter, run: Callable[[tuple, tuple], object]) -> None:
    """That `run`, of inputs and outputs, writes what NumPy computes."""
    outputs = (torch.from_numpy(scatter.start.copy()), torch.zeros(scatter.start.shape))
    outputs = (outputs[0], outputs[1].to(outputs[0].dtype))
    run(scatter_inputs(scatter), outputs)
    for output, wanted in zip(outputs, scatter.wanted, strict=True):
        np.testing.assert_array_equal(output.numpy(), wanted)


# ---- equations


@dataclass(frozen=True)
class EquationCase:
    seed: int
    equation: equations.Equation

    def __str__(self) -> str:
        e = self.equation
        tables = {name: table.tolist() for name, table in e.tables.items()}
        return f"seed {self.seed}\n{e.text}\n{e.shapes}\n{tables}"


def make_equation_case(seed: int) -> EquationCase:
    ordinary = seed % 4 == 0
    make = equations.ordinary_equation if ordinary else equations.random_equation
    return EquationCase(seed, make(seed))


def check_equation(case: EquationCase) -> Counter[str]:
    e = case.equation
    generator = torch.Generator().manual_seed(case.seed)
    r = random.Random(case.seed)
    type_ = r.choice([torch.float32, torch.float32, torch.float64, torch.int32])
    values = [torch.randint(-2, 3, shape, generator=generator).to(type_) for shape in e.shapes]
    turned = [x.transpose(0, -1).contiguous().transpose(0, -1) if x.dim() else x for x in values]
    if case.seed % 4 == 0:
        # Of integers PyTorch multiplies sums in 64 bits with others in 32, and says so.
        wanted = torch.einsum(e.text, *(x.double() for x in values))
    else:
        wanted = equations.reference(e.text, *values, **e.tables).double()
    machine = r.choice(["", *MACHINES])
    with environment(TC_MACHINE=",".join([machine, "library_rate=1"]).lstrip(",")):
        actual = tc.einsum(e.text, *(r.choice(pair) for pair in zip(values, turned)), **e.tables)
    if actual.shape != wanted.shape:
        raise Disagreement("shape", f"{list(actual.shape)}, expected {list(wanted.shape)}")
    if not torch.equal(actual.double(), wanted):
        raise Disagreement("values", f"{actual}\nexpected {wanted}")
    return Counter(ran=1)


# ---- derivatives, batches, shardings


def check_derivative(case: Case) -> Counter[str]:
    return Counter([random_derivatives.check(case)])


def check_batch(case: Case) -> Counter[str]:
    return Counter(ran=int(random_batches.check_batch(case)))


def check_shardings(case: Case) -> Counter[str]:
    if case.initial:
        return Counter()
    # Parts of what is stored in between are rounded apart: in narrow types that hides much.
    text = re.sub(rf"\b({'|'.join(NARROW)})\b", "float", case.text)
    inputs = tuple(
        torch.as_tensor(
            t.make(case.seed), dtype=torch.float if t.type in NARROW else DTYPES[t.type]
        )
        for t in case.inputs
    )
    try:
        operator = getattr(tc.define(text, namespace="tc_fuzz_sharding"), case.entry)
        shardings.evaluate(text, case.entry, inputs)
    except tc.TCError:
        return Counter()  # the programs themselves are looked at elsewhere
    # A part that is refused where the whole is not is a way that is wrong.
    return Counter(
        ways=sum(shardings.check_ways(operator, text, inputs, count) for count in (2, 3))
    )


# ---- calls


def calls_made(counts: Counter[str], programs: int) -> None:
    assert counts["calls"] >= 2 * programs, counts
    assert counts["other sizes"] >= 0.7 * programs, counts
    assert counts["empty"] >= 0.05 * programs, counts
    assert counts["views"] >= 0.5 * programs, counts
    assert counts["overlaps"] >= 0.05 * programs, counts


# ---- CUDA: compiled for a GPU that need not be here, and run by the emulator


def emulated_right(counts: Counter[str], programs: int) -> None:
    assert counts["programs"] >= 0.7 * programs, counts
    assert counts["compared"] >= 0.6 * counts["elements"], counts
    assert counts["launches"] >= counts["programs"], counts


def check_launches(case: Case) -> Counter[str]:
    """That NVRTC takes the text; scatters also run. What others compute, "emulated" looks at."""
    options = None if case.seed % 5 else make_options("MappingOptions('naive').tile(4, 16)")
    deterministic = case.seed % 3 != 0
    torch.use_deterministic_algorithms(deterministic)
    try:
        compiled = tc.compile(
            case.text, case.entry, options, *case.make_inputs(), target="cuda:sm_90"
        )
    except (tc.LanguageError, tc.ShapeError):
        return Counter(refused=1)
    finally:
        torch.use_deterministic_algorithms(False)
    if isinstance(case, ScatterLaunches):
        compare_scatter(case.scatter, partial(emulated.run, compiled))
    return Counter(ran=1, launches=compiled.text("launches").count('"symbol"'))


def make_either(seed: int) -> Case:
    return make_layers(seed) if seed % 2 else make_case(seed)


def make_launches(seed: int) -> Case:
    if seed % 8 != 1:
        return make_either(seed)
    scatter = make_scatter(seed)
    names = [f"A{k}" for k in range(len(scatter.inputs))]
    return ScatterLaunches(seed, scatter.text, "scatter", tuple(names), (), ("None",), scatter)


@dataclass(frozen=True)
class ScatterLaunches(Case):
    """A scatter's text, which the interpreter does not read, as a case."""

    scatter: RandomScatter | None = None

    def make_inputs(self) -> list:
        return list(scatter_inputs(self.scatter))


def without_options(case: Case) -> Case:
    return replace(case, options=("None",))


KINDS: dict[str, Kind] = {
    "programs": Kind(make_case, check_program, 400, 100, compared),
    "layers": Kind(make_layers, check_program, 120, 40, layers_compared),
    "dot products": Kind(make_dot_products, check_program, 60, 60, share("exact", 1)),
    "library": Kind(make_products, check_with_library, 40, 40, share("calls", 0.15)),
    "integers": Kind(random_integers.make_integer_case, check_integers, 100, 100, integers_ran),
    "integer derivatives": Kind(
        random_integers.make_differentiable_text, check_integer_derivative, 50, 50, integers_ran
    ),
    "plans": Kind(random_plans.make_planned, random_plans.check_plans, 60, 30, plans_ran),
    "scatters": Kind(make_scatter_case, check_scatter, 75, 75, share("ran", 1)),
    "equations": Kind(make_equation_case, check_equation, 60, 60, share("ran", 1)),
    "derivatives": Kind(make_case, check_derivative, 40, 40, share("same", 0.25)),
    "layer derivatives": Kind(make_derivable, check_derivative, 60, 30, share("same", 0.7)),
    "batches": Kind(make_either, check_batch, 40, 40, share("ran", 0.5)),
    "shardings": Kind(make_either, check_shardings, 40, 40, share("ways", 1)),
    "calls": Kind(make_either, random_calls.check, 40, 40, calls_made),
    "emulated": Kind(random_cuda.make_cuda_case, random_cuda.check, 100, 50, emulated_right),
    "launches": Kind(make_launches, check_launches, 40, 40, share("ran", 0.8)),
}

#: Those that need a GPU, which CI has none of.
GPU_KINDS: dict[str, Kind] = {
    "gpu programs": Kind(random_cuda.make_gpu_program, check_program, 400, 100, compared),
    "gpu layers": Kind(random_cuda.make_gpu_layer, check_program, 200, 50, layers_compared),
    "gpu scatters": Kind(make_scatter_case, check_gpu_scatter, 150, 50, share("ran", 1)),
}
ALL_KINDS = KINDS | GPU_KINDS


def list_blocks(kinds: dict[str, Kind] = KINDS) -> list[tuple[str, int, int]]:
    """Kind, first seed and number of programs of all blocks; by default of CI's."""
    blocks = []
    for name, kind in kinds.items():
        programs = count(kind.count)
        for start in range(0, programs, kind.block):
            blocks.append((name, first_seed() + start, min(kind.block, programs - start)))
    return blocks
