"""From a text to operators of PyTorch."""

from __future__ import annotations

import functools
import hashlib
import keyword
import logging
import re
import threading
import warnings
from collections.abc import Callable

import torch

from tensor_comprehensions import _torch
from tensor_comprehensions._errors import TCError
from tensor_comprehensions._options import MappingOptions, to_options

logger = logging.getLogger("tensor_comprehensions")

# Words that PyTorch's schema parser or Python keep for themselves.
_RESERVED = {*keyword.kwlist, "in", "self", "Tensor", "int", "float", "bool", "str", "Scalar"}
_OUT_ARGUMENT = re.compile(r"^[A-Za-z_][A-Za-z0-9_]*$")


@functools.lru_cache(maxsize=1024)
def parse(source: str) -> _torch.ParsedText:
    """The checked definitions of a text; warnings are logged once."""
    parsed = _torch.parse(source)
    for message in parsed.warnings:
        logger.warning("%s", message)
    return parsed


def find_definition(source: str, entry_point: str) -> _torch.Definition:
    """A definition of a text by name; TCError that lists the others."""
    definitions = parse(source).definitions
    for definition in definitions:
        if definition.name == entry_point:
            return definition
    known = ", ".join(d.name for d in definitions)
    raise TCError(
        f"attempting to access undefined function {entry_point}; the text defines: {known}"
    )


def _identifier(name: str) -> str:
    """A name that schemas accept; TC names may begin with a digit or be Python's words."""
    if _OUT_ARGUMENT.match(name) and name not in _RESERVED:
        return name
    return f"arg_{name}"


def _schema_type(info: _torch.ArgumentInfo) -> str:
    if not info.is_scalar:
        return "Tensor"
    if info.dtype == torch.bool:
        return "bool"
    return "float" if info.dtype.is_floating_point else "int"


class _Names:
    """Schema names of a definition's arguments; a tensor may be input and size at once."""

    def __init__(self, definition: _torch.Definition) -> None:
        self.inputs = [_identifier(info.name) for info in definition.inputs]
        self.outputs = []
        for info in definition.outputs:
            name = _identifier(info.name)
            self.outputs.append(f"{name}_out" if name in self.inputs else name)


def _schemas(definition: _torch.Definition, name: str) -> tuple[str, str]:
    names = _Names(definition)
    inputs = [
        f"{_schema_type(info)} {n}" for info, n in zip(definition.inputs, names.inputs, strict=True)
    ]
    initial = [
        f"Tensor {n}"
        for info, n in zip(definition.outputs, names.outputs, strict=True)
        if info.accumulates
    ]
    results = ["Tensor"] * len(definition.outputs)
    returns = results[0] if len(results) == 1 else f"({', '.join(results)})"
    outs = [f"Tensor({chr(ord('a') + k)}!) {n}" for k, n in enumerate(names.outputs)]
    functional = f"{name}({', '.join(inputs + initial)}) -> {returns}"
    separator = ", *, " if inputs else "*, "
    out = f"{name}.out({', '.join(inputs)}{separator}{', '.join(outs)}) -> ()"
    return functional, out


class _Shapes:
    """Sizes of results from sizes of inputs, for fake tensors: plain or symbolic integers."""

    def __init__(self, definition: _torch.Definition) -> None:
        self._definition = definition
        self._by_scalars: dict[tuple, list] = {}

    def _expressions(self, scalars: tuple, inputs: tuple) -> list:
        if scalars not in self._by_scalars:
            values = [x if isinstance(x, (int, bool)) else 0 for x in inputs]
            self._by_scalars[scalars] = [
                [
                    self._compile(self._definition.size_expression(values, output, d))
                    for d in range(info.ndim)
                ]
                for output, info in enumerate(self._definition.outputs)
            ]
        return self._by_scalars[scalars]

    def _compile(self, expression: str) -> Callable[[dict], object]:
        # Size names may begin with a digit, which Python's do not.
        text = re.sub(r"\b(\d\w*[A-Za-z_]\w*)", r"_\1", expression)
        code = compile(text, "<size>", "eval")
        return lambda sizes: eval(code, {"__builtins__": {}}, sizes)  # noqa: S307

    def __call__(self, inputs: tuple) -> list[list]:
        sizes: dict[str, object] = {"min": torch.sym_min, "max": torch.sym_max}
        scalars = []
        for k, info in enumerate(self._definition.inputs):
            if info.is_specialized:
                scalars.append(inputs[k])
                continue
            for d in range(info.ndim):
                name = self._definition.input_dimension(k, d)
                if not name.isdigit():
                    sizes.setdefault(f"_{name}" if name[0].isdigit() else name, inputs[k].shape[d])
        expressions = self._expressions(tuple(scalars), inputs[: len(self._definition.inputs)])
        return [[size(sizes) for size in output] for output in expressions]


def _fake(definition: _torch.Definition) -> Callable:
    shapes = _Shapes(definition)

    def fake(*inputs: object) -> object:
        tensors = [x for x in inputs if isinstance(x, torch.Tensor)]
        device = tensors[0].device if tensors else torch.device("cpu")
        results = tuple(
            torch.empty(size, dtype=info.dtype, device=device)
            for size, info in zip(shapes(inputs), definition.outputs, strict=True)
        )
        return results[0] if len(results) == 1 else results

    return fake


