"""Which operators there are, which has the plain name in torch.ops, and what keeps them."""

from __future__ import annotations

import gc
import itertools
import logging
import pickle
import sys
import threading
import warnings
import weakref
from collections.abc import Callable, Iterator

import pytest
import torch

import tensor_comprehensions as tc
from tensor_comprehensions import _pairs

numbers = itertools.count()
NOTE = "is now the text that was defined last"
STAYS = "stays with an earlier text for as long as something holds that"


def text(value: int, name: str = "f") -> str:
    return f"def {name}(float(N) A) -> (C) {{ C(i) = A(i) * A(i) + {value} }}"


TWO = "def f(float(N) A, float(N) B) -> (C) { C(i) = A(i) - B(i) }"


@pytest.fixture
def namespace() -> str:
    return f"tc_registry_{next(numbers)}"


@pytest.fixture
def notes(caplog: pytest.LogCaptureFixture) -> Iterator[Callable[[], list[str]]]:
    """The notes that were logged since they were last asked for."""

    def take() -> list[str]:
        found = [record.getMessage() for record in caplog.records]
        caplog.clear()
        return [message for message in found if NOTE in message]

    with caplog.at_level(logging.WARNING, logger="tensor_comprehensions"):
        yield take


def by_name(namespace: str, x: torch.Tensor) -> torch.Tensor:
    return getattr(torch.ops, namespace).f(x)


def script(namespace: str, inputs: int = 1) -> Callable:
    """A script that calls the plain name, as one that was written without Python does."""
    names = [f"%x{k}" for k in range(inputs)]
    graph = f"""graph({", ".join(f"{name} : Tensor" for name in names)}):
      %y : Tensor = {namespace}::f({", ".join(names)})
      %z : Tensor = aten::neg(%y)
      return (%z)"""
    return torch._C._create_function_from_graph("caller", torch._C.parse_ir(graph))


X = torch.tensor([1.0, 2.0, 3.0])


def test_a_text_that_nobody_holds_loses_its_name(namespace: str, notes: Callable) -> None:
    tc.define(text(1), namespace=namespace)
    assert torch.equal(by_name(namespace, X), X * X + 1)
    assert notes() == []
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        second = tc.define(text(2), namespace=namespace)
    assert torch.equal(by_name(namespace, X), X * X + 2)
    assert getattr(torch.ops, namespace).f.default is second.f.overload
    assert notes() == [
        f"torch.ops.{namespace}.f {NOTE}; graphs that were made with the earlier one keep it"
    ]
    del second
    tc.define(text(1), namespace=namespace)  # and back
    assert torch.equal(by_name(namespace, X), X * X + 1)
    assert len(notes()) == 1


HOLDERS: dict[str, Callable[[tc.TC], object]] = {
    "T": lambda t: t,
    "T.f": lambda t: t.f,
    "make_autograd": lambda t: tc.make_autograd(t.f),
    "a pair": lambda t: tc.make_autograd(t.f, lambda a, g: 2 * a * g),
    "a backward": lambda t: tc.make_autograd(torch.square, t.f),
    "a method": lambda t: t.f.explain,
    "a bound call": lambda t: t.f.__call__,
}


@pytest.mark.parametrize("holder", HOLDERS)
def test_what_is_held_keeps_its_name_until_it_is_not(
    holder: str, namespace: str, notes: Callable
) -> None:
    held = HOLDERS[holder](tc.define(text(1), namespace=namespace))
    with pytest.warns(UserWarning, match=STAYS) as warned:
        second = tc.define(text(2), namespace=namespace)
    assert "namespace=" in str(warned[0].message) and "replace=True" in str(warned[0].message)
    assert warned[0].filename == __file__
    assert torch.equal(by_name(namespace, X), X * X + 1)
    assert torch.equal(second.f(X), X * X + 2)
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # it has been said
        second = tc.define(text(2), namespace=namespace)
    assert notes() == []
    del held
    gc.collect()  # a pair is part of a cycle
    assert torch.equal(by_name(namespace, X), X * X + 2)
    assert len(notes()) == 1


