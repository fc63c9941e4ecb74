"""Derivatives of definitions, found by the core."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

import torch
from torch._prims_common import is_non_overlapping_and_dense_or_false
from torch.autograd import forward_ad

from tensor_comprehensions import _torch
from tensor_comprehensions._define import make_operator, parse, undefined
from tensor_comprehensions._errors import TCError
from tensor_comprehensions._operator import Operator
from tensor_comprehensions._options import MappingOptions

Flags = tuple[bool, ...]


def _values(definition: _torch.Definition, scalars: dict[str, int]) -> list[int]:
    """A value for every input, of which those of scalars that decide sizes matter."""
    values = []
    for info in definition.inputs:
        if info.is_specialized and info.name not in scalars:
            raise TCError(
                f"the sizes of {definition.name} depend on the value of scalar {info.name}, and so "
                f"does its derivative; pass it, as in {info.name}=1"
            )
        values.append(scalars.get(info.name, 0))
    return values


def _derive(
    definition: _torch.Definition, wanted: Flags, given: Flags, scalars: dict[str, int]
) -> str:
    """The text of a derivative; "" where no wanted input is reached."""
    values = _values(definition, scalars)
    return definition.gradient_text(values, list(wanted), list(given))


def grad_source(source: str, entry_point: str | None = None, **scalars: int) -> str:
    """The text of the derivative of every definition of a text, or of one of them.

    The derivative of ``f`` is ``f_grad``. Its parameters are the inputs of ``f``, then those of its
    results whose values the derivative is made of, under their own names, then ``d_R`` for each
    result ``R``. It returns ``d_X`` for each floating-point input ``X`` that reaches a result. A
    result without dimensions is passed as a tensor of one element, and so is its gradient. Other
    values of the forward computation are computed again. ``scalars`` gives values to integer
    scalars that decide sizes. ``make_autograd(T.f, G.f_grad)`` joins both definitions.

    LanguageError names what has no derivative.
    """
    definitions = parse(source).definitions
    if entry_point is not None:
        known = [definition.name for definition in definitions]
        if entry_point not in known:
            raise TCError(undefined(entry_point, known))
        definitions = [d for d in definitions if d.name == entry_point]
    texts = [
        _derive(d, (True,) * len(d.inputs), (True,) * len(d.outputs), scalars) for d in definitions
    ]
    return _torch.format("\n".join(texts)) if any(texts) else ""


class Gradient:
    """One derivative of a definition as a function of tensors, which has derivatives too."""

    def __init__(self, forward: Operator, text: str, given: Flags) -> None:
        definition = _torch.parse(text).definitions[0]  # nobody has written this text: no warnings
        self._function = Derivable.of(make_operator(definition, "tc_grad"), hold=True)
        inputs = [info.name for info in forward.definition.inputs]
        outputs = [info.name for info in forward.definition.outputs]
        infos = list(definition.inputs)
        #: Whether the values of each input are read, or only its sizes.
        self.reads = [info.is_read for info in infos[: len(inputs)]]
        #: The results that are read, by their place among the outputs.
        count = len(infos) - len(inputs) - sum(given)
        self.saved = [outputs.index(info.name) for info in infos[len(inputs) :][:count]]
        self.given = sum(given)  #: how many gradients it takes
        names = [info.name for info in definition.outputs]
        #: Of the gradient of each input among the results, None where there is none.
        self.places = _places(inputs, names)

    def __call__(self, arguments: Sequence[object]) -> list[torch.Tensor | None]:
        """One gradient for each input, None where there is none."""
        results = self._function(*arguments)
        results = results if isinstance(results, tuple) else (results,)
        return [None if k is None else results[k] for k in self.places]

    def transpose(
        self, arguments: Sequence[object], tangents: Sequence[torch.Tensor | None]
    ) -> Sequence[torch.Tensor | None]:
        """What tangents of the inputs make of the results, one for each given gradient.

        This derivative is linear in the gradients it is given, the last of ``arguments``: it
        multiplies them with the transposed Jacobian, and its own derivative by them multiplies
        with the Jacobian. Their values do not matter, only their sizes.
        """
        count = self.given
        wanted = (False,) * (len(arguments) - count) + (True,) * count
        moved = [tangents[k] for k, place in enumerate(self.places) if place is not None]
        given = tuple(tangent is not None for tangent in moved)
        scalars = self._function.scalars(arguments)
        adjoint = self._function.gradient(wanted, given, scalars) if any(given) else None
        if adjoint is None:
            return [None] * count
        # A linear function's derivative reads none of its results.
        rest = [t.reshape(1) if t.dim() == 0 else t for t in moved if t is not None]
        return adjoint([*arguments, *rest])[-count:]


def _places(inputs: list[str], results: list[str]) -> list[int | None]:
    """For each input the place of its gradient, which has its name and perhaps a number."""
    places: list[int | None] = [None] * len(inputs)
    at = 0
    # Both are in order of the inputs.
    for place, result in enumerate(results):
        while not _is_gradient_of(result, inputs[at]):
            at += 1
        places[at] = place
        at += 1
    return places


def _is_gradient_of(result: str, name: str) -> bool:
    head, _, number = result.rpartition("_")
    return result == f"d_{name}" or (head == f"d_{name}" and number.isdigit())


class Derivable:
    """An operator with the derivatives that were asked for so far.

    It lasts as long as the process, since graphs of autograd refer to it. What users hold of the
    operator does not last for its sake: it is made again where a graph outlives it.
    """

    _lock = threading.RLock()

    def __init__(self, operator: Operator) -> None:
        self._registration = operator.registration
        self._held: Operator | None = None
        self._definition = operator.definition
        self._infos = list(operator.definition.inputs)
        self._gradients: dict[tuple, Gradient | None] = {}
        self._differentiable = tuple(i.dtype.is_floating_point for i in operator.definition.outputs)
        self._record = _torch.Derivation(operator._operator, operator.name, self)
        self._count = len(self._differentiable)
        self._keeping: Derivable | None = None
        self._looked = False  #: for what `_keeping` is

    @property
    def operator(self) -> Operator:
        return self._registration.handle()

    @classmethod
    def of(cls, operator: Operator, hold: bool = False) -> Derivable:
        """The derivatives of an operator, which ``hold`` keeps where nobody else would."""
        registration = operator.registration
        with cls._lock:
            if registration.derivable is None:
                registration.derivable = cls(operator)
            if hold:
                registration.derivable._held = operator
            return registration.derivable

    @classmethod
    def gradients_of(cls, operator: Operator) -> list[Operator]:
        """The derivatives of an operator that were asked for so far."""
        with cls._lock:
            known = operator.registration.derivable
            if known is None:
                return []
            found = [gradient._function for gradient in known._gradients.values() if gradient]
            kept = [known._keeping] if known._keeping is not None else []
            return [derivable.operator for derivable in [*found, *kept]]

    @property
    def name(self) -> str:
        """<namespace>::<name> in torch.ops."""
        return self._registration.name

    def gradient(self, wanted: Flags, given: Flags, scalars: dict[str, int]) -> Gradient | None:
        """The derivative of some outputs by some inputs; None where it is zero."""
        key = (wanted, given, tuple(sorted(scalars.items())))
        with self._lock:
            if key not in self._gradients:
                text = _derive(self._definition, wanted, given, scalars)
                self._gradients[key] = Gradient(self.operator, text, given) if text else None
            return self._gradients[key]

    def scalars(self, inputs: Sequence[Any]) -> dict[str, int]:
        """The values that sizes depend on."""
        return {
            info.name: int(value)
            for info, value in zip(self._infos, inputs, strict=True)
            if info.is_specialized
        }

    def needs(self, wanted: Flags, inputs: Sequence[Any]) -> tuple[list[bool], list[int]]:
        """Of which inputs and which results derivatives need the values.

        What the derivative of all results reads is enough for each part of it.
        """
        whole = self.gradient(wanted, self._differentiable, self.scalars(inputs))
        if whole is None:
            return [False] * len(inputs), []
        return whole.reads, whole.saved

    def pull_back(
        self,
        wanted: Flags,
        inputs: Sequence[Any],
        saved: Sequence[torch.Tensor],
        gradients: Sequence[torch.Tensor | None],
    ) -> Sequence[torch.Tensor | None]:
        """Gradients of the inputs from those of the results.

        Inputs that ``needs`` does not name count for their sizes only; ``saved`` are the results
        that it names, in its order.
        """
        given = tuple(
            gradient is not None and differentiable
            for gradient, differentiable in zip(gradients, self._differentiable, strict=True)
        )
        part, places = self._part(wanted, given, self.scalars(inputs))
        if part is None:
            return [None] * len(inputs)
        rest = [saved[k] for k in places]
        rest += [dense(g) for g, use in zip(gradients, given, strict=True) if use and g is not None]
        return part([*inputs, *(v.reshape(1) if v.dim() == 0 else v for v in rest)])

    def part(
        self, wanted: Flags, given: Flags, inputs: Sequence[Any]
    ) -> tuple[str, list[int], list[int]] | None:
        """The operator that ``pull_back`` calls for these results; None where nothing is reached.

        With it come the saved results that it reads, and for each input the place of its gradient
        among the operator's results, -1 where there is none.
        """
        part, places = self._part(wanted, given, self.scalars(inputs))
        if part is None:
            return None
        return part._function.name, places, [-1 if k is None else k for k in part.places]

    def _part(
        self, wanted: Flags, given: Flags, scalars: dict[str, int]
    ) -> tuple[Gradient | None, list[int]]:
        """The derivative of some results, and which of those that were saved it reads."""
        part = self.gradient(wanted, given, scalars) if any(given) else None
        if part is None:
            return None, []
        # The whole derivative, whose results were saved, may read more of them.
        whole = self.gradient(wanted, self._differentiable, scalars)
        saved = whole.saved if whole is not None else []
        return part, [saved.index(k) for k in part.saved]

    def keeping(self, inputs: Sequence[Any]) -> Derivable | None:
        """The definition with more results, which its derivative would compute again otherwise.

        None where there are none, and where its options are a user's.
        """
        if self._looked or len(inputs) != len(self._infos):
            return self._keeping
        with self._lock:
            if not self._looked and self._registration.scheduling.text == str(MappingOptions()):
                self._keeping = self._find_keeping(inputs)
            self._looked = True
            self._record.asks = self._keeping is not None
        return self._keeping

    def _find_keeping(self, inputs: Sequence[Any]) -> Derivable | None:
        definition = self._definition
        try:
            text = definition.keeping_text(_values(definition, self.scalars(inputs)))
        except TCError:
            return None  # the derivative that is asked for says what is wrong
        return Derivable.of(self.operator.derive(text, "tc_keep"), hold=True) if text else None

    def __call__(self, *inputs: Any) -> Any:
        # Calls that are not recorded, and definitions found to have nothing to keep, end here.
        results = self._record(*inputs)
        if results is not NotImplemented:
            return results
        if (
            self._record.asks
            and self._registration.is_public
            and not _may_carry_tangents()
            and _wants_gradients(inputs)
        ):
            keeping = self.keeping(inputs)
            if keeping is not None:
                results = keeping(*inputs)[: self._count]
                return results[0] if self._count == 1 else results
        results = self._record.record(*inputs)
        if results is not NotImplemented:
            return results
        if records(inputs):
            return _Differentiated.apply(self, *cast_for_autocast(self.operator, inputs))
        return self.operator(*inputs)


def _may_carry_tangents() -> bool:
    return (
        forward_ad._current_level >= 0 or torch._C._functorch.peek_interpreter_stack() is not None
    )


def records(inputs: Sequence[object]) -> bool:
    """Whether a call leaves a trace for derivatives; without, a Function only costs time."""
    return _may_carry_tangents() or _wants_gradients(inputs)


def _wants_gradients(inputs: Sequence[object]) -> bool:
    return torch.is_grad_enabled() and any(
        isinstance(value, torch.Tensor) and value.requires_grad for value in inputs
    )


def is_autocast(value: Any) -> bool:
    """Whether autocast is on where a tensor lies, and converts ones of its type."""
    return (
        isinstance(value, torch.Tensor)
        and torch.is_autocast_enabled(value.device.type)
        and value.dtype in (torch.float16, torch.bfloat16, torch.float32)
    )


def cast_for_autocast(operator: Operator, inputs: tuple) -> tuple:
    """What the operator's own rule for autocast would make of its inputs.

    The derivative runs outside of autocast on what the forward saved, which must have these types.
    """
    if not torch.is_autocast_enabled("cpu") and not torch.is_autocast_enabled("cuda"):
        return inputs
    cast = []
    for info, value in zip(operator.definition.inputs, inputs, strict=False):
        takes = info.dtype.is_floating_point and not info.is_scalar
        cast.append(value.to(info.dtype) if takes and is_autocast(value) else value)
    return (*cast, *inputs[len(cast) :])


def dense(gradient: torch.Tensor) -> torch.Tensor:
    """With every element in a place of its own and none in between, in any order of the dimensions.

    ``sum().backward()`` sends gradients of stride 0, parts of a tensor send what lies apart: one
    more kernel would be compiled for each.
    """
    kept = is_non_overlapping_and_dense_or_false(gradient)
    return gradient if kept else gradient.contiguous()


class _Differentiated(torch.autograd.Function):
    """A definition under autograd, its derivatives derived."""

    #: The batches of forward and backward are those of the definitions they run.
    generate_vmap_rule = True

    @staticmethod
    def forward(derivable: Derivable, *inputs: object) -> object:
        return derivable.operator(*inputs)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple, output: object) -> None:
        derivable, *values = inputs
        outputs = output if isinstance(output, tuple) else (output,)
        ctx.set_materialize_grads(False)
        ctx.derivable = derivable
        ctx.scalars = derivable.scalars(values)
        ctx.wanted = tuple(
            needed and isinstance(value, torch.Tensor) and value.is_floating_point()
            for needed, value in zip(ctx.needs_input_grad[1:], values, strict=True)
        )
        ctx.gradients_of = tuple(value.is_floating_point() for value in outputs)
        # Of inputs that are not read the sizes are kept, not the memory. Where tangents may follow,
        # torch.func wants one list for both; of a subclass, as a DTensor, the sizes are not all
        # that there is to know.
        everything = _may_carry_tangents()
        ctx.values = []
        saved: list[torch.Tensor] = []
        reads, results = derivable.needs(ctx.wanted, values)
        for value, read in zip(values, reads, strict=True):
            if not isinstance(value, torch.Tensor):
                ctx.values.append(("value", value))
            elif read or everything or type(value) not in (torch.Tensor, torch.nn.Parameter):
                ctx.values.append(("saved", len(saved)))
                saved.append(value)
            else:
                ctx.values.append(("sizes", (value.shape, value.dtype, value.device)))
        ctx.outputs = {}
        for k in range(len(outputs)) if everything else results:
            ctx.outputs[k] = len(saved)
            saved.append(outputs[k])
        ctx.results = results
        ctx.save_for_backward(*saved)
        if everything:
            ctx.save_for_forward(*saved)

    @staticmethod
    def jvp(ctx: Any, _: None, *tangents: torch.Tensor | None) -> object:
        saved = ctx.saved_tensors
        inputs = [saved[what] if kind == "saved" else what for kind, what in ctx.values]
        outputs = [saved[place] for place in ctx.outputs.values()]
        wanted = tuple(
            tangent is not None and value.is_floating_point()
            for value, tangent in zip(inputs, tangents, strict=True)
        )
        gradient = ctx.derivable.gradient(wanted, ctx.gradients_of, ctx.scalars)
        found = iter(())
        if gradient is not None:
            rest = [outputs[k] for k in gradient.saved]
            # In the places of gradients, of which only sizes matter.
            rest += [o for o, use in zip(outputs, ctx.gradients_of, strict=True) if use]
            arguments = [*inputs, *(v.reshape(1) if v.dim() == 0 else v for v in rest)]
            found = iter(gradient.transpose(arguments, tangents))
        results = []
        for output, use in zip(outputs, ctx.gradients_of, strict=True):
            moved = next(found, None) if use else None
            if moved is not None:
                results.append(moved.reshape(output.shape))
            else:
                # A result that no tangent reaches stands still.
                results.append(torch.zeros_like(output) if use else None)
        return results[0] if len(results) == 1 else tuple(results)

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> tuple:
        saved = ctx.saved_tensors
        inputs = []
        for kind, what in ctx.values:
            if kind == "sizes":
                sizes, dtype, device = what
                inputs.append(torch.empty((), dtype=dtype, device=device).expand(sizes))
            else:
                inputs.append(saved[what] if kind == "saved" else what)
        results = [saved[ctx.outputs[k]] for k in ctx.results]
        return (None, *ctx.derivable.pull_back(ctx.wanted, inputs, results, gradients))