def _fake_out(*inputs: object, **outputs: object) -> None:
    """Outputs keep their sizes; a real call checks them."""


class Callable_:  # noqa: N801
    """One definition of a text, ready to be called; the attribute T.f."""

    def __init__(
        self, definition: _torch.Definition, operator: _torch.Operator, overload: object
    ) -> None:
        self.definition = definition
        self._operator = operator
        self._overload = overload
        self.__name__ = definition.name
        self.__doc__ = definition.text
        self._accumulates = [info.accumulates for info in definition.outputs]
        # Everything but numbers for scalars can go to the operator as it is.
        self._simple = not any(self._accumulates) and not any(
            info.is_scalar for info in definition.inputs
        )

    def __call__(self, *inputs: object, outputs: object = None, unchecked: bool = False) -> object:
        """Runs on tensors, and numbers for scalars.

        One result is returned as a tensor, several as a tuple. ``outputs`` are written when given.
        ShapeError names the argument that does not fit, what was expected and what came.
        """
        if outputs is None and self._simple:
            try:
                return self._overload(*inputs)
            except TCError:
                raise
            except (RuntimeError, TypeError) as error:
                self._explain(inputs, error)
                raise
        return self.run(inputs, outputs, unchecked)

    def _explain(self, inputs: tuple, error: Exception) -> None:
        """PyTorch's complaint about an argument, in our words where it is about the definition."""
        from tensor_comprehensions._errors import ShapeError

        infos = self.definition.inputs
        if len(inputs) != len(infos):
            raise ShapeError(
                f"{self.definition.name} expected {len(infos)} inputs but found {len(inputs)}"
            ) from error
        for info, value in zip(infos, inputs, strict=True):
            if not info.is_scalar and not isinstance(value, torch.Tensor):
                raise ShapeError(
                    f"argument {info.name}: expected a tensor but got {type(value).__name__}"
                ) from error
            if isinstance(value, torch.Tensor) and value.layout != torch.strided:
                raise ShapeError(
                    f"argument {info.name}: expected a strided tensor but got layout "
                    f"{value.layout}; call to_dense() on it"
                ) from error
            if isinstance(value, torch.Tensor) and value.device.type not in ("cpu", "cuda", "meta"):
                raise ShapeError(
                    f"argument {info.name}: expected a tensor on the CPU or a CUDA device but got "
                    f"{value.device}"
                ) from error

    def run(self, inputs: tuple, outputs: object = None, unchecked: bool = False) -> object:
        from tensor_comprehensions._errors import ShapeError

        inputs = tuple(inputs)
        if outputs is None:
            if any(self._accumulates):
                names = ", ".join(o.name for o in self.definition.outputs if o.accumulates)
                raise ShapeError(
                    f"{self.definition.name} reads the initial contents of {names}: pass "
                    f"outputs=({', '.join(o.name for o in self.definition.outputs)},), or write "
                    f"+=! to begin from zero"
                )
            return self._functional(inputs)
        if isinstance(outputs, torch.Tensor):
            outputs = (outputs,)
        outputs = tuple(outputs)
        for info, output in zip(self.definition.outputs, outputs, strict=False):
            if not isinstance(output, torch.Tensor):
                raise ShapeError(
                    f"output {info.name}: expected a tensor but got {type(output).__name__}"
                )
            if torch.is_grad_enabled() and output.requires_grad and output.is_leaf:
                raise TCError(
                    f"output {info.name} is a leaf that requires gradients; write into "
                    f"{info.name}.detach() or call under torch.no_grad()"
                )
        if len(outputs) != len(self.definition.outputs):
            raise ShapeError(
                f"{self.definition.name} expected {len(self.definition.outputs)} outputs but "
                f"found {len(outputs)}"
            )
        self._operator.call_out(inputs, outputs, unchecked)
        for output in outputs:
            torch.autograd.graph.increment_version(output)
        return outputs[0] if len(outputs) == 1 else outputs

    def _functional(self, inputs: tuple) -> object:
        infos = self.definition.inputs
        if len(inputs) != len(infos):
            self._explain(inputs, TCError("wrong number of inputs"))
        values = [
            value.item() if info.is_scalar and isinstance(value, torch.Tensor) else value
            for info, value in zip(infos, inputs, strict=True)
        ]
        if self._overload is not None:
            try:
                return self._overload(*values)
            except TCError:
                raise
            except (RuntimeError, TypeError) as error:
                self._explain(inputs, error)
                raise
        # An executor has no operator of its own in torch.ops.
        sizes = _Shapes(self.definition)(tuple(values))
        device = next((x.device for x in values if isinstance(x, torch.Tensor)), "cpu")
        outputs = tuple(
            torch.empty(size, dtype=info.dtype, device=device)
            for size, info in zip(sizes, self.definition.outputs, strict=True)
        )
        self._operator.call_out(inputs, outputs, True)
        return outputs[0] if len(outputs) == 1 else outputs

    def __repr__(self) -> str:
        return f"<tensor comprehension {self.__name__}>"


