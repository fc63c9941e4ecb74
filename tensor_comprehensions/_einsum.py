"""Extended einsum: equations whose indices may be sums of labels, integers and table lookups."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

import torch
from torch._C._functorch import is_functorch_wrapped_tensor
from torch.utils._python_dispatch import _disable_current_modes

from tensor_comprehensions import _torch
from tensor_comprehensions._define import make_operator
from tensor_comprehensions._errors import ShapeError, TCError
from tensor_comprehensions._forks import looking
from tensor_comprehensions._gradients import is_autocast
from tensor_comprehensions._sharding import replicate_like

#: Plans that are kept, one for each equation with the sizes and dtypes of its operands.
_MOST_PLANS = 4096

Shapes = Sequence[tuple[Sequence[int], torch.dtype]]
Run = Callable[..., torch.Tensor]


def _find_path(equation: _torch.Einsum, count: int) -> list[list[int]]:
    """The order in which to multiply more than two operands, by opt_einsum."""
    if count < 3:
        return []
    from opt_einsum import paths  # type: ignore[import-untyped]

    *operands, output = [frozenset(labels) for labels in equation.labels()]
    sizes = dict(enumerate(equation.extents()))
    return [list(step) for step in paths.auto(operands, output, sizes)]


def _source(
    equation: str, shapes: Shapes, tables: dict[str, torch.Tensor]
) -> tuple[str, list[int], list[str]]:
    """The text, the values of its scalars, and its tables in order."""
    found = _torch.Einsum(
        equation,
        [([int(size) for size in sizes], dtype) for sizes, dtype in shapes],
        [(name, table.detach().cpu()) for name, table in tables.items()],
    )
    text, scalars = found.source(_find_path(found, len(shapes)))
    return text, scalars, found.tables()


class _Snapshot:
    """Says whether a table is the same, with the same contents, as when it was looked at."""

    def __init__(self, table: torch.Tensor) -> None:
        self._table = weakref.ref(table)
        # Tensors made in inference mode do not count their changes.
        self._version: int | None = None if table.is_inference() else table._version

    def holds(self, table: object) -> bool:
        return (
            self._version is not None
            and isinstance(table, torch.Tensor)  # not None, which a table that is gone leaves
            and self._table() is table
            and self._version == table._version
        )


def _refuse_table(name: str) -> NoReturn:
    raise ShapeError(
        f"einsum: table {name} is a tensor whose values are not known here: it is fake, on the "
        f"meta device, a DTensor, or a graph is made; what a table holds decides ranges, so pass "
        f"a list"
    )


def _has_values(table: torch.Tensor) -> bool:
    """Not of fake tensors, DTensors and other subclasses that hold none themselves."""
    return not table.is_meta and not torch._C._dispatch_keys(table).has(torch._C.DispatchKey.Python)


def _as_indices(table: torch.Tensor, device: torch.device) -> torch.Tensor:
    return table.detach().to(device, torch.int32, copy=True).contiguous()


class _Plan:
    """How to compute an equation for operands of certain sizes and dtypes on one device."""

    def __init__(self, equation: str, shapes: Shapes, device: torch.device) -> None:
        self._equation = equation
        self._shapes = shapes
        self._device = device
        self._scalar_operands = [k for k, (sizes, _) in enumerate(shapes) if len(sizes) == 0]
        self._state: tuple[Any, ...] | None = None

    def _look_at(self, tables: dict[str, Any]) -> tuple[Any, ...]:
        """Checks the tables' contents and finds the operator for them."""
        for name, table in tables.items():
            if not isinstance(table, torch.Tensor):
                continue
            if not _has_values(table):
                _refuse_table(name)
            if is_functorch_wrapped_tensor(table):
                raise ShapeError(
                    f"einsum: table {name} is one of a batch, or differentiated; what a table "
                    f"holds decides ranges, so pass a tensor from outside of torch.func's transform"
                )
        # Copies that are kept must not belong to a transform or a mode that is running, nor be
        # tensors that autograd refuses to save.
        with (
            looking,
            _disable_current_modes(),
            torch._C._DisableFuncTorch(),
            torch.inference_mode(False),
        ):
            tables = _as_tables(tables)
            snapshots = [(name, _Snapshot(table)) for name, table in tables.items()]
            text, scalars, order = _source(self._equation, self._shapes, tables)
            # Without the warnings of `parse`: nobody has written this text.
            operator = make_operator(_torch.parse(text).definitions[0], "tc")
            # Copies: what was checked is what kernels read.
            indices = tuple(_as_indices(tables[name], self._device) for name in order)
            self._state = (snapshots, operator.differentiate, (*indices, *scalars))
            return self._state

    def __call__(self, operands: Sequence[torch.Tensor], tables: dict[str, Any]) -> torch.Tensor:
        state = self._state
        if state is None or len(state[0]) != len(tables):
            state = self._look_at(tables)
        else:
            for name, snapshot in state[0]:
                if name not in tables or not snapshot.holds(tables[name]):
                    state = self._look_at(tables)
                    break
        run: Run
        _, run, rest = state
        if tables:
            for x in operands:
                if type(x) not in _PLAIN:
                    rest = _like_operands(rest, operands)
                    break
        if self._scalar_operands:
            operands = list(operands)
            for k in self._scalar_operands:
                operands[k] = operands[k].reshape(1)
        return run(*operands, *rest)


