"""Tuning of all that a model runs."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import torch

from tensor_comprehensions import _torch
from tensor_comprehensions._errors import CacheError, TCError
from tensor_comprehensions._options import MappingOptions
from tensor_comprehensions._parameters import plural
from tensor_comprehensions._tuning import ranks
from tensor_comprehensions._tuning.config import EFFORTS, TunerConfig
from tensor_comprehensions._tuning.problem import Problem, forms_of
from tensor_comprehensions._tuning.trials import Search
from tensor_comprehensions._tuning.tuner import run_search, tuned_plan

logger = logging.getLogger("tensor_comprehensions")

#: Seconds below which a search finds nothing.
_LEAST_SECONDS = 1.5


class Tuned(list[Search]):
    """The searches that ``tune`` made, by the share of time that their kernels had."""

    #: Of each, the share of the time of all kernels.
    shares: list[float]
    skipped: int = 0  #: kernels whose share was not worth a search

    def __init__(self, searches: Sequence[Search], shares: Sequence[float], skipped: int) -> None:
        super().__init__(searches)
        self.shares = list(shares)
        self.skipped = skipped

    def __str__(self) -> str:
        lines = [f"{share:6.1%}  {search}" for search, share in zip(self, self.shares, strict=True)]
        if self.skipped:
            lines.append(f"not tuned: {plural(self.skipped, 'kernel')} of small shares")
        return "\n".join(lines)

    __repr__ = __str__


def _tensors(value: Any) -> Iterator[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, Mapping):
        for each in value.values():
            yield from _tensors(each)
    elif isinstance(value, (list, tuple)):
        for each in value:
            yield from _tensors(each)


def _run(module: Callable[..., Any], inputs: tuple[Any, ...]) -> None:
    """A call, and the gradients of the sum of its results with respect to all that wants them."""
    results = [result for result in _tensors(module(*inputs)) if result.requires_grad]
    wanted = [x for x in _tensors(inputs) if x.requires_grad]
    if isinstance(module, torch.nn.Module):
        wanted += [parameter for parameter in module.parameters() if parameter.requires_grad]
    if results and wanted:
        torch.autograd.grad([result.sum() for result in results], wanted, allow_unused=True)


class _Kernel:
    """What a call has launched of one kernel."""

    def __init__(self, launched: Any) -> None:
        self.definition, self.options, self.inputs, self.outputs = launched[:4]
        self.seconds, self.count = launched[4:]

    def identity(self) -> str:
        """The same in every process that launches this, once a call of the model."""
        texts = [self.definition.text, self.definition.name, self.options]
        return "\n".join(texts + forms_of([*self.inputs, *self.outputs]))

    def problem(self) -> Problem:
        constraints = MappingOptions.parse(self.options) if self.options else MappingOptions()
        return Problem(
            self.definition.text, self.definition.name, self.inputs, constraints, self.outputs
        )


def _kernels(module: Callable[..., Any], inputs: tuple[Any, ...]) -> list[_Kernel]:
    """Those that a call reaches, the longest first."""
    _run(module, inputs)  # compiles
    _torch.recorded_launches()
    _torch.record_launches(True)
    try:
        for _ in range(3):
            _run(module, inputs)
    finally:
        _torch.record_launches(False)
        # Also where the model raises: what was recorded keeps tensors until it is taken.
        launches = _torch.recorded_launches()
    kernels = [_Kernel(launched) for launched in launches]
    return sorted(kernels, key=lambda kernel: -kernel.seconds)


def _use(problem: Problem, search: Search) -> None:
    """What was found holds in this process from now on."""
    if search.best is None or search.standard is None:
        return
    store = _torch.Store()
    store.add_tuning(*problem.key(), [tuned_plan(problem, search)], [])
    store.use()


def tune(
    module: Callable[..., Any],
    example_inputs: Sequence[Any] | torch.Tensor,
    *,
    budget_seconds: float | None = None,
    effort: str = "normal",
    cache: str | os.PathLike[str] | None = None,
    config: TunerConfig | None = None,
) -> Tuned:
    """Tunes every definition that a call of a model reaches, its derivatives among them.

    The model is called on ``example_inputs`` and, where results require gradients, differentiated;
    kernels that this launches are tuned by their share of the time, within one budget. Without
    ``budget_seconds`` that is the time of ``effort`` (``"quick"``, ``"normal"`` or ``"full"``) for
    each; 0 is no bound. Ctrl-C keeps what was found until then.

    What is found holds in this process from then on. ``cache`` is a file as ``save`` writes it: it
    gets the Plans, and the definitions that the model holds, so that ``load`` in another process
    runs the same. ``config`` says more about the searches; its budget is not looked at.
    """
    if effort not in EFFORTS:
        raise TCError(f"effort {effort!r}: expected one of {', '.join(EFFORTS)}")
    if budget_seconds is not None:
        TunerConfig().budget_seconds(budget_seconds)  # says what is wrong with it
    inputs = (example_inputs,) if isinstance(example_inputs, torch.Tensor) else (*example_inputs,)
    kernels = _kernels(module, inputs)
    if not kernels:
        raise TCError(
            "the call reached no definition: tune takes what calls T.f, torch.ops.tc.f or "
            "tensor_comprehensions.einsum, and inputs that lead there"
        )
    total = sum(kernel.seconds for kernel in kernels) or 1.0
    by_identity: dict[str, _Kernel] = {}
    shares: dict[str, float] = {}
    for kernel in kernels:
        identity = kernel.identity()
        by_identity.setdefault(identity, kernel)
        shares[identity] = shares.get(identity, 0.0) + kernel.seconds / total
    agreed = ranks.agree(shares)
    seconds = EFFORTS[effort][0] * len(kernels) if budget_seconds is None else budget_seconds
    searches: list[Search] = []
    tuned: list[float] = []
    skipped = len(by_identity) - len(agreed)
    for identity, share in agreed:
        kernel = by_identity[identity]
        # By default the longest gets more than its effort, and the shortest none.
        own = seconds * share
        if seconds > 0 and own < _LEAST_SECONDS:
            skipped += 1
            continue
        try:
            problem = kernel.problem()
            search = run_search(problem, _config(config, own, effort), (), cache)
        except CacheError:
            raise
        except TCError as error:
            logger.warning("%s is not tuned: %s", kernel.definition.name, error)
            skipped += 1
            continue
        _use(problem, search)
        searches.append(search)
        tuned.append(share)
        if search.ended == "interrupted":
            skipped = len(by_identity) - len(searches)
            break
    if cache is not None:
        _save(module, cache)
    return Tuned(searches, tuned, skipped)


def _config(given: TunerConfig | None, seconds: float, effort: str) -> TunerConfig:
    config = TunerConfig()
    if given is not None:
        config.__dict__.update(vars(given))
    return config.effort(effort).budget_seconds(seconds)


def _save(module: Callable[..., Any], cache: str | os.PathLike[str]) -> None:
    """The definitions that a model holds, beside their Plans."""
    from tensor_comprehensions._store import save

    try:
        save(cache, module)
    except (TypeError, CacheError) as error:
        logger.info("'%s' has the Plans alone: %s", os.fsdecode(cache), error)


__all__ = ["Tuned", "tune"]
