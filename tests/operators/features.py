"""What PyTorch asks of an operator, each tried on the definitions of a family of ops/.

A feature takes the cases of a family and returns how many of their definitions it was tried on; it
fails with an AssertionError, or PyTorch's own error, that names the definition.
"""

from __future__ import annotations

import copy
import io
import os
import pickle
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import torch
from shardings import check_ways
from torch.autograd import gradcheck, gradgradcheck

import tensor_comprehensions as tc
from operators.case import Case, Values

Inputs = tuple
Check = Callable[[Case], bool]

# ---- subjects


def text_of(name: str, dtype: torch.dtype) -> str:
    """The file of a definition with another element type, word by word."""
    word = {torch.float32: "float", torch.float64: "double"}[dtype]
    return re.sub(r"\bfloat\b", word, tc.ops.source(name))


def operator_of(case: Case, dtype: torch.dtype = torch.float32) -> tc._operator.Operator:
    namespace = f"tc_features_{str(dtype)[6:]}"
    return getattr(tc.define(text_of(case.definition, dtype), namespace=namespace), case.definition)


def inputs_of(case: Case, dtype: torch.dtype = torch.float32, seed: int = 0) -> Inputs:
    return case.inputs(Values(dtype, seed), *case.sizes[0])


def with_gradients(case: Case, inputs: Inputs) -> Inputs:
    """Leaves of their own, which require gradients where the case has derivatives."""
    places = set(case.differentiable(inputs))
    return tuple(
        x.detach().clone().requires_grad_(k in places) if isinstance(x, torch.Tensor) else x
        for k, x in enumerate(inputs)
    )


def as_tuple(results: object) -> tuple:
    return results if isinstance(results, tuple) else (results,)


def uneven(x: torch.Tensor) -> torch.Tensor:
    """Weights for a sum, since plain sums of a softmax or a norm do not change."""
    return torch.arange(1, x.numel() + 1, dtype=x.dtype).cos().view(x.shape)


def backward(results: tuple) -> None:
    sum((r * uneven(r)).sum() for r in results if r.requires_grad).backward()


def same(case: Case, actual: object, wanted: object, eps: float | None = None) -> None:
    actual, wanted = as_tuple(actual), as_tuple(wanted)
    assert len(actual) == len(wanted)
    for a, w in zip(actual, wanted, strict=True):
        assert a.shape == w.shape
        if not w.is_floating_point():
            assert torch.equal(a, w)
            continue
        finite = w[w.isfinite()]
        largest = finite.abs().max().item() if finite.numel() else 0.0
        bound = 8 * case.terms * (eps or torch.finfo(a.dtype).eps)
        torch.testing.assert_close(
            a.double(), w.double(), rtol=bound, atol=bound * largest, equal_nan=True
        )


@contextmanager
def noted(case: Case) -> Iterator[None]:
    try:
        yield
    except Exception as error:
        error.add_note(f"definition: {case.definition}")
        raise


def each(check: Check) -> Callable[[list[Case]], int]:
    """A feature of single definitions; the check says whether it has a meaning for one."""

    def feature(cases: list[Case]) -> int:
        count = 0
        for case in cases:
            with noted(case):
                count += bool(check(case))
        return count

    feature.__name__ = check.__name__
    return feature


# ---- layouts


def permuted(x: torch.Tensor) -> torch.Tensor:
    """The same values with dimensions in reverse order in memory, and gaps."""
    order = list(range(x.dim()))[::-1]
    wide = x.permute(order).repeat_interleave(2, dim=-1) if x.dim() else x
    return wide[..., ::2].permute(order) if x.dim() else x


def broadcast(x: torch.Tensor) -> torch.Tensor:
    """The first slice everywhere, with a stride of 0."""
    return x[:1].expand(x.shape) if x.dim() and x.shape[0] > 1 else x


OPCHECKS = ("test_schema", "test_faketensor", "test_autograd_registration")
AOT = "test_aot_dispatch_dynamic"


