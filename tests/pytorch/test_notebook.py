"""A session in a notebook, as a new user has it: nothing needs another kernel."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field

import nbformat
import pytest
from jupyter_client.manager import KernelManager
from nbclient import NotebookClient

SETUP = """
import torch
import tensor_comprehensions as tc
torch.manual_seed(0)
A, B = torch.randn(20, 30), torch.randn(30, 10)
"""


@dataclass
class Shown:
    """What stands below a cell after it has run."""

    text: str = ""  #: what was printed
    stderr: str = ""
    plain: str = ""  #: the last expression
    html: str = ""
    error: str = ""  #: the exception's name
    message: str = ""
    traceback: str = ""
    seconds: float = 0
    outputs: list = field(default_factory=list)


class Session:
    """A kernel, and the cells that it runs."""

    def __init__(self, client: NotebookClient) -> None:
        self._client = client
        self._count = 0

    def run(self, source: str, interrupt_after: float | None = None) -> Shown:
        """Runs a cell. Time counts from the interruption, where there is one."""
        cell = nbformat.v4.new_code_cell(source)
        start = time.monotonic()
        if interrupt_after is not None:
            timer = threading.Timer(interrupt_after, self._client.km.interrupt_kernel)
            timer.start()
            start += interrupt_after
        self._client.nb.cells.append(cell)
        self._client.execute_cell(cell, self._count)
        self._count += 1
        shown = Shown(seconds=time.monotonic() - start, outputs=cell.outputs)
        for output in cell.outputs:
            if output.output_type == "stream":
                if output.name == "stdout":
                    shown.text += output.text
                else:
                    shown.stderr += output.text
            elif output.output_type in ("execute_result", "display_data"):
                shown.plain += output.data.get("text/plain", "")
                shown.html += output.data.get("text/html", "")
            elif output.output_type == "error":
                shown.error, shown.message = output.ename, output.evalue
                shown.traceback = re.sub(r"\x1b\[[\d;]*m", "", "\n".join(output.traceback))
        return shown

    def good(self, source: str) -> Shown:
        shown = self.run(source)
        assert not shown.error, shown.traceback
        return shown


@pytest.fixture(scope="module")
def session() -> Iterator[Session]:
    client = NotebookClient(
        nbformat.v4.new_notebook(),
        km=KernelManager(kernel_name="python3"),
        allow_errors=True,
        timeout=240,
    )
    with client.setup_kernel():
        made = Session(client)
        made.good(SETUP)
        yield made


MATMUL = """
T = tc.define('''
def matmul(float(M, K) A, float(K, N) B) -> (C) {
  C(m, n) +=! A(m, k) * B(k, n)
}
''')
"""


COMPLETE = """
from IPython.core.completer import provisionalcompleter
def complete(text):
    with provisionalcompleter():
        found = get_ipython().Completer.completions(text, len(text))
        return [completion.text.lstrip(".") for completion in found]
print(complete("T.ma"), complete("tc.ein"), complete("T.matmul.expl"))
"""


def test_define_call_and_look(session: Session) -> None:
    session.good(MATMUL)
    assert session.good("torch.allclose(T.matmul(A, B=B), A @ B, atol=1e-4)").plain == "True"
    assert session.good("torch.allclose(torch.ops.tc.matmul(A, B), A @ B, atol=1e-4)").plain == (
        "True"
    )
    shown = session.good("T")
    assert shown.plain == "<TC: matmul>"
    assert "C(m, n) +=! A(m, k) * B(k, n)" in shown.html
    assert session.good("T.matmul").plain.startswith("<tensor comprehension matmul(float(M, K) A")
    shown = session.good("T.matmul.compile(A, B)")
    assert shown.plain == (
        "<executor of matmul(float(20, 30) A, float(30, 10) B) -> (float(20, 10) C) on cpu>"
    )
    assert "<details>" in shown.html and "floating-point operations" in shown.html
    assert "12 k floating-point operations" in session.good("print(T.matmul.explain(A, B))").text
    assert session.good("T.matmul.options").html == (
        "<code>tc.MappingOptions(&quot;default&quot;)</code>"
    )
    # What a question mark and the tab key show.
    inspected = session.good(
        "print(get_ipython().object_inspect_mime('T.matmul')['text/plain'])"
    ).text
    assert re.search(
        r"A: float\(M, K\),?\s+B: float\(K, N\)", re.sub(r"\x1b\[[\d;]*m", "", inspected)
    )
    assert "Returns float(M, N) C." in inspected
    completed = session.good(COMPLETE).text
    assert completed == "['matmul'] ['einsum', 'einsum_source'] ['explain']\n"


def edited(value: int, keywords: str = "") -> str:
    return f"""
