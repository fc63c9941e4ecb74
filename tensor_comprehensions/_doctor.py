"""What this installation is made of, and what of it works here."""

from __future__ import annotations

import importlib.metadata
import os
import platform
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

import tensor_comprehensions as tc
from tensor_comprehensions import _torch
from tensor_comprehensions._environment import VARIABLES

_PRODUCT = "def doctor(float(M,K) A, float(K,N) B) -> (C) { C(m,n) +=! A(m,k) * B(k,n) }"


def _version(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return "not installed"


def _first_line(error: Exception) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0]


def _operands() -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    return torch.randn(37, 37, generator=generator), torch.randn(37, 37, generator=generator)


def show_config() -> str:
    """Versions, the machine that decisions are made for, and variables that are set, as text."""
    try:
        explained = tc.compile(_PRODUCT, "doctor", None, *_operands()).explain()
        machine = next(line for line in explained.splitlines() if line.split()[:1] == ["machine"])
    except tc.TCError as error:
        machine = f"machine unknown: {_first_line(error)}"
    entries = {
        "tensor_comprehensions": f"{tc.__version__}, core {_torch.core_version()}",
        "python": platform.python_version(),
        "torch": torch.__version__,
        "halide": _version("halide"),
        "opt_einsum": _version("opt_einsum"),
        "processor": f"{platform.machine()}, {torch.backends.cpu.get_cpu_capability()}",
        "decisions for": machine.split(None, 1)[1],
        "threads": f"{torch.get_num_threads()}, as PyTorch",
    }
    for name in VARIABLES:
        if name in os.environ:
            entries[name] = os.environ[name]
    width = max(map(len, entries))
    return "\n".join(f"{name:<{width}}  {value}" for name, value in entries.items())


@dataclass
class Finding:
    """One line of the doctor's: what was tried, and what is in the way where it does not work."""

    name: str
    works: bool
    reason: str = ""
    needed: bool = True  #: a machine may do without a GPU

    def __str__(self) -> str:
        state = "works" if self.works else "FAILS" if self.needed else "not here"
        return f"{self.name:<26}{state}{': ' + self.reason if self.reason else ''}"


def _compare(actual: Any, wanted: torch.Tensor) -> None:
    torch.testing.assert_close(actual, wanted, rtol=1e-4, atol=1e-4)


def _run() -> None:
    a, b = _operands()
    options = tc.MappingOptions().matchLibraryCalls(False)
    _compare(tc.compile(_PRODUCT, "doctor", options, a, b)(a, b), a @ b)


def _run_threads() -> None:
    a, b = torch.randn(512, 64), torch.randn(64, 512)
    before = torch.get_num_threads()
    torch.set_num_threads(max(2, before))
    try:
        options = tc.MappingOptions().matchLibraryCalls(False)
        _compare(tc.compile(_PRODUCT, "doctor", options, a, b)(a, b), a @ b)
    finally:
        torch.set_num_threads(before)


def _operator() -> Any:
    return tc.define(_PRODUCT, namespace="tc_doctor").doctor


def _differentiate() -> None:
    a, b = (x.requires_grad_() for x in _operands())
    tc.make_autograd(_operator())(a, b).sum().backward()
    _compare(a.grad, b.detach().sum(1).expand(37, 37))


def _compile_graph() -> None:
    a, b = _operands()
    operator = _operator().overload
    graph = torch.compile(lambda x, y: operator(x, y) + 1, fullgraph=True, backend="aot_eager")
    _compare(graph(a, b), a @ b + 1)


def _einsum() -> None:
    a, b = _operands()
    _compare(tc.einsum("ij, jk, kl -> il", a, b, a), a @ b @ a)


def _compile_for_gpu() -> None:
    tc.compile(_PRODUCT, "doctor", None, *_operands(), target="cuda:sm_90")


def _run_on_gpu() -> None:
    if torch.version.cuda is None:
        raise tc.TCError(f"torch {torch.__version__} was built without CUDA")
    if not torch.cuda.is_available():
        raise tc.TCError("PyTorch finds no CUDA device")
    a, b = (x.cuda() for x in _operands())
    _compare(_operator()(a, b), a @ b)


def _try(name: str, action: Callable[[], None], needed: bool = True) -> Finding:
    try:
        action()
    except Exception as error:
        return Finding(name, False, _first_line(error), needed)
    return Finding(name, True, "", needed)


def examine() -> list[Finding]:
    """Tries everything once, from a kernel on one core to a GPU."""
    return [
        _try("kernels on the CPU", _run),
        _try("several threads", _run_threads),
        _try("operators and gradients", _differentiate),
        _try("torch.compile", _compile_graph),
        _try("einsum", _einsum),
        _try("compiling for a GPU", _compile_for_gpu, needed=False),
        _try("running on a GPU", _run_on_gpu, needed=False),
    ]