#: What takes indices as they are beside it.
_PLAIN = (torch.Tensor, torch.nn.Parameter)


def _like_operands(rest: tuple[Any, ...], operands: Sequence[torch.Tensor]) -> tuple[Any, ...]:
    """Indices as what stands beside them: DTensors, or tensors of the mode that is running."""
    values = []
    for value in rest:
        if isinstance(value, torch.Tensor):
            whole = replicate_like(value, operands)
            if whole is value:
                with _disable_current_modes():
                    contents = value.tolist()
                whole = torch.tensor(contents, dtype=value.dtype, device=value.device)
            value = whole
        values.append(value)
    return tuple(values)


_plans: dict[tuple[Any, ...], _Plan] = {}


def _letters(labels: Any) -> str:
    """A sublist of torch.einsum as part of an equation."""
    if not isinstance(labels, (list, tuple, range)):
        raise TCError(
            f"einsum: {type(labels).__name__} in the place of a sublist, a list of labels"
        )
    text = ""
    for label in labels:
        if label is Ellipsis:
            text += "..."
        elif isinstance(label, int) and 0 <= label < 52:
            text += chr(ord("A") + label) if label < 26 else chr(ord("a") + label - 26)
        else:
            raise TCError(f"einsum: {label!r} in a sublist; labels are integers from 0 to 51")
    return text