class _Registry:
    """Operators of this process: names in torch.ops are for ever."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        # namespace::name -> (text, options identity) that has it
        self.owners: dict[str, tuple[str, object]] = {}
        self.callables: dict[tuple, Callable_] = {}

    def get(
        self, definition: _torch.Definition, namespace: str, options: object, factory: object
    ) -> Callable_:
        name = _identifier(definition.name)
        # Options are compared by value, factories by identity.
        identity = (definition.text, str(options) if options is not None else None, factory)
        key = (namespace, name, *identity)
        with self.lock:
            if key in self.callables:
                return self.callables[key]
            public = f"{namespace}::{name}"
            owner = self.owners.get(public)
            registered = name
            if owner is None:
                self.owners[public] = identity
            else:
                if owner[0] != definition.text:
                    warnings.warn(
                        f"torch.ops.{namespace}.{name} already belongs to another text and stays "
                        f"with it; T.{definition.name} runs the new one. Pass namespace= to "
                        f"tc.define to register it under a name of its own",
                        stacklevel=4,
                    )
                digest = hashlib.sha256(repr((identity[:2], id(factory))).encode()).hexdigest()
                registered = f"{name}__{digest[:12]}"
            self.callables[key] = self._register(
                definition, namespace, registered, options, factory
            )
            return self.callables[key]

    def _register(
        self,
        definition: _torch.Definition,
        namespace: str,
        name: str,
        options: MappingOptions | None,
        factory: Callable | None,
    ) -> Callable_:
        choose = None
        if factory is not None:
            choose = factory
        elif options is not None:
            choose = lambda *_: options._options  # noqa: E731
        operator = _torch.Operator(definition, choose)
        schema, out_schema = _schemas(definition, name)
        operator.register(namespace, schema, out_schema)
        torch.library.register_fake(f"{namespace}::{name}", _fake(definition))
        torch.library.register_fake(f"{namespace}::{name}.out", _fake_out)
        packet = getattr(getattr(torch.ops, namespace), name)
        return Callable_(definition, operator, packet.default)


_registry = _Registry()


class TC:
    """The definitions of one text; each is an attribute of its name."""

    def __init__(self, source: str, callables: dict[str, Callable_]) -> None:
        self._source = source
        self._callables = callables

    def __getattr__(self, name: str) -> Callable_:
        callables = self.__dict__.get("_callables", {})
        if name in callables:
            return callables[name]
        if name.startswith("__"):
            raise AttributeError(name)
        raise AttributeError(
            f"attempting to access undefined function {name}; the text defines: "
            f"{', '.join(callables)}"
        )

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *self._callables]

    def __call__(self, entry_point: str, *inputs: object, **keywords: object) -> object:
        """T("f", A, B) is T.f(A, B)."""
        return getattr(self, entry_point)(*inputs, **keywords)

    def __repr__(self) -> str:
        return f"<TC: {', '.join(self._callables)}>"


def _make_factory(source: str, entry_point: str, factory: Callable) -> Callable:
    """Wraps a user's factory(source, entry_point, *inputs) for the core."""

    def choose(*inputs: object) -> object:
        options = to_options(factory(source, entry_point, *inputs))
        if options is None:
            raise TCError(
                f"the options factory returned None for {entry_point}; it must return "
                f"MappingOptions or a preset name"
            )
        return options._options

    return choose


_factories: dict[tuple, Callable] = {}


def define(
    source: str, options: object = None, *, namespace: str = "tc", cache: str | None = None
) -> TC:
    """Parses and checks a text and registers an operator for each of its definitions.

    ``options`` is None (the compiler chooses), a preset's name, MappingOptions, or a factory
    ``(source, entry_point, *inputs) -> MappingOptions`` that is asked once for each set of sizes,
    strides and dtypes. Operators appear as ``torch.ops.<namespace>.<name>``; where another text has
    the name already it keeps it, with a warning. LanguageError where the text is wrong.
    """
    if not isinstance(source, str):
        raise TypeError(f"a text was expected, not {type(source).__name__}")
    if not _OUT_ARGUMENT.match(namespace):
        raise TCError(f"namespace {namespace!r} is no identifier")
    if cache is not None:
        raise TCError("reading tuned options from a file (cache=) is not available in this version")
    is_factory = callable(options) and not isinstance(options, (MappingOptions, str))
    fixed = None if is_factory else to_options(options)
    callables = {}
    for definition in parse(source).definitions:
        factory = None
        if is_factory:
            key = (options, source, definition.name)
            factory = _factories.setdefault(key, _make_factory(source, definition.name, options))
        callables[definition.name] = _registry.get(definition, namespace, fixed, factory)
    return TC(source, callables)


def make_naive_options_factory() -> Callable:
    """A factory for ``define`` that gives the naive options for everything."""

    def factory(source: str, entry_point: str, *inputs: object) -> MappingOptions:
        return MappingOptions("naive")

    return factory