def test_a_module_holds_its_definition(namespace: str) -> None:
    layer = tc.nn.Lambda(text(1), namespace=namespace)
    with pytest.warns(UserWarning, match=STAYS):
        second = tc.define(text(2), namespace=namespace)
    del layer
    gc.collect()
    assert torch.equal(by_name(namespace, X), second.f(X))


def test_a_cell_that_is_run_again(namespace: str, notes: Callable) -> None:
    """T still has the earlier definition while define runs."""
    for value in range(3):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            t = tc.define(text(value), namespace=namespace)
            f = tc.make_autograd(t.f)
        assert torch.equal(by_name(namespace, X), X * X + value)
        x = X.clone().requires_grad_()
        f(x).sum().backward()
        assert torch.equal(x.grad, 2 * X)
        with pytest.raises(tc.ShapeError):
            f(X.double())
    assert len(notes()) == 2


def test_replace(namespace: str, notes: Callable) -> None:
    first = tc.define(text(1), namespace=namespace)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        second = tc.define(text(2), namespace=namespace, replace=True)
        assert torch.equal(by_name(namespace, X), X * X + 2)
        assert len(notes()) == 1
        assert torch.equal(first.f(X), X * X + 1)
        tc.define(text(2), namespace=namespace, replace=True)
        assert notes() == []
        third = tc.define(text(1), namespace=namespace, replace=True)
    assert third.f is first.f
    assert torch.equal(by_name(namespace, X), X * X + 1)
    del second
    assert torch.equal(by_name(namespace, X), X * X + 1)