T = tc.define("def edited(float(N) A) -> (B) {{ B(i) = A(i) * A(i) + {value} }}"{keywords})
f = tc.make_autograd(T.edited)
x = torch.arange(3.0)
print(T.edited(x).tolist(), torch.ops.tc.edited(x).tolist())
"""


def values(value: int) -> str:
    one = str([float(k * k + value) for k in range(3)])
    return f"{one} {one}\n"


MOVED = "torch.ops.tc.edited is now the text that was defined last"
STAYS = "torch.ops.tc.edited stays with an earlier text"


def test_edit_and_run_again(session: Session) -> None:
    shown = session.good(edited(1))
    assert shown.text == values(1) and shown.stderr == ""
    for value in (2, 3):
        shown = session.good(edited(value))
        assert shown.text == values(value)
        assert MOVED in shown.stderr and STAYS not in shown.stderr
    shown = session.good(edited(3))  # the same once more
    assert shown.text == values(3) and shown.stderr == ""
    # Gradients are those of the text that stands there.
    session.good("y = x.clone().requires_grad_(); f(y).sum().backward()")
    assert session.good("y.grad.tolist()").plain == "[0.0, 2.0, 4.0]"
    # After an error, whose traceback the notebook keeps.
    assert session.run("T.edited(x.double())").error == "ShapeError"
    assert session.run("f(x.double().requires_grad_())").error == "ShapeError"
    shown = session.good(edited(4))
    assert shown.text == values(4)
    assert MOVED in shown.stderr and STAYS not in shown.stderr
    # What holds the earlier one keeps the name, and the cell says so.
    session.good("kept = T.edited")
    shown = session.good(edited(5))
    old = str([float(k * k + 4) for k in range(3)])
    assert shown.text == f"{[float(k * k + 5) for k in range(3)]} {old}\n"
    assert STAYS in shown.stderr and "replace=True" in shown.stderr
    shown = session.good(edited(6, ", replace=True"))
    assert shown.text == values(6) and MOVED in shown.stderr and STAYS not in shown.stderr
    assert session.good("kept(x).tolist()").plain == old
    shown = session.good("del kept; " + edited(7))
    assert shown.text == values(7) and STAYS not in shown.stderr


def test_errors_say_what_to_do(session: Session) -> None:
    session.good(MATMUL)
    shown = session.run("T.matmul(A, A)")
    assert shown.error == "ShapeError"
    assert "Mismatched sizes for dimension 0 of argument B: K is 30" in shown.message
    shown = session.run("T.matmul(A, b=B)")
    assert shown.message == "matmul has no parameter b; it has A, B; did you mean B?"
    shown = session.run("tc.define('def f(float(N) A) -> (B) { B(i) = relu(A(i)) }')")
    assert shown.error == "LanguageError"
    assert "write x > 0 ? x : 0" in shown.message and shown.message.endswith("^~~~~~~~~~")
    shown = session.run("tc.define('def f(float(N) A) -> (B) { B(i) = B(i - 1) + A(i) }')")
    assert "B(i) +=! j <= i ? A(j) : 0 where i in 0:N" in shown.message
    shown = session.run("T.matmul(A.clone().requires_grad_(), B).sum().backward()")
    assert "matmul = tensor_comprehensions.make_autograd(T.matmul)" in shown.message
    shown = session.run("T.matmull(A, B)")
    assert shown.error == "AttributeError"
    assert shown.message.endswith("the text defines: matmul; did you mean matmul?")
    assert session.good("torch.allclose(T.matmul(A, B), A @ B, atol=1e-4)").plain == "True"


#: Takes a compiler many seconds.
LONG = """
count = 60
statements = " ".join(
    f"T{k + 1}(i, j) +=! T{k}(i, l) * A(l, j) + T{max(k - 3, 0)}(j, l)" for k in range(count)
)
large = tc.define(
    f"def large(float(N, N) A) -> (T{count}) {{ T0(i, j) = A(i, j) {statements} }}"
)
small = tc.define("def small(float(N) A) -> (O) { O(i) = A(i) + 1 }")
"""


def test_an_interrupted_compilation(session: Session) -> None:
    session.good(LONG)
    shown = session.run("large.large(torch.randn(40, 40))", interrupt_after=1)
    assert shown.error == "KeyboardInterrupt"
    assert 0 < shown.seconds < 2
    shown = session.good("small.small(torch.zeros(3)).tolist()")
    assert shown.plain == "[1.0, 1.0, 1.0]"
    # As often as one likes.
    shown = session.run("large.large.compile(torch.randn(40, 40))", interrupt_after=1)
    assert shown.error == "KeyboardInterrupt" and shown.seconds < 2
    assert session.good("torch.ops.tc.small(torch.ones(2)).tolist()").plain == "[2.0, 2.0]"


def test_after_an_interruption(session: Session) -> None:
    """Python itself is interrupted, between calls."""
    session.good("loop = tc.define('def loop(float(N) A) -> (O) { O(i) = A(i) + 1 }')")
    source = "x = torch.zeros(3)\nwhile True: x = loop.loop(x)"
    shown = session.run(source, interrupt_after=1)
    assert shown.error == "KeyboardInterrupt" and shown.seconds < 2
    assert session.good("loop.loop(torch.zeros(2)).tolist()").plain == "[1.0, 1.0]"