def opcheck(layout: Callable[[torch.Tensor], torch.Tensor], tests: Sequence[str]) -> Check:
    def check(case: Case) -> bool:
        inputs = tuple(layout(x) if isinstance(x, torch.Tensor) else x for x in inputs_of(case))
        torch.library.opcheck(operator_of(case).overload, inputs, test_utils=tests)
        return True

    return check


def given_outputs(case: Case) -> bool:
    operator, inputs = operator_of(case), inputs_of(case)
    wanted = as_tuple(operator(*inputs))
    outputs = tuple(permuted(torch.full_like(w, 7)) for w in wanted)
    assert as_tuple(operator(*inputs, outputs=outputs)) == outputs
    for output, w in zip(outputs, wanted, strict=True):
        same(case, output, w)
    return True


def channels_last(case: Case) -> bool:
    operator, inputs = operator_of(case), inputs_of(case)
    formats = {4: torch.channels_last, 5: torch.channels_last_3d}
    given = tuple(
        x.to(memory_format=formats[x.dim()])
        if isinstance(x, torch.Tensor) and x.dim() in formats
        else x
        for x in inputs
    )
    wanted, actual = as_tuple(operator(*inputs)), as_tuple(operator(*given))
    same(case, actual, wanted)
    follow = 0
    for info, result in zip(operator.definition.outputs, actual, strict=True):
        if result.dim() in formats and info.follows >= 0:
            like = given[info.follows]
            # Of one channel or one pixel, both formats are the same.
            if not like.is_contiguous():
                assert result.is_contiguous(memory_format=formats[result.dim()])
                follow += 1
    return follow > 0


# ---- dtypes and modes


def autocast(case: Case) -> bool:
    """What other layers made in bfloat16 is taken as what the text declares."""
    operator, inputs = operator_of(case), inputs_of(case)
    floating = [isinstance(x, torch.Tensor) and x.is_floating_point() for x in inputs]
    if not any(floating):
        return False
    half = tuple(x.bfloat16() if f else x for x, f in zip(inputs, floating, strict=True))
    rounded = tuple(x.float() if f else x for x, f in zip(half, floating, strict=True))
    with torch.autocast("cpu", torch.bfloat16):
        actual = operator(*half)
    same(case, actual, operator(*rounded))
    places = case.differentiable(inputs)
    if places:
        f = tc.make_autograd(operator)
        leaves, plain = with_gradients(case, half), with_gradients(case, rounded)
        with torch.autocast("cpu", torch.bfloat16):
            results = as_tuple(f(*leaves))
        backward(results)
        backward(as_tuple(f(*plain)))
        for k in places:
            wanted = plain[k].grad.bfloat16()
            torch.testing.assert_close(leaves[k].grad, wanted, rtol=0, atol=0, equal_nan=True)
    return True


def deterministic(case: Case) -> bool:
    operator, inputs = operator_of(case), inputs_of(case)
    f, threads = tc.make_autograd(operator), torch.get_num_threads()
    seen = []
    torch.use_deterministic_algorithms(True)
    try:
        for count in (1, 2, 2):
            torch.set_num_threads(count)
            leaves = with_gradients(case, inputs)
            results = as_tuple(f(*leaves))
            if case.differentiable(inputs):
                backward(results)
            grads = [x.grad for x in leaves if isinstance(x, torch.Tensor) and x.grad is not None]
            seen.append([*results, *grads])
    finally:
        torch.set_num_threads(threads)
        torch.use_deterministic_algorithms(False)
    for again in seen[1:]:
        for a, b in zip(seen[0], again, strict=True):
            assert torch.equal(a.isnan(), b.isnan())
            assert torch.equal(a.nan_to_num(), b.nan_to_num())
    return True


def without_data(case: Case) -> bool:
    operator, inputs = operator_of(case), inputs_of(case)
    meta = [x.to("meta") if isinstance(x, torch.Tensor) else x for x in inputs]
    for a, w in zip(as_tuple(operator(*meta)), as_tuple(operator(*inputs)), strict=True):
        assert (a.shape, a.dtype, a.stride()) == (w.shape, w.dtype, w.stride())
        assert a.device.type == "meta"
    return True


