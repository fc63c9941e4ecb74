"""What our operators are compared with: ATen, torch.compile and jax.jit, each as it likes it best.

Tracing and compiling happen here, before anything is timed. `torch.compile` has a column with its
defaults and, where the graph has products or convolutions, among whose kernels it can choose, one
with `max-autotune`; where some inputs are the weights of a layer, also one that is frozen, whose
weights are packed before it is timed. JAX is optional; where it is not installed, or a compiler
cannot be used, a line says so and the column is left out.
"""

from __future__ import annotations

import functools
import os
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
import torch._functorch.config
import torch._inductor.config
from harness import Candidate, Restored

#: The same without CUDA graphs, which there are none of on the CPU.
AUTOTUNE = "max-autotune-no-cudagraphs"

#: Operations for which torch.compile has several kernels to choose among.
CHOICES = ("mm", "addmm", "bmm", "baddbmm", "convolution", "convolution_backward", "linear")


@dataclass(frozen=True)
class Function:
    """A way of PyTorch's to compute what a text says. `prepare` gives inputs the layout that it
    likes best, which is not timed."""

    call: Callable[..., object]
    prepare: Callable[..., tuple] = lambda *inputs: inputs
    compiled: bool = True  #: by torch.compile as well


@functools.cache
def inductor_works() -> bool:
    compiler = os.environ.get("CXX", "g++")
    try:
        subprocess.run([compiler, "--version"], check=True, capture_output=True)
        torch.compile(lambda x: x + 1, fullgraph=True)(torch.zeros(3))
    except Exception as error:
        first = str(error).strip().split("\n")[0]
        print(f"no column for torch.compile: with the compiler {compiler}: {first}", flush=True)
        return False
    return True


def chooses(function: Callable[..., object], inputs: tuple) -> bool:
    """Whether the graph of a function has operations with several kernels."""
    from torch.fx.experimental.proxy_tensor import make_fx

    tensors = [x for x in inputs if isinstance(x, torch.Tensor)]

    def of_tensors(*given: torch.Tensor) -> object:
        rest = iter(given)
        return function(*(next(rest) if isinstance(x, torch.Tensor) else x for x in inputs))

    graph = make_fx(of_tensors)(*tensors).graph
    names = {
        str(node.target).split(".")[-2]
        for node in graph.nodes
        if node.op == "call_function" and "." in str(node.target)
    }
    return not names.isdisjoint(CHOICES)


class Frozen(torch.nn.Module):
    """A function some of whose inputs are parameters."""

    def __init__(self, function: Callable[..., object], inputs: tuple, weights: Sequence[int]):
        super().__init__()
        self.function = function
        self.weights = torch.nn.ParameterDict(
            {str(k): torch.nn.Parameter(inputs[k], requires_grad=False) for k in weights}
        )
        self.count = len(inputs)

    def forward(self, *data: torch.Tensor) -> object:
        rest = iter(data)
        inputs = (
            self.weights[str(k)] if str(k) in self.weights else next(rest)
            for k in range(self.count)
        )
        return self.function(*inputs)


def compile_with_torch(function: Callable[..., object], mode: str | None = None) -> Callable:
    # Other rows have the same functions at other sizes, which would count as recompilations.
    torch._dynamo.reset()
    return torch.compile(function, fullgraph=True, dynamic=False, mode=mode)


def compiled(
    function: Callable[..., object],
    inputs: tuple,
    weights: Sequence[int] = (),
    autotune: bool = True,
) -> dict[str, Candidate]:
    """A function under torch.compile, by the name of the column; none where it cannot be used."""
    if not inductor_works():
        return {}
    calls: dict[str, Candidate] = {}
    default = compile_with_torch(function)
    default(*inputs)
    calls["torch.compile"] = lambda: default(*inputs)
    if autotune and chooses(function, inputs):
        tuned = compile_with_torch(function, AUTOTUNE)
        tuned(*inputs)
        calls["max-autotune"] = lambda: tuned(*inputs)
    if weights:
        with torch.no_grad(), torch._inductor.config.patch(freezing=True):
            module = Frozen(function, inputs, weights).eval()
            frozen = compile_with_torch(module, AUTOTUNE)
            data = [x for k, x in enumerate(inputs) if k not in weights]
            frozen(*data)

        def call() -> object:
            # What was frozen holds where there are no gradients.
            with torch.no_grad():
                return frozen(*data)

        calls["frozen, max-autotune"] = call
    return calls