def test_who_waits_for_a_name(namespace: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        first = tc.define(text(1), namespace=namespace)
        second = tc.define(text(2), namespace=namespace)
        third = tc.define(text(3), namespace=namespace)
        del first
        assert torch.equal(by_name(namespace, X), X * X + 3)  # what was defined last
        fourth = tc.define(text(4), namespace=namespace)
        del fourth  # gave up waiting
        del third
        assert torch.equal(by_name(namespace, X), X * X + 3)
        tc.define(text(5), namespace=namespace)
        assert torch.equal(by_name(namespace, X), X * X + 5)
        assert torch.equal(second.f(X), X * X + 2)

        namespace += "_again"
        first = tc.define(text(1), namespace=namespace)
        second = tc.define(text(2), namespace=namespace)
        again = tc.define(text(1), namespace=namespace)  # is what was defined last
        del first, again
        assert torch.equal(by_name(namespace, X), X * X + 1)


def test_the_same_text_with_other_options(namespace: str, notes: Callable) -> None:
    def name() -> str:
        return getattr(torch.ops, namespace).f.default.name()

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        first = tc.define(text(1), namespace=namespace)
        assert name() == first.f.name
        second = tc.define(text(1), "naive", namespace=namespace)
        assert name() == first.f.name  # the first, as long as it is held
        del first
        assert name() == second.f.name
    assert notes() == []  # the results are the same


def test_what_was_made_with_the_earlier_text_keeps_it(namespace: str) -> None:
    first = tc.define(text(1), namespace=namespace)
    packet = getattr(torch.ops, namespace).f

    def call(x: torch.Tensor) -> torch.Tensor:
        return getattr(torch.ops, namespace).f(x) + 0

    class Module(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return packet(x) + 0

    exported = torch.export.export(Module(), (X,)).module()
    traced = torch.jit.trace(Module(), (X,))
    torch._dynamo.reset()
    compiled = torch.compile(call, fullgraph=True, backend="aot_eager")
    assert torch.equal(compiled(X), X * X + 1)
    leaf = X.clone().requires_grad_()
    loss = tc.make_autograd(first.f)(leaf).sum()
    del first
    second = tc.define(text(2), namespace=namespace)
    assert torch.equal(second.f(X), X * X + 2)
    for kept in (packet, packet.default, exported, traced):
        assert torch.equal(kept(X), X * X + 1)
    assert torch.equal(torch.vmap(packet)(X[None]), X[None] * X + 1)
    assert torch.equal(compiled(X), X * X + 2)  # which looks the name up, and sees that it moved
    (gradient,) = torch.autograd.grad(loss, leaf, create_graph=True)
    assert torch.equal(gradient, 2 * X)
    assert torch.equal(torch.autograd.grad(gradient.sum(), leaf)[0], torch.full((3,), 2.0))


def test_programs_that_look_the_name_up(namespace: str) -> None:
    """TorchScript and C++ find the plain name in the dispatcher, where it moves as well."""
    tc.define(text(1), namespace=namespace)
    early = script(namespace)
    handle = torch._C._jit_get_operation(f"{namespace}::f")[0]
    for _ in range(3):
        assert torch.equal(early(X), -(X * X + 1))
    tc.define(text(2), namespace=namespace)
    for call in (early, script(namespace), lambda x: -handle(x)):
        for _ in range(3):
            assert torch.equal(call(X), -(X * X + 2))
    tc.define(TWO, namespace=namespace)
    assert torch.equal(script(namespace, inputs=2)(X, 2 * X), X)
    with pytest.raises(RuntimeError, match=r"f is another definition than when this call was comp"):
        early(X)
    tc.define(text(3), namespace=namespace)
    assert torch.equal(early(X), -(X * X + 3))
    # All that the dispatcher does for the operator itself.
    leaf = X.clone().requires_grad_()
    assert script(namespace)(leaf).requires_grad
    negative = torch.complex(X, X).conj().imag
    assert negative.is_neg()
    assert torch.equal(script(namespace)(negative), -(X * X + 3))
    out = torch.empty(3)
    call_out, *_ = torch._C._get_operation_overload(f"{namespace}::f", "out")
    call_out(negative, C=out)
    assert torch.equal(out, X * X + 3)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert torch.equal(script(namespace)(X.bfloat16()), -(X * X + 3))


def test_the_name_of_someone_else(namespace: str) -> None:
    library = torch.library.Library(namespace, "FRAGMENT")
    library.define("f(Tensor A) -> Tensor")
    for replace in (False, True):
        with pytest.raises(tc.TCError, match="exists already and was not defined here"):
            tc.define(text(1), namespace=namespace, replace=replace)


def test_more_arguments_than_an_operator_may_have(namespace: str) -> None:
    def wide(results: int) -> str:
        names = [f"C{k}" for k in range(results)]
        body = " ".join(f"{name}(i) = A(i) + {k}" for k, name in enumerate(names))
        return f"def f(float(N) A) -> ({', '.join(names)}) {{ {body} }}"

    assert torch.equal(tc.define(wide(63), namespace=namespace).f(X)[62], X + 62)
    with pytest.raises(tc.TCError, match="f has 1 input and 64 outputs, but an operator of PyTo"):
        tc.define(wide(64), namespace=namespace)
    executor = tc.compile(wide(64), "f", None, X)
    assert torch.equal(executor(X)[63], X + 63)


# ---- what is kept


def test_what_nobody_holds_is_gone(namespace: str) -> None:
    x = X.clone().requires_grad_()

    def use() -> weakref.ref:
        t = tc.define(text(1), namespace=namespace)
        derived = tc.make_autograd(t.f)
        derived(x).sum().backward()
        torch.vmap(t.f)(X[None])
        torch.func.vmap(torch.func.grad(lambda x: derived(x).sum()))(X[None])
        assert "traffic" in t.f.explain(X)
        return weakref.ref(t.f)

    assert use()() is None
    # Whoever has the name all the same finds it, with derivatives and batches.
    assert torch.equal(torch.vmap(getattr(torch.ops, namespace).f)(X[None]), X[None] * X + 1)
    again = tc.define(text(1), namespace=namespace)
    assert torch.equal(again.f(X), X * X + 1)
    assert again.f is tc.define(text(1), namespace=namespace).f
    x.grad = None
    tc.make_autograd(again.f)(x).sum().backward()
    assert torch.equal(x.grad, 2 * X)


def test_kernels_wait_for_the_same_text(namespace: str) -> None:
    """Whoever defines it in each call does not compile in each."""
    tc.define(text(1), namespace=namespace).f(X)
    gc.collect()
    compiled = tc.cache_info().compiled
    for _ in range(3):
        assert torch.equal(tc.define(text(1), namespace=namespace).f(X), X * X + 1)
        gc.collect()
    assert tc.cache_info().compiled == compiled


@pytest.mark.parametrize(
    "call",
    [
        "T.f(X.double())",
        "T.f(X, X)",
        "T.f(B=X)",
        "T.f('X')",
        "T.f(X, outputs=torch.empty(4))",
        "T.f(X, outputs=(X, X))",
        "T.f(X.double(), outputs=torch.empty(3), unchecked=True)",
        "T('f', X.double())",
        "f(X.double())",
        "f(X.double().requires_grad_())",
        "f(B=X)",
        "T.f.compile(X.double())",
        "T.f.explain(X, X)",
    ],
)
def test_tracebacks_do_not_keep_what_was_called(call: str, namespace: str) -> None:
    """Notebooks keep the last one, which would keep the definition in use."""
    t = tc.define(text(1), namespace=namespace)
    gone = weakref.ref(t.f)
    cell = {"T": t, "f": tc.make_autograd(t.f), "X": X.clone(), "torch": torch}
    del t
    kept = None
    try:
        exec(call, cell)
    except tc.TCError as error:
        kept = error
    assert kept is not None and kept.__traceback__ is not None
    assert gone() is not None
    del cell["T"], cell["f"]
    assert gone() is None


def test_pickles_are_the_same_operators(namespace: str) -> None:
    t = tc.define(text(1), "naive", namespace=namespace)
    held = t.f
    assert pickle.loads(pickle.dumps(t)).f is held
    assert pickle.loads(pickle.dumps(held)) is held
    data = pickle.dumps(held)
    name = held.name
    del t, held
    assert pickle.loads(data).name == name


def test_names_that_move_while_others_call(namespace: str) -> None:
    tc.define(text(0), namespace=namespace)
    stop = threading.Event()
    failures: list[BaseException] = []

    def call() -> None:
        try:
            while not stop.is_set():
                found = by_name(namespace, X) - X * X
                assert found[0] in range(8) and torch.equal(found, found[0].expand(3))
        except BaseException as error:
            failures.append(error)

    def define(first: int) -> None:
        try:
            for k in range(24):
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    t = tc.define(text((first + k) % 8), namespace=namespace)
                assert torch.equal(t.f(X), X * X + (first + k) % 8)
        except BaseException as error:
            failures.append(error)

    callers = [threading.Thread(target=call) for _ in range(2)]
    definers = [threading.Thread(target=define, args=(k,)) for k in (0, 3)]
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        for thread in (*callers, *definers):
            thread.start()
        for thread in definers:
            thread.join()
    finally:
        stop.set()
        sys.setswitchinterval(interval)
    for thread in callers:
        thread.join()
    assert not failures


def test_a_pair_that_is_registered_again_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    """As after Ctrl-C between the registration and the note of it."""
    text = """def doubled(float(N) A) -> (O) { O(i) = 2 * A(i) }
    def doubled_grad(float(N) A, float(N) g) -> (d) { d(i) = 2 * g(i) + 0 * A(i) }"""
    t = tc.define(text, namespace="tc_registered_again")
    x = torch.ones(3, requires_grad=True)
    tc.make_autograd(t.doubled, t.doubled_grad)(x).sum().backward()
    known = _pairs.Pair._known
    monkeypatch.setattr(_pairs.Pair, "_known", type(known)())
    tc.make_autograd(t.doubled, t.doubled_grad)(x).sum().backward()
    assert torch.equal(x.grad, torch.full((3,), 4.0))
