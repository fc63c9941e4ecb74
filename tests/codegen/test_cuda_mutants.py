"""Right kernels made wrong: the emulator must find each.

A mutant lacks a barrier, a guard, a step of a tree of additions, or the atomicity of an update. The
kernels are those that the compiler makes, and those that tests/cpp/cuda_printer_test builds by
hand, which alone have barriers and trees today.
"""

from __future__ import annotations

import collections
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass

import emulated
import emulator
import pytest
import torch
from cuda_cases import Case

import tensor_comprehensions as tc

_FUNCTION = re.compile(r'^extern "C" __global__.*?^}\n', re.M | re.S)
_SYMBOL = re.compile(r"(\w+)\(")
_BLOCK = re.compile(r"^( *)(?:} else )?if \((.*)\) \{$")
_ATOMIC = re.compile(r"tc::atomic_(\w+)\(&(.*)\);$")


@dataclass(frozen=True)
class Mutant:
    kind: str
    line: str  # that was changed
    kernel: str
    text: str  # of the function


def function_texts(source: str) -> tuple[str, dict[str, str]]:
    """What stands in front of the kernels, and their texts."""
    functions = {}
    for match in _FUNCTION.finditer(source):
        head = match[0].split("{")[0]
        name = _SYMBOL.findall(re.sub(r"__launch_bounds__\(\d+\)", "", head))[0]
        functions[name] = match[0]
    return _FUNCTION.sub("", source), functions


def end_of_block(lines: list[str], begin: int) -> int:
    """The line that closes the block which a line opens."""
    indent = len(lines[begin]) - len(lines[begin].lstrip())
    return next(k for k in range(begin + 1, len(lines)) if lines[k].startswith(" " * indent + "}"))


def split_at_comma(text: str) -> tuple[str, str]:
    """At the first comma outside of brackets."""
    depth = 0
    for k, character in enumerate(text):
        depth += (character in "([") - (character in ")]")
        if character == "," and depth == 0:
            return text[:k], text[k + 1 :].strip()
    raise ValueError(f"no comma in {text}")


def mutants_of(kernel: str, text: str) -> Iterator[Mutant]:
    lines = text.split("\n")

    def made(kind: str, k: int, replaced: list[str], until: int | None = None) -> Mutant:
        rest = lines[(k if until is None else until) + 1 :]
        return Mutant(kind, lines[k].strip(), kernel, "\n".join([*lines[:k], *replaced, *rest]))

    for k, line in enumerate(lines):
        if line.strip() == "__syncthreads();":
            yield made("barrier", k, [])
        guard = _BLOCK.match(line)
        if guard and "} else" not in line:
            end = end_of_block(lines, k)
            if lines[end].strip() == "}":
                yield made("guard", k, [f"{guard[1]}if (true) {{"])
            inside = "".join(lines[k + 1 : end])
            # s[t] += s[t + 4], or s[t] = s[t] + s[t + 4]
            if end == k + 2 and re.search(r"(\w+)\[(\w+)\] .*\b\1\[\2 \+ \d+\]", inside):
                yield made("step", k, [], end)
        if "__shfl_xor_sync" in line:
            yield made("step", k, [])
        atomic = _ATOMIC.search(line)
        if atomic:
            kind, (place, value) = atomic[1], split_at_comma(atomic[2])
            combined = {"sum": f"{place} + {value}", "product": f"{place} * ({value})"}.get(
                kind, f"tc::{kind}({place}, {value})"
            )
            yield made("atomic", k, [f"{line[: atomic.start()]}{place} = {combined};"])


class Mutated:
    """All mutants of a text, compiled together: each is a kernel with a name of its own."""

    def __init__(self, source: str) -> None:
        before, functions = function_texts(source)
        self.mutants = [m for name, text in functions.items() for m in mutants_of(name, text)]
        texts = [before, *functions.values()]
        for number, mutant in enumerate(self.mutants):
            texts.append(mutant.text.replace(f"{mutant.kernel}(", f"{mutant.kernel}_{number}(", 1))
        self.module = emulator.compile("\n".join(texts))

    def __iter__(self) -> Iterator[tuple[Mutant, str]]:
        """Mutants and the names of their kernels."""
        for number, mutant in enumerate(self.mutants):
            yield mutant, f"{mutant.kernel}_{number}"