def torch_peers(
    functions: dict[str, Callable[..., object] | Function],
    inputs: tuple,
    weights: Sequence[int] = (),
    with_compilers: bool = True,
    autotune: bool = True,
) -> dict[str, Candidate]:
    """All functions as PyTorch runs them and as torch.compile makes them, by its mode max-autotune
    only where that is asked for.

    The first is what all are checked against, the others are named after it. A function that
    torch.compile does not take has a line that says so.
    """
    calls: dict[str, Candidate] = {}
    for name, function in functions.items():
        if not isinstance(function, Function):
            function = Function(function)
        given = function.prepare(*inputs)
        first = next(iter(functions))
        variant = "" if name == first else f", {name}"
        calls[first + variant] = lambda call=function.call, given=given: call(*given)
        if not (with_compilers and function.compiled):
            continue
        try:
            found = compiled(function.call, given, weights, autotune)
        except Exception as error:
            line = str(error).strip().split("\n")[0]
            print(f"{name} is not for torch.compile: {line}", flush=True)
            continue
        calls |= {column + variant: call for column, call in found.items()}
    return calls


def backward_peers(
    functions: dict[str, Callable[..., object] | Function],
    inputs: tuple,
    gradients: list[torch.Tensor],
    with_compilers: bool = True,
) -> dict[str, Candidate]:
    """The gradients of all inputs that ask for them, by PyTorch and by torch.compile.

    `gradients` are those of the results that are floating-point numbers. What a forward call keeps
    is there before anything is timed.
    """
    calls: dict[str, Candidate] = {}
    for name, function in functions.items():
        if not isinstance(function, Function):
            function = Function(function)
        wanted = [isinstance(x, torch.Tensor) and x.requires_grad for x in inputs]
        plain = (x.detach() if isinstance(x, torch.Tensor) else x for x in inputs)
        given = tuple(
            x.detach().requires_grad_() if wants else x
            for x, wants in zip(function.prepare(*plain), wanted, strict=True)
        )
        leaves = [x for x, wants in zip(given, wanted, strict=True) if wants]

        def derive(call: Callable, given: tuple = given, leaves: list = leaves) -> Candidate:
            found = call(*given)
            found = found if isinstance(found, tuple) else (found,)
            found = [r for r in found if r.is_floating_point()]
            # As the results lie in memory.
            like = [torch.empty_like(r).copy_(g) for r, g in zip(found, gradients, strict=True)]
            return lambda: torch.autograd.grad(found, leaves, like, retain_graph=True)

        first = next(iter(functions))
        variant = "" if name == first else f", {name}"
        calls[first + variant] = derive(function.call)
        if not (with_compilers and function.compiled and inductor_works()):
            continue
        modes = {"torch.compile": None}
        try:
            if chooses(function.call, tuple(_detached(given))):
                modes["max-autotune"] = AUTOTUNE
            for column, mode in modes.items():
                # Buffers that are given away could not be used by a second call.
                with torch._functorch.config.patch(donated_buffer=False):
                    made = derive(compile_with_torch(function.call, mode))
                    made()
                calls[column + variant] = made
        except Exception as error:
            line = str(error).strip().split("\n")[0]
            print(f"{name} is not for torch.compile: {line}", flush=True)
    return calls


def _detached(values: tuple) -> list:
    return [x.detach() if isinstance(x, torch.Tensor) else x for x in values]


@functools.cache
def jax_references() -> object | None:
    """The module with JAX's versions of the cases."""
    try:
        import jax_references
    except ImportError as error:
        print(f"no column for jax.jit: {error}", flush=True)
        return None
    return jax_references


def jax_peers(kind: str, inputs: tuple) -> dict[str, Candidate]:
    """JAX's versions of a case: with the text's layout, and with the one that XLA likes best."""
    references = jax_references()
    if references is None:
        return {}
    import jax

    def peer(function: Callable, given: Sequence) -> Candidate:
        jitted = jax.jit(function)
        arrays = [jax.numpy.asarray(array) for array in given]
        return lambda: jax.block_until_ready(jitted(*arrays))

    arrays = [value.numpy() for value in inputs]
    calls: dict[str, Candidate] = {"jax.jit": peer(references.REFERENCES[kind], arrays)}
    other = references.OWN_LAYOUTS.get(kind)
    if other is not None:
        call = peer(other.call, other.prepare(*arrays))
        calls["jax.jit, own layout"] = Restored(call, other.restore)
    for name, function in references.ALTERNATIVES.get(kind, {}).items():
        calls[f"jax.jit, {name}"] = peer(function, arrays)
    return calls
