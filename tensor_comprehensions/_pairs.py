"""Functions whose derivative is another function."""

from __future__ import annotations

import functools
import itertools
import threading
import weakref
from collections.abc import Callable
from typing import Any, ClassVar

import torch

from tensor_comprehensions import _torch
from tensor_comprehensions._errors import TCError
from tensor_comprehensions._gradients import cast_for_autocast, may_carry_tangents, records
from tensor_comprehensions._operator import Operator
from tensor_comprehensions._parameters import declared
from tensor_comprehensions._scalars import as_tensors, is_traced

_is_traced = torch.compiler.is_dynamo_compiling
_numbers = itertools.count()
#: Functions of any callables, by the names that graphs of torch.compile have for them.
joined: weakref.WeakValueDictionary[str, type[torch.autograd.Function]] = (
    weakref.WeakValueDictionary()
)


def _traced_pair() -> Callable[..., Any]:
    from tensor_comprehensions import _traced

    return _traced.call_pair


def _traced_apply() -> Callable[..., Any]:
    from tensor_comprehensions import _traced

    return _traced.apply


def name_of(function: Callable[..., Any]) -> str:
    return getattr(function, "__name__", type(function).__name__)


def _is_differentiable(value: object) -> bool:
    return isinstance(value, torch.Tensor) and value.is_floating_point()


def _match(name: str, results: object, inputs: list[Any]) -> tuple[Any, ...]:
    """One gradient for each input, from what a backward returned."""
    results = tuple(results) if isinstance(results, (tuple, list)) else (results,)
    wanted = [_is_differentiable(value) for value in inputs]
    if len(results) == len(inputs):
        return tuple(result if want else None for result, want in zip(results, wanted, strict=True))
    if len(results) != sum(wanted):
        raise TCError(
            f"{name} returned {len(results)} gradients, but {sum(wanted)} of the {len(inputs)} "
            f"inputs are floating-point tensors; return one for each of those, in order"
        )
    gradients = iter(results)
    return tuple(next(gradients) if want else None for want in wanted)


def _traceable(function: Callable[..., Any]) -> Callable[..., Any]:
    """The same for torch.compile, which cannot look into our objects inside of a Function."""
    overload: Callable[..., Any] | None = getattr(function, "overload", None)
    return overload if isinstance(function, Operator) and overload is not None else function


# ---- pairs of two definitions