def how_found(run: object, wanted: tuple[torch.Tensor, ...]) -> str | None:
    """What a mutant is found by, or None where it survives; `run` gives its results."""
    try:
        results = run()
    except emulator.EmulatorError as error:
        for word in ("race", "nobody has written", "beside an array", "divergence", "deadlock"):
            if word in str(error):
                return word
        raise
    for result, w in zip(results, wanted, strict=True):
        try:
            torch.testing.assert_close(
                result.reshape(w.shape), w, rtol=1e-4, atol=1e-4, equal_nan=True
            )
        except AssertionError:
            return "values"
    return None


def survivors(found: list[tuple[Mutant, str | None]]) -> str:
    return "\n\n".join(f"{m.kind}: {m.line}\n{m.text}" for m, how in found if how is None)


# ---- hand-built kernels


def random_like(elements: int, dtype: torch.dtype, seed: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    if dtype == torch.bool:
        return torch.randint(0, 2, (elements,), generator=generator).bool()
    return torch.randint(1, 100, (elements,), generator=generator).to(dtype)


HAND_BUILT = {
    "matmul": {"barrier": 2, "guard": 0, "step": 0},
    "matmul_wide": {"barrier": 2, "guard": 0, "step": 0},
    "matmul_dynamic": {"barrier": 2, "guard": 0, "step": 0},
    "reduce_tree": {"barrier": 8, "guard": 9, "step": 8},
    "reduce_warp": {"barrier": 0, "guard": 1, "step": 5},
    "types": {"barrier": 13, "guard": 0, "step": 0},
    "add": {"barrier": 0, "guard": 1, "step": 0},
    "chain": {"barrier": 0, "guard": 4, "step": 0},
    "nest_tmm": {"barrier": 2, "guard": 2, "step": 0},
    "nest_softmax": {"barrier": 12, "guard": 17, "step": 8},
}


@pytest.mark.parametrize("name", HAND_BUILT)
def test_mutants_of_hand_built_kernels(cases: object, name: str) -> None:
    case = Case(cases, name)
    mutated = Mutated(case.module.text)
    found = []
    for mutant, symbol in mutated:
        launch = case.launches[mutant.kernel]
        start = {
            a["name"]: random_like(a["elements"], getattr(torch, a["type"]), k)
            for k, a in enumerate(launch["args"])
        }
        start.update({s["name"]: 2 for s in launch["scalars"]})

        def run(module: object, kernel: str, as_symbol: str) -> tuple[torch.Tensor, ...]:
            tensors = {k: v.clone() if hasattr(v, "clone") else v for k, v in start.items()}  # noqa: B023
            case.run(as_symbol, tensors, described_as=kernel, module=module)
            return tuple(tensors[a["name"]] for a in launch["args"] if a["written"])  # noqa: B023

        wanted = run(case.module, mutant.kernel, mutant.kernel)
        how = how_found(lambda: run(mutated.module, mutant.kernel, symbol), wanted)  # noqa: B023
        found.append((mutant, how))
    assert not survivors(found), survivors(found)
    counted = collections.Counter(mutant.kind for mutant, _ in found)
    assert {kind: counted[kind] for kind in HAND_BUILT[name]} == HAND_BUILT[name]


# ---- the compiler's


@dataclass(frozen=True)
class Program:
    text: str
    sizes: tuple[tuple[int, ...], ...]
    kinds: tuple[str, ...]  # of mutants that there must be
    initial: bool = False


PROGRAMS = {
    "elementwise": Program(
        "def f(float(N, M) A, float(M) b) -> (O) { O(n, m) = A(n, m) * 2 + b(m) }",
        ((37, 45), (45,)),
        ("guard",),
    ),
    "transposition": Program(
        "def f(float(N, M) A) -> (O) { O(m, n) = A(n, m) }", ((37, 45),), ("guard",)
    ),
    "product": Program(
        "def f(float(M, K) A, float(K, N) B) -> (O) { O(m, n) +=! A(m, k) * B(k, n) }",
        ((19, 21), (21, 45)),
        ("guard",),
    ),
    "window": Program(
        """def f(float(N) x, float(K) w) -> (O) {
          O(i) +=! (i + k - 2 >= 0 && i + k - 2 < N ? x(i + k - 2) : 0.0) * w(k) where i in 0:N
        }""",
        ((301,), (5,)),
        ("guard",),
    ),
    "scattered sum": Program(
        "def f(float(N, D) A, int32(N) I) -> (float(7, D) S) { S(I(i), d) +=! A(i, d) }",
        ((40, 9), (40,)),
        ("atomic", "guard"),
    ),
    "scattered minimum": Program(
        "def f(float(N, D) A, int32(N) I) -> (float(7, D) S) { S(I(i), d) min=! A(i, d) }",
        ((40, 9), (40,)),
        ("atomic", "guard"),
    ),
    "scattered maximum": Program(
        "def f(float(N, D) A, int32(N) I) -> (float(7, D) S) { S(I(i), d) max=! A(i, d) }",
        ((40, 9), (40,)),
        ("atomic", "guard"),
    ),
    "scattered product": Program(
        "def f(float(N, D) A, int32(N) I) -> (float(7, D) S) { S(I(i), d) *=! A(i, d) }",
        ((40, 9), (40,)),
        ("atomic", "guard"),
    ),
}


def run_program(
    executor: tc.Executor,
    inputs: tuple,
    mutated: Mutated | None,
    mutant: Mutant | None,
    symbol: str,
) -> tuple[torch.Tensor, ...]:
    outputs = emulated.make_outputs(executor, inputs)
    instead = {} if mutant is None else {mutant.kernel: (mutated.module, symbol)}
    emulated.run(executor, inputs, outputs, initial=0, instead=instead)
    return outputs


@pytest.mark.parametrize("name", PROGRAMS)
def test_mutants_of_compiled_kernels(name: str) -> None:
    program = PROGRAMS[name]
    inputs = []
    for number, sizes in enumerate(program.sizes):
        generator = torch.Generator().manual_seed(number)
        if number == 1 and "int32" in program.text:
            inputs.append(torch.randint(0, 7, sizes, generator=generator, dtype=torch.int32))
        else:
            inputs.append(torch.rand(sizes, generator=generator) + 0.5)
    executor = tc.compile(program.text, "f", None, *inputs, target="cuda:sm_90")
    wanted = run_program(executor, tuple(inputs), None, None, "")
    on_cpu = tc.compile(program.text, "f", None, *inputs)(*inputs)
    torch.testing.assert_close(wanted[0], on_cpu, rtol=1e-4, atol=1e-4)
    mutated = Mutated(executor.cuda_source)
    found = [
        (
            mutant,
            how_found(
                lambda: run_program(executor, tuple(inputs), mutated, mutant, symbol),  # noqa: B023
                wanted,
            ),
        )
        for mutant, symbol in mutated
    ]
    assert not survivors(found), survivors(found)
    assert {mutant.kind for mutant, _ in found} >= set(program.kinds)


def test_each_launch_is_missed() -> None:
    """A sum of many terms is several launches, and a chain of definitions too."""
    x = torch.rand(20000)
    text = "def f(float(N) x) -> (s) { s +=! x(n) }"
    executor = tc.compile(text, "f", None, x, target="cuda:sm_90")
    names = [launch["symbol"] for launch in json.loads(executor.text("launches"))["launches"]]
    assert len(names) >= 2
    for name in names:

        def run(left_out: str = name) -> tuple[torch.Tensor, ...]:
            outputs = emulated.make_outputs(executor, (x,))
            emulated.run(executor, (x,), outputs, initial=0, instead={left_out: None})
            return outputs

        found = how_found(run, (x.sum().reshape(()),))
        assert found == ("values" if name == names[-1] else "nobody has written"), name