def profiler(case: Case) -> bool:
    operator, inputs = operator_of(case), inputs_of(case)
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
        operator(*inputs)
    assert f"tc_features_float32::{case.definition}" in {e.key for e in profile.key_averages()}
    return True


def copies(case: Case) -> bool:
    operator, inputs = operator_of(case), inputs_of(case)
    wanted = operator(*inputs)
    for other in (copy.deepcopy(operator), pickle.loads(pickle.dumps(operator))):
        same(case, other(*inputs), wanted)
    return True


def sharded(case: Case) -> bool:
    inputs = inputs_of(case)
    return check_ways(operator_of(case), tc.ops.source(case.definition), inputs) > 0


# ---- derivatives

#: Some derivatives of PyTorch's, as that of hardsigmoid, have constants of single precision.
FLOAT_EPS = torch.finfo(torch.float32).eps
#: Of more inputs, gradgradcheck would compile a kernel for each of their gradients: together they
#: are checked along one direction, apart where TC_GRADGRADCHECK=all.
MOST_APART = 2


def differentiable(case: Case) -> tuple[Callable, Inputs, list[int]]:
    inputs = inputs_of(case, torch.float64)
    f = tc.make_autograd(operator_of(case, torch.float64))
    return f, inputs, case.differentiable(inputs)


def gradients(case: Case) -> bool:
    f, inputs, places = differentiable(case)
    if not places:
        return False
    torch.manual_seed(11)
    leaves = with_gradients(case, inputs)
    assert gradcheck(f, leaves, fast_mode=True)
    if len(places) <= MOST_APART or os.environ.get("TC_GRADGRADCHECK") == "all":
        assert gradgradcheck(f, leaves, fast_mode=True)
    else:
        assert gradcheck(along_a_direction(f, places), leaves, fast_mode=True)
    return True


def along_a_direction(f: Callable, places: list[int]) -> Callable:
    """The gradients of some inputs, all of them weighted and added up."""

    def weighted(values: Sequence[torch.Tensor | None]) -> torch.Tensor:
        return sum((v * uneven(v)).sum() for v in values if v is not None)

    def g(*inputs: torch.Tensor) -> torch.Tensor:
        results = [r for r in as_tuple(f(*inputs)) if r.is_floating_point()]
        given = [inputs[k] for k in places]
        return weighted(
            torch.autograd.grad(weighted(results), given, create_graph=True, allow_unused=True)
        )

    return g


def of_places(f: Callable, inputs: Inputs, places: list[int]) -> Callable:
    """The floating-point results as a function of some of the inputs."""

    def g(*chosen: torch.Tensor) -> tuple:
        arguments = list(inputs)
        for place, value in zip(places, chosen, strict=True):
            arguments[place] = value
        return tuple(r for r in as_tuple(f(*arguments)) if r.is_floating_point())

    return g


def tangents(case: Case) -> bool:
    f, inputs, places = differentiable(case)
    if not places:
        return False
    values = Values(torch.float64, 5)
    primals = tuple(inputs[k] for k in places)
    moves = tuple(values(*x.shape) for x in primals)
    results, moved = torch.func.jvp(of_places(f, inputs, places), primals, moves)
    # Some functions of PyTorch have no forward mode, but all the transposed product.
    wanted, pull = torch.func.vjp(of_places(case.reference, inputs, places), *primals)
    same(case, results, wanted)
    for _ in range(3):
        weights = tuple(values(*w.shape) for w in wanted)
        a = sum((m * u).sum() for m, u in zip(moved, weights, strict=True))
        w = sum((g * v).sum() for g, v in zip(pull(weights), moves, strict=True))
        same(case, a, w, FLOAT_EPS)
    return True


def per_example(case: Case) -> bool:
    f, inputs, places = differentiable(case)
    if not places:
        return False
    examples = [inputs, inputs_of(case, torch.float64, 1)]
    batch = tuple(torch.stack([e[k] for e in examples]) for k in places)

    def gradient(function: Callable) -> Callable:
        g = of_places(function, inputs, places)

        def loss(*x: torch.Tensor) -> torch.Tensor:
            return sum((r * uneven(r)).sum() for r in g(*x))

        return torch.func.grad(loss, argnums=tuple(range(len(places))))

    found = torch.func.vmap(gradient(f))(*batch)
    wanted = [gradient(case.reference)(*(x[n] for x in batch)) for n in range(len(examples))]
    same(case, found, tuple(torch.stack(x) for x in zip(*wanted, strict=True)), FLOAT_EPS)
    return True