def _join_sublists(arguments: tuple[Any, ...]) -> tuple[str, tuple[Any, ...]]:
    """Operands and sublists by turns, as an equation and the operands."""
    if len(arguments) < 2:
        raise TCError("einsum: an equation was expected, or operands each with its sublist")
    equation = ",".join(_letters(labels) for labels in arguments[1::2][: len(arguments) // 2])
    if len(arguments) % 2:
        equation += "->" + _letters(arguments[-1])
    return equation, arguments[: len(arguments) // 2 * 2 : 2]


def _as_table(name: str, table: Any) -> torch.Tensor:
    if not isinstance(table, torch.Tensor):
        try:
            # Whatever device is the default.
            made = torch.as_tensor(table, device="cpu")
            # To PyTorch a list of nothing is one of floats.
            return made if made.numel() or hasattr(table, "dtype") else made.to(torch.int64)
        except (TypeError, ValueError, RuntimeError) as error:
            raise ShapeError(
                f"einsum: table {name}: expected a tensor, list or array of integers but got "
                f"{type(table).__name__}: {error}"
            ) from error
    if table.layout != torch.strided:
        raise ShapeError(
            f"einsum: table {name}: expected a strided tensor but got layout {table.layout}; call "
            f"to_dense() on it"
        )
    return table


def _as_tables(tables: dict[str, object]) -> dict[str, torch.Tensor]:
    return {name: _as_table(name, table) for name, table in tables.items()}


def _arguments(equation: object, operands: tuple[Any, ...]) -> tuple[str, tuple[Any, ...]]:
    """The equation as a string and the operands, whatever way they were passed in."""
    if not isinstance(equation, str):
        equation, operands = _join_sublists((equation, *operands))
    elif len(operands) == 1 and isinstance(operands[0], (list, tuple)):
        operands = tuple(operands[0])
    for k, operand in enumerate(operands):
        if not isinstance(operand, torch.Tensor):
            raise ShapeError(
                f"einsum: operand {k}: expected a tensor but got {type(operand).__name__}"
            )
        if operand.layout != torch.strided:
            raise ShapeError(
                f"einsum: operand {k}: expected a strided tensor but got layout "
                f"{operand.layout}; call to_dense() on it"
            )
        if operand.device != operands[0].device:
            raise ShapeError(
                f"einsum: operand {k} is on {operand.device} but operand 0 is on "
                f"{operands[0].device}; move one of them"
            )
    return equation, operands


def _plan_for(
    equation: str, operands: Sequence[torch.Tensor], shapes: tuple[Any, ...] = ()
) -> _Plan:
    shapes = shapes or _fixed_shapes(operands)
    device = operands[0].device if operands else torch.device("cpu")
    plan = _plans.get((equation, shapes, device))
    if plan is None:
        plan = _Plan(equation, shapes, device)
        if len(_plans) >= _MOST_PLANS:
            _plans.clear()
        _plans[equation, shapes, device] = plan
    return plan


def _fixed_shapes(operands: Sequence[torch.Tensor]) -> tuple[Any, ...]:
    """A text is one for certain sizes, so a graph becomes one for these as well."""
    return tuple((tuple(int(size) for size in x.shape), x.dtype) for x in operands)


def _without_tables(equation: str, *operands: torch.Tensor) -> torch.Tensor:
    operands = _for_autocast(operands)
    return _plan_for(equation, operands, _fixed_shapes(operands))(operands, {})


_in_graph: Run = torch.compiler.allow_in_graph(_without_tables)


def _is_constant(table: object) -> bool:
    """Whether a table is of Python's lists, tuples and integers."""
    if isinstance(table, (list, tuple)):
        return all(_is_constant(part) for part in table)
    return isinstance(table, int)


def _as_tuples(table: Any) -> Any:
    return tuple(_as_tuples(part) for part in table) if isinstance(table, (list, tuple)) else table


def _with_constants(
    equation: str, tables: tuple[tuple[str, Any], ...], *operands: torch.Tensor
) -> torch.Tensor:
    operands = _for_autocast(operands)
    values = dict(tables)
    # What is looked at holds values, which tensors of a graph in the making do not.
    with _disable_current_modes(), torch._C._DisableFuncTorch():
        text, scalars, order = _source(equation, _fixed_shapes(operands), _as_tables(values))
        operator = make_operator(_torch.parse(text).definitions[0], "tc")
    device = operands[0].device
    rest = [
        replicate_like(torch.tensor(values[name], dtype=torch.int32, device=device), operands)
        for name in order
    ]
    arguments = [x.reshape(1) if x.dim() == 0 else x for x in operands]
    return operator.differentiate(*arguments, *rest, *scalars)


_constants_in_graph: Run = torch.compiler.allow_in_graph(_with_constants)


def _run_outside_graph(
    equation: str, operands: tuple[Any, ...], tables: dict[str, torch.Tensor]
) -> torch.Tensor:
    operands = _for_autocast(operands)
    return _plan_for(equation, operands)(operands, tables)


_outside_graph: Run = torch.compiler.disable(
    _run_outside_graph,
    reason="einsum: what a table holds decides sizes, which a graph cannot know of a tensor; pass "
    "tables as lists, which become part of it, or call a definition with tables as inputs",
)


def _for_autocast(operands: tuple[torch.Tensor, ...]) -> tuple[torch.Tensor, ...]:
    """Operands of products in autocast's dtype, which ``torch.einsum`` computes in as well."""
    if len(operands) < 2:
        return operands
    return tuple(
        x.to(torch.get_autocast_dtype(x.device.type)) if is_autocast(x) else x for x in operands
    )


def einsum(equation: Any, /, *operands: Any, **tables: Any) -> torch.Tensor:
    """Sums products of operands over the labels that the output leaves out.

    Everything that ``torch.einsum`` takes means the same: ``"...ij, ...jk -> ...ik"``, repeated
    labels, an output left out, sublists. In parentheses the index of an operand may be a sum of
    terms, each a label, an integer times a label, an integer, or a table of integers looked up by
    labels: ``"nc(2*h+r)(w+sw[c]), ckr -> nkhw"`` with ``sw=`` a tensor. A label runs over the
    largest range for which every index stays inside, as in docs/language.md.

    What tables hold is checked when they are first used, and again when PyTorch counts a change.
    Operands have one dtype, which the result has too; products are summed in float for half and
    bfloat16. Integers of a single operand are summed into int64.

    LanguageError where the equation is wrong, with its place; ShapeError where operands or tables
    do not fit it.
    """
    if torch.compiler.is_compiling():
        equation, operands = _arguments(equation, operands)
        if tables:
            if all(_is_constant(table) for table in tables.values()):
                constants = tuple((name, _as_tuples(table)) for name, table in tables.items())
                return _constants_in_graph(equation, constants, *operands)
            if not torch.compiler.is_dynamo_compiling():  # torch.export, which breaks no graph
                _refuse_table(next(name for name, t in tables.items() if not _is_constant(t)))
            return _outside_graph(equation, operands, tables)
        return _in_graph(equation, *operands)
    if torch._C._is_any_autocast_enabled():
        equation, operands = _arguments(equation, operands)
        operands = _for_autocast(operands)
    plan = None
    if type(equation) is str:
        try:
            shapes = tuple([(x.shape, x.dtype) for x in operands])
            plan = _plans.get((equation, shapes, operands[0].device))
        except (AttributeError, IndexError, TypeError):
            pass  # said below, in words, but for sizes that are symbols
    if plan is None:
        equation, operands = _arguments(equation, operands)
        plan = _plan_for(equation, operands)
    try:
        return plan(operands, tables)
    except RuntimeError:
        _arguments(equation, operands)  # whose words are the equation's, not the definition's
        raise


def arguments(equation: Any, /, *operands: Any, **tables: Any) -> tuple[Any, ...]:
    """What the definition of ``einsum_source`` takes for these arguments."""
    equation, operands = _arguments(equation, operands)
    tables = _as_tables(tables)
    shapes = [(operand.shape, operand.dtype) for operand in operands]
    _, scalars, order = _source(equation, shapes, tables)
    values = (x.reshape(1) if x.dim() == 0 else x for x in operands)
    indices = (_as_indices(tables[name], operands[0].device) for name in order)
    return (*values, *indices, *scalars)


def einsum_source(equation: Any, /, *operands: Any, **tables: Any) -> str:
    """The text of Tensor Comprehensions that ``einsum`` runs for the same arguments."""
    equation, operands = _arguments(equation, operands)
    shapes = [(operand.shape, operand.dtype) for operand in operands]
    text, _, _ = _source(equation, shapes, _as_tables(tables))
    return _torch.format(text)