class Pair:
    """The operator of a definition whose derivative is another one."""

    _known: ClassVar[dict[str, Pair]] = {}  # by name, as "tc::f__..._with_f_grad__..."
    lock = threading.RLock()

    def __init__(self, forward: Operator, backward: Operator, names: tuple[str, str]) -> None:
        # What users hold of both does not last for a pair's sake.
        self._registrations = forward.registration, backward.registration
        # Their entries in the dispatcher do: a pair is never unregistered, and calls both.
        for registration in self._registrations:
            registration.is_pinned = True
        self.names = names  #: of both, in the pair's own name
        self.name = name = Pair._name_of(names)  #: in torch.ops
        namespace, _, own = name.partition("::")
        self._direct = _torch.register_paired(
            forward._operator, forward.name, backward._operator, backward.name, own
        )
        torch.library.register_vmap(name, self._run_batch)
        self._overload = getattr(getattr(torch.ops, namespace), own).default
        self._with_tensors: dict[tuple[Any, ...], type[torch.autograd.Function]] = {}
        self._takes_scalars = bool(forward._scalars)

    @property
    def forward(self) -> Operator:
        return self._registrations[0].handle()

    @property
    def backward(self) -> Operator:
        return self._registrations[1].handle()

    @functools.cached_property
    def function(self) -> Callable[..., Any]:
        """What users call. Dynamo is shown one operation; which, depends on what scalars are."""
        overload, name, takes_scalars = self._overload, self.name, self._takes_scalars

        def run(*inputs: object) -> object:
            if not _is_traced():
                return self(*inputs)
            return _traced_pair()(name, *inputs) if takes_scalars else overload(*inputs)

        return run

    @staticmethod
    def _name_of(names: tuple[str, str]) -> str:
        return _torch.paired_name(names[0], names[1].partition("::")[2])

    @classmethod
    def of(
        cls, forward: Operator, backward: Operator, names: tuple[str, str] | None = None
    ) -> Pair | None:
        """The pair, registered when it is new; None where the backward takes something else.

        ``names`` are those by which graphs of another version know both.
        """
        if not _torch.is_backward_of(forward.definition, backward.definition):
            return None
        names = names or (forward.name, backward.name)
        name = cls._name_of(names)
        with cls.lock:
            if name not in cls._known:
                cls._known[name] = cls(forward, backward, names)
            return cls._known[name]

    @classmethod
    def find(cls, name: str) -> Pair | None:
        """The pair behind a name of torch.ops."""
        with cls.lock:
            return cls._known.get(name)

    def __call__(self, *inputs: Any) -> Any:
        try:
            result = self._direct(*inputs)
            if result is not NotImplemented:
                return result
            forward = self.forward
            if forward._integers:
                forward._check_integers(inputs)
            if forward._scalars and (found := as_tensors(forward, inputs)) is not None:
                return self._with_scalars_of(found[0]).apply(*found[1])
            return self._overload(*inputs)
        except TCError:
            raise
        except (RuntimeError, TypeError) as error:
            self.forward._explain(inputs, error)
            raise

    def _with_scalars_of(self, forward: Operator) -> type[torch.autograd.Function]:
        """The pair where some scalars are tensors, which receive no gradient from the backward."""
        infos = zip(self.forward._infos, forward._infos, strict=True)
        flags = tuple(info.is_scalar and not now.is_scalar for info, now in infos)
        if flags not in self._with_tensors:
            behind = len(self.backward._infos) - len(flags)
            backward = self.backward.with_tensors(flags + (False,) * behind)
            self._with_tensors[flags] = _make_function(
                forward,
                backward,
                name_of(self.backward),
                _saved_results(self.forward, self.backward),
                _ranks(backward),
                no_gradient={
                    k: f"{name_of(self.backward)} gives no gradient to scalar {info.name} of "
                    f"{name_of(self.forward)}, which requires one: declare it as "
                    f"{declared(info, ())}(1) {info.name} in both texts and write {info.name}(0), "
                    f"or pass {info.name}.detach()"
                    for k, info in enumerate(self.forward._infos)
                    if flags[k]
                },
                has_batches=True,
            )
        return self._with_tensors[flags]

    def _run_batch(self, _: object, in_dims: tuple[Any, ...], *inputs: Any) -> tuple[Any, ...]:
        """For vmap: the pair of both definitions over a batch."""
        forward, values, dims = self.forward.over_batch(in_dims, inputs)
        # Results have gradients of their sizes.
        saved = [dims[k] for k in _saved_results(self.forward, self.backward)]
        flags = [dim is not None for dim in (*in_dims, *saved, *dims)]
        pair = Pair.of(forward, self.backward.batch(tuple(flags)))
        assert pair is not None
        results = pair(*values)
        return results, dims if isinstance(results, tuple) else dims[0]


# ---- pairs of any callables


def join(forward: Callable[..., Any], backward: Callable[..., Any]) -> Callable[..., Any]:
    """A function of both. No graph holds it: one that is exported or traced calls ``forward``."""
    rest = name_of(backward), _saved_results(forward, backward), _ranks(backward)
    eager = _make_function(forward, backward, *rest)
    traced = _make_function(_traceable(forward), _traceable(backward), *rest)
    takes_scalars = isinstance(forward, Operator) and bool(forward._scalars)
    # No integer, of which graphs make symbols.
    key = f"{name_of(forward)} {next(_numbers)}"
    joined[key] = eager

    def run(*inputs: object) -> object:
        if isinstance(forward, Operator):
            inputs = cast_for_autocast(forward, inputs)
        if _is_traced() and (takes_scalars or may_carry_tangents()):
            return _traced_apply()(key, *inputs)
        # Dynamo looks at the key, so that a graph is one of this function alone.
        if torch.compiler.is_compiling() and key:
            return traced.apply(*inputs)
        if is_traced():
            return forward(*inputs)  # a trace can hold no function of Python
        return eager.apply(*inputs) if records(inputs) else forward(*inputs)

    return run