def batches(case: Case) -> bool:
    operator = operator_of(case)
    examples = [inputs_of(case, seed=seed) for seed in range(3)]
    tensors = [isinstance(x, torch.Tensor) for x in examples[0]]
    if not any(tensors):
        return False
    dims = tuple(0 if tensor else None for tensor in tensors)
    batch = [
        torch.stack(x) if tensor else x[0]
        for x, tensor in zip(zip(*examples, strict=True), tensors, strict=True)
    ]
    found = as_tuple(torch.func.vmap(operator, in_dims=dims)(*batch))
    for n, example in enumerate(examples):
        same(case, tuple(r[n] for r in found), operator(*example))
    return True


# ---- programs: a family in one graph


class Family(torch.nn.Module):
    """Calls every operator of a family on its own inputs."""

    def __init__(self, functions: list[Callable], counts: list[int]) -> None:
        super().__init__()
        self.functions, self.counts = functions, counts

    def forward(self, *inputs: object) -> tuple:
        results, at = [], 0
        for function, count in zip(self.functions, self.counts):
            found = function(*inputs[at : at + count])
            results += list(found) if isinstance(found, tuple) else [found]
            at += count
        return tuple(results)


def program(cases: list[Case], function_of: Callable) -> tuple[Family, Inputs]:
    inputs = [inputs_of(case) for case in cases]
    functions = [function_of(case) for case in cases]
    return Family(functions, [len(x) for x in inputs]), tuple(x for i in inputs for x in i)


def overload_of(case: Case) -> Callable:
    return operator_of(case).overload


def all_same(actual: tuple, wanted: tuple) -> None:
    for a, w in zip(actual, wanted, strict=True):
        torch.testing.assert_close(a, w, rtol=0, atol=0, equal_nan=True)


def dynamic_same(cases: list[Case], actual: tuple, wanted: tuple) -> None:
    """Graphs of dynamic sizes pass numbers as tensors, which a text of its own takes: its backward
    may compute anew what the other keeps, and round in another order."""
    if not any(isinstance(x, float) for case in cases for x in inputs_of(case)):
        return all_same(actual, wanted)
    most = max(cases, key=lambda case: case.terms)
    same(most, actual, wanted)


def derived(cases: list[Case]) -> tuple[Family, Inputs]:
    return program(cases, lambda case: tc.make_autograd(operator_of(case)))


def trained(cases: list[Case], family: Family, inputs: Inputs, function: Callable) -> tuple:
    """The results of a family, and what arrives at its inputs."""
    given, at = [], 0
    for case, count in zip(cases, family.counts, strict=True):
        given += with_gradients(case, inputs[at : at + count])
        at += count
    results = function(*given)
    backward(results)
    return (*results, *(x.grad for x in given if getattr(x, "grad", None) is not None))


def compiled(dynamic: bool, backend: str) -> Callable[[list[Case]], int]:
    """Forward and backward in one graph, without a break."""

    def feature(cases: list[Case]) -> int:
        torch._dynamo.reset()
        family, inputs = derived(cases)
        function = torch.compile(family, fullgraph=True, dynamic=dynamic, backend=backend)
        actual = trained(cases, family, inputs, function)
        wanted = trained(cases, family, inputs, family)
        if dynamic:
            dynamic_same(cases, actual, wanted)
        else:
            all_same(actual, wanted)
        return len(cases)

    return feature


def exported(cases: list[Case]) -> int:
    family, inputs = program(cases, overload_of)
    sizes = tuple(
        dict.fromkeys(range(x.dim()), torch.export.Dim.AUTO)
        if isinstance(x, torch.Tensor)
        else None
        for x in inputs
    )
    found = torch.export.export(family, inputs, dynamic_shapes=(sizes,))
    stream = io.BytesIO()
    torch.export.save(found, stream)
    stream.seek(0)
    all_same(torch.export.load(stream).module()(*inputs), family(*inputs))
    return len(cases)