def _definition_of(function: Callable[..., Any]) -> _torch.Definition | None:
    """What a function computes where that is a definition, with a derivative or without."""
    from tensor_comprehensions._autograd import Differentiable

    if isinstance(function, Differentiable):
        function = function._parts[0]
    return function.definition if isinstance(function, Operator) else None


def _saved_results(forward: Callable[..., Any], backward: Callable[..., Any]) -> list[int]:
    """Places of the results that a backward definition has parameters for, after the inputs."""
    computed, derivative = _definition_of(forward), _definition_of(backward)
    if computed is None or derivative is None:
        return []
    outputs = [info.name for info in computed.outputs]
    after = [info.name for info in derivative.inputs][len(computed.inputs) :]
    places = []
    for name in after:
        if name not in outputs:
            break
        places.append(outputs.index(name))
    return places


def _ranks(backward: Callable[..., Any]) -> list[int] | None:
    """How many dimensions the parameters of a definition have."""
    derivative = _definition_of(backward)
    if derivative is None:
        return None
    return [0 if info.is_scalar else info.ndim for info in derivative.inputs]


def _make_function(
    run_forward: Callable[..., Any],
    run_backward: Callable[..., Any],
    name: str,
    results: list[int],
    ranks: list[int] | None,
    no_gradient: dict[int, str] | None = None,
    has_batches: bool = False,
) -> type[torch.autograd.Function]:
    """An autograd function of two callables; ``name`` is what errors call the second.

    ``results`` are the places of the forward's results that the backward takes, ``no_gradient``
    says which tensors among the inputs receive none, and what to say where one is wanted.
    ``has_batches`` says that vmap finds rules for all that both call.
    """
    refused = no_gradient or {}

    class Function(torch.autograd.Function):
        generate_vmap_rule = has_batches

        @staticmethod
        def forward(*inputs: object) -> object:
            return run_forward(*inputs)

        @staticmethod
        def setup_context(ctx: Any, inputs: tuple[Any, ...], output: object) -> None:
            for k, message in refused.items():
                if ctx.needs_input_grad[k]:
                    raise TCError(message)
            outputs = output if isinstance(output, tuple) else (output,)
            is_tensor = [isinstance(value, torch.Tensor) for value in inputs]
            ctx.is_tensor = is_tensor
            ctx.others = [
                None if tensor else value for value, tensor in zip(inputs, is_tensor, strict=True)
            ]
            ctx.save_for_backward(
                *(value for value, tensor in zip(inputs, is_tensor, strict=True) if tensor),
                *(outputs[k] for k in results),
            )

        @staticmethod
        def backward(ctx: Any, *gradients: torch.Tensor) -> tuple[Any, ...]:
            tensors = iter(ctx.saved_tensors)
            inputs = [
                next(tensors) if tensor else value
                for value, tensor in zip(ctx.others, ctx.is_tensor, strict=True)
            ]
            # sum().backward() sends gradients of stride 0, which backwards may not expect.
            rest = [*tensors, *(gradient.contiguous() for gradient in gradients)]
            for k, value in enumerate(rest):
                # What has no dimensions is a tensor of one element to a derived definition.
                if ranks is not None and value.dim() == 0 and ranks[len(inputs) + k :][:1] == [1]:
                    rest[k] = value.reshape(1)
            found = run_backward(*inputs, *rest)
            receive = [None if k in refused else value for k, value in enumerate(inputs)]
            return _match(name, found, receive)

    return Function