def exported_and_trained(cases: list[Case]) -> int:
    cases = [case for case in cases if case.differentiable(inputs_of(case))]
    family, inputs = derived(cases)
    stream = io.BytesIO()
    torch.export.save(torch.export.export(family, inputs), stream)
    stream.seek(0)
    function = torch.export.load(stream).module()
    all_same(trained(cases, family, inputs, function), trained(cases, family, inputs, family))
    return len(cases)


def traced_and_trained(cases: list[Case]) -> int:
    """Numbers are constants of a trace, and stay no inputs of it."""
    cases = [case for case in cases if case.differentiable(inputs_of(case))]
    family, inputs = derived(cases)
    numbers = {k: x for k, x in enumerate(inputs) if not isinstance(x, torch.Tensor)}

    def run(*tensors: torch.Tensor) -> tuple:
        given = iter(tensors)
        return family(*(numbers[k] if k in numbers else next(given) for k in range(len(inputs))))

    tensors = tuple(x for x in inputs if isinstance(x, torch.Tensor))
    stream = io.BytesIO()
    torch.jit.save(torch.jit.trace(run, tensors), stream)
    stream.seek(0)
    loaded = torch.jit.load(stream)

    def function(*given: object) -> tuple:
        return loaded(*(x for x in given if isinstance(x, torch.Tensor)))

    all_same(trained(cases, family, inputs, function), trained(cases, family, inputs, family))
    return len(cases)


def packaged(cases: list[Case]) -> int:
    family, inputs = program(cases, overload_of)
    with TemporaryDirectory() as folder:
        path = torch._inductor.aoti_compile_and_package(
            torch.export.export(family, inputs), package_path=str(Path(folder) / "family.pt2")
        )
        all_same(tuple(torch._inductor.aoti_load_package(path)(*inputs)), family(*inputs))
    return len(cases)


def scripted(cases: list[Case]) -> int:
    for case in cases:
        with noted(case):
            operator, inputs = operator_of(case), inputs_of(case)
            names = [f"x{k}" for k in range(len(inputs))]
            types = [type(x).__name__ for x in inputs]
            unit = torch.jit.CompilationUnit(
                f"def f({', '.join(f'{n}: {t}' for n, t in zip(names, types))}):\n"
                f"    return torch.ops.tc_features_float32.{case.definition}({', '.join(names)})\n"
            )
            module = torch.jit.script(unit.f)
            stream = io.BytesIO()
            torch.jit.save(module, stream)
            stream.seek(0)
            same(case, torch.jit.load(stream)(*inputs), operator(*inputs))
    return len(cases)


FEATURES: dict[str, Callable[[list[Case]], int]] = {
    "`opcheck`, contiguous": each(opcheck(lambda x: x, (*OPCHECKS, AOT))),
    "`opcheck`, permuted with gaps": each(opcheck(permuted, (*OPCHECKS, AOT))),
    # What AOTAutograd does with other strides is in the row above.
    "`opcheck`, broadcast": each(opcheck(broadcast, OPCHECKS)),
    "into given tensors": each(given_outputs),
    "channels last in and out": each(channels_last),
    "meta tensors": each(without_data),
    "`torch.compile`, inductor": compiled(False, "inductor"),
    "`torch.compile`, dynamic sizes": compiled(True, "aot_eager"),
    "`torch.export`, saved and loaded": exported,
    "`torch.export`, loaded and trained": exported_and_trained,
    "AOTInductor package": packaged,
    "`torch.jit.script`, saved and loaded": scripted,
    "`torch.jit.trace`, loaded and trained": traced_and_trained,
    "`gradcheck`, `gradgradcheck`": each(gradients),
    "`jvp`": each(tangents),
    "`vmap`": each(batches),
    "`vmap` of `grad`": each(per_example),
    "autocast": each(autocast),
    "deterministic mode": each(deterministic),
    "profiler": each(profiler),
    "`deepcopy`, `pickle`": each(copies),
    "shared by DTensor": each(sharded),
}
