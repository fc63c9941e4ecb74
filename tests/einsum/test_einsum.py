"""tc.einsum against torch.einsum where that has the meaning, else against a gather everywhere."""

from __future__ import annotations

import random
import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from equations import Equation, ordinary_equation, random_equation, reference
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.autograd import gradcheck, gradgradcheck
from torch.fx.experimental.proxy_tensor import make_fx

import tensor_comprehensions as tc
from tensor_comprehensions import _torch


def integers(equation: Equation, seed: int, dtype: torch.dtype = torch.float32) -> list:
    generator = torch.Generator().manual_seed(seed)
    return [torch.randint(-3, 4, s, generator=generator).to(dtype) for s in equation.shapes]


def strided(x: torch.Tensor, seed: int) -> torch.Tensor:
    """The same values, not where a dense tensor has them."""
    if x.dim() == 0:
        return x
    order = torch.randperm(x.dim(), generator=torch.Generator().manual_seed(seed)).tolist()
    inverse = [order.index(d) for d in range(x.dim())]
    spread = x.permute(order).repeat_interleave(2, dim=-1)[..., ::2]
    return spread.permute(inverse)


# ---- equations

BLOCK = 25


@pytest.mark.sampled(every=2)
@pytest.mark.parametrize("first", range(0, 300, BLOCK))
def test_ordinary_equations(first: int) -> None:
    for seed in range(first, first + BLOCK):
        equation = ordinary_equation(seed)
        values = integers(equation, seed)
        wanted = torch.einsum(equation.text, *values)
        actual = tc.einsum(equation.text, *(strided(x, seed) for x in values))
        assert actual.shape == wanted.shape, equation
        assert torch.equal(actual, wanted), equation


@pytest.mark.sampled(every=2)
@pytest.mark.parametrize("first", range(0, 300, BLOCK))
def test_extended_equations(first: int) -> None:
    for seed in range(first, first + BLOCK):
        equation = random_equation(seed)
        values = integers(equation, seed)
        wanted = reference(equation.text, *values, **equation.tables)
        actual = tc.einsum(equation.text, *(strided(x, seed) for x in values), **equation.tables)
        assert actual.shape == wanted.shape, equation
        assert torch.equal(actual.double(), wanted), equation


DATA, WEIGHT = torch.randn(2, 3, 9, 10), torch.randn(3, 4, 3, 3)
SHIFTS = {"sh": torch.tensor([0, 2, 1]), "sw": torch.tensor([2, -1, 0])}
OFFSETS = {
    "oh": torch.tensor([[0, 1], [2, 2], [1, 0]]),
    "ow": torch.tensor([[1, 1], [0, 2], [2, 0]], dtype=torch.int32),
}
FORMS = {
    "convolution": ("nc(h+r)(w+s), ckrs -> nkhw", (DATA, WEIGHT), {}),
    "strided": ("nc(2*h+r)(2*w+s), ckrs -> nkhw", (DATA, WEIGHT), {}),
    "dilated": ("nc(h+2*r)(w+2*s), ckrs -> nkhw", (DATA, WEIGHT), {}),
    "flipped": ("nc(h-r)(w-s), ckrs -> nkhw", (DATA, WEIGHT), {}),
    "depthwise": ("nc(h+r)(w+s), crs -> nchw", (DATA, WEIGHT[:, 0]), {}),
    "pointwise": ("nchw, ck -> nkhw", (DATA, WEIGHT[..., 0, 0]), {}),
    "shift": ("nc(h+sh[c])(w+sw[c]), ck -> nkhw", (DATA, WEIGHT[..., 0, 0]), SHIFTS),
    "sparse filter": ("nc(h+oh[c,x])(w+ow[c,x]), ckx -> nkhw", (DATA, WEIGHT[..., :2, 0]), OFFSETS),
    "attention": ("nths, hes -> nhte", (torch.randn(2, 5, 3, 4), torch.randn(3, 6, 4)), {}),
    "gather": ("(sh[c])d, cd -> d", (torch.randn(4, 5), torch.randn(3, 5)), {"sh": SHIFTS["sh"]}),
    "chain": (
        "nc(h+r), cr, ck, kl -> nhl",
        (DATA[:, :, 0], WEIGHT[:, 0, 0], WEIGHT[:, :, 0, 0], torch.randn(4, 2)),
        {},
    ),
}


@pytest.fixture(params=FORMS)
def form(request: pytest.FixtureRequest) -> tuple:
    return FORMS[request.param]


def test_forms(form: tuple) -> None:
    equation, values, tables = form
    actual = tc.einsum(equation, *values, **tables)
    wanted = reference(equation, *values, **tables)
    torch.testing.assert_close(actual.double(), wanted, rtol=1e-5, atol=1e-5)


def test_convolutions_of_pytorch() -> None:
    weight = WEIGHT.transpose(0, 1)
    for stride, dilation in ((1, 1), (2, 1), (1, 2)):
        equation = f"nc({stride}*h+{dilation}*r)({stride}*w+{dilation}*s), ckrs -> nkhw"
        wanted = F.conv2d(DATA, weight, stride=stride, dilation=dilation)
        torch.testing.assert_close(tc.einsum(equation, DATA, WEIGHT), wanted, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float16, torch.bfloat16])
def test_floats(form: tuple, dtype: torch.dtype) -> None:
    equation, values, tables = form
    values = [x.to(dtype) for x in values]
    actual = tc.einsum(equation, *values, **tables)
    assert actual.dtype == dtype
    # Summed in float and rounded once; two roundings on the way in the chain.
    tolerance = 4 * torch.finfo(dtype).eps
    wanted = reference(equation, *values, **tables)
    scale = wanted.abs().max().item()
    torch.testing.assert_close(actual.double(), wanted, rtol=tolerance, atol=2 * tolerance * scale)


@pytest.mark.parametrize("dtype", [torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8])
def test_integers(dtype: torch.dtype) -> None:
    a = torch.arange(12).reshape(3, 4).to(dtype)
    b = torch.arange(20).reshape(4, 5).to(dtype)
    for equation, values in (
        ("ij,jk->ik", (a, b)),
        ("ij->i", (a,)),
        ("ij->ji", (a,)),
        ("ij,ij->ij", (a, a)),
    ):
        wanted = torch.einsum(equation, *values)
        actual = tc.einsum(equation, *values)
        assert actual.dtype == wanted.dtype, equation
        assert torch.equal(actual, wanted), equation


# ---- gradients


def test_gradients(form: tuple) -> None:
    equation, values, tables = form
    inputs = tuple(x.double().requires_grad_() for x in values)
    assert gradcheck(lambda *x: tc.einsum(equation, *x, **tables), inputs, fast_mode=True)


@pytest.mark.parametrize("name", ["convolution", "shift", "attention"])
def test_second_derivatives(name: str) -> None:
    equation, values, tables = FORMS[name]
    inputs = tuple(x.double().requires_grad_() for x in values)
    assert gradgradcheck(lambda *x: tc.einsum(equation, *x, **tables), inputs, fast_mode=True)


def test_functional_transforms(form: tuple) -> None:
    """Plans and copies of tables that are made inside of a transform serve outside as well."""
    equation, values, tables = form
    tables = {name: table.clone() for name, table in tables.items()}
    first, *rest = (x.double() for x in values)

    def run(x: torch.Tensor) -> torch.Tensor:
        return tc.einsum(equation, x, *rest, **tables)

    tangent = torch.randn_like(first)
    value, moved = torch.func.jvp(run, (first,), (tangent,))
    torch.testing.assert_close(value, run(first))
    torch.testing.assert_close(moved, run(tangent))  # it is linear
    batch = torch.stack([first, tangent, -first])
    torch.testing.assert_close(torch.vmap(run)(batch), torch.stack([run(x) for x in batch]))
    gradients = torch.vmap(torch.func.grad(lambda x: run(x).square().sum()))(batch)
    single = first.clone().requires_grad_()
    run(single).square().sum().backward()
    torch.testing.assert_close(gradients[0], single.grad)


def test_a_batch_of_tables() -> None:
    data, tables = torch.randn(4, 5), torch.tensor([[0, 1], [2, 3]])
    with pytest.raises(tc.ShapeError, match="einsum: table t is one of a batch, or differentiated"):
        torch.vmap(lambda t: tc.einsum("(t[c])d -> d", data, t=t))(tables)


def test_gradients_of_pytorch() -> None:
    data, weight = DATA.clone().requires_grad_(), WEIGHT.clone().requires_grad_()
    upstream = torch.randn(2, 4, 7, 8)
    F.conv2d(data, weight.transpose(0, 1)).backward(upstream)
    ours = DATA.clone().requires_grad_(), WEIGHT.clone().requires_grad_()
    tc.einsum("nc(h+r)(w+s), ckrs -> nkhw", *ours).backward(upstream)
    torch.testing.assert_close(ours[0].grad, data.grad, rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(ours[1].grad, weight.grad, rtol=1e-4, atol=1e-4)


# ---- ways to call


def test_sublists_and_lists() -> None:
    a, b = torch.randn(3, 4), torch.randn(4, 5)
    wanted = a @ b
    for actual in (
        tc.einsum(a, [0, 1], b, [1, 2], [0, 2]),
        tc.einsum(a, [0, 30], b, [30, 2]),
        tc.einsum("ij,jk->ik", [a, b]),
        tc.einsum(a, [..., 1], b, [1, 2], [..., 2]),
    ):
        torch.testing.assert_close(actual, wanted)


def test_tensors_without_dimensions() -> None:
    two = torch.tensor(2.0, requires_grad=True)
    result = tc.einsum(",i->i", two, torch.arange(3.0))
    assert torch.equal(result, torch.tensor([0.0, 2.0, 4.0]))
    result.sum().backward()
    assert two.grad == 3
    assert tc.einsum("", two.detach()) == 2


def test_compiled(form: tuple) -> None:
    equation, values, tables = form
    inputs = [x.clone().requires_grad_() for x in values]

    def layer(*x: torch.Tensor) -> torch.Tensor:
        return torch.tanh(tc.einsum(equation, *(2 * v for v in x), **tables))

    torch._dynamo.reset()  # every form is one more graph for the same code
    # The sizes that tables decide are not known to a graph.
    compiled = torch.compile(layer, fullgraph=not tables, backend="aot_eager")
    actual, wanted = compiled(*inputs), layer(*inputs)
    torch.testing.assert_close(actual, wanted)
    tables = {name: table.tolist() for name, table in tables.items()}  # for `layer`
    torch._dynamo.reset()
    compiled = torch.compile(layer, fullgraph=True, backend="aot_eager")
    actual, wanted = compiled(*inputs), layer(*inputs)
    torch.testing.assert_close(actual, wanted)
    gradients = torch.autograd.grad(wanted.sum(), inputs)
    for ours, reference_gradient in zip(
        torch.autograd.grad(actual.sum(), inputs), gradients, strict=True
    ):
        torch.testing.assert_close(ours, reference_gradient)


def test_lists_that_change_are_other_graphs() -> None:
    places = [0, 1, 2]
    data = torch.arange(24.0).reshape(3, 8)

    def layer(x: torch.Tensor) -> torch.Tensor:
        return tc.einsum("c(h+t[c])->h", x, t=places)

    compiled = torch.compile(layer, fullgraph=True, backend="aot_eager")
    assert torch.equal(compiled(data), layer(data))
    places[0] = 5
    assert torch.equal(compiled(data), layer(data))


def test_lists_are_exported() -> None:
    class Layer(torch.nn.Module):
        def forward(self, x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
            return tc.einsum("c(h+t[c]),c->h", x, w, t=(2, 0, 1))

    inputs = torch.randn(3, 8), torch.randn(3)
    program = torch.export.export(Layer(), inputs)
    assert torch.equal(program.module()(*inputs), Layer()(*inputs))


def test_a_tensor_as_table_in_a_whole_graph_is_refused_with_the_way_out() -> None:
    table = torch.tensor([0, 1, 2])
    compiled = torch.compile(
        lambda x: tc.einsum("c(h+t[c])->h", x, t=table), fullgraph=True, backend="aot_eager"
    )
    with pytest.raises(Exception, match="pass tables as lists, which become part of it"):
        compiled(torch.randn(3, 8))


SLIDE = "c(h+s[c]) -> h"
SLIDES = [0, 2, 1]
UNKNOWN = "einsum: table s is a tensor whose values are not known here: .* so pass a list"


class Shift(torch.nn.Module):
    def __init__(self, held: bool) -> None:
        super().__init__()
        if held:
            self.register_buffer("shifts", torch.tensor(SLIDES))
        else:
            self.shifts = [torch.tensor(SLIDES)]  # where no module looks

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        (shifts,) = self.shifts if isinstance(self.shifts, list) else [self.shifts]
        return tc.einsum(SLIDE, x, s=shifts)


@pytest.mark.parametrize("held", [False, True])
@pytest.mark.parametrize("called", [False, True])
def test_an_exported_tensor_as_table_is_refused_with_the_way_out(held: bool, called: bool) -> None:
    x, module = torch.randn(3, 9), Shift(held)
    if called:
        module(x)  # whose plan is kept
    with pytest.raises(tc.ShapeError, match=UNKNOWN):
        torch.export.export(module, (x,), strict=False)


@pytest.mark.parametrize("table", [SLIDES, torch.tensor(SLIDES)], ids=["list", "tensor"])
def test_tables_beside_fake_tensors(table: object) -> None:
    x = torch.randn(3, 9)
    with FakeTensorMode():
        for _ in range(2):
            assert tc.einsum(SLIDE, torch.empty(3, 9), s=table).shape == (7,)
    for mode in ("real", "fake", "symbolic"):
        traced = make_fx(lambda x: tc.einsum(SLIDE, x, s=table), tracing_mode=mode)(x)
        assert torch.equal(traced(x + 1), tc.einsum(SLIDE, x + 1, s=table))
    meta = tc.einsum(SLIDE, x.to("meta"), s=table)
    assert meta.is_meta and meta.shape == (7,)
    with torch.device("meta"):
        assert torch.equal(tc.einsum(SLIDE, x, s=table), tc.einsum(SLIDE, x, s=SLIDES))


def test_tables_without_values_are_refused_with_the_way_out() -> None:
    x, table = torch.randn(3, 9), torch.tensor(SLIDES)
    with FakeTensorMode(), pytest.raises(tc.ShapeError, match=UNKNOWN):
        tc.einsum(SLIDE, torch.empty(3, 9), s=torch.zeros(3, dtype=torch.int64))
    with pytest.raises(tc.ShapeError, match=UNKNOWN):
        tc.einsum(SLIDE, x, s=table.to("meta"))
    with pytest.raises(tc.ShapeError, match=UNKNOWN):
        make_fx(lambda x, t: tc.einsum(SLIDE, x, s=t), tracing_mode="fake")(x, table)


def test_symbolic_sizes_become_those_of_the_text() -> None:
    x = torch.randn(3, 9)
    traced = make_fx(lambda x: tc.einsum("ij->i", x), tracing_mode="symbolic")(x)
    torch.testing.assert_close(traced(x), x.sum(1))


def test_tables_that_change() -> None:
    table = torch.tensor([0, 1, 2])
    data = torch.arange(24.0).reshape(3, 8)

    def wanted() -> torch.Tensor:
        return reference("c(h+t[c])->h", data, t=table)

    def actual() -> torch.Tensor:
        return tc.einsum("c(h+t[c])->h", data, t=table)

    assert torch.equal(actual().double(), wanted())
    table[0] = 3
    assert torch.equal(actual().double(), wanted())
    assert actual().shape == (6,)
    table.fill_(-1)
    assert torch.equal(actual().double(), wanted())
    table[1] = 99
    with pytest.raises(tc.ShapeError, match=re.escape("t[1] = 99")):
        actual()
    table.zero_()
    assert torch.equal(actual(), data.sum(0))
    # A list is looked at every time.
    for other in ([1, 1, 1], [0, 1, 1]):
        result = tc.einsum("c(h+t[c])->h", data, t=other)
        assert torch.equal(result.double(), reference("c(h+t[c])->h", data, t=torch.tensor(other)))


def test_none_is_no_table_that_is_gone() -> None:
    tc.einsum("i(t[i])->i", A, t=torch.tensor([0, 1, 2]))
    with pytest.raises(tc.ShapeError, match="table t: expected a tensor, list or array of int"):
        tc.einsum("i(t[i])->i", A, t=None)


def test_contents_are_no_part_of_a_kernel() -> None:
    data = torch.randn(3, 8)
    text = tc.einsum_source("c(h+t[c])->h", data, t=[0, 1, 2])
    assert text == tc.einsum_source("c(h+t[c])->h", data, t=[2, 0, 1])


def test_names_of_tables() -> None:
    """Any identifier, also one that means something in the text, or to `einsum` itself."""
    data, indices = torch.randn(3, 9), torch.tensor([2, 0, 1])
    for a, b in (
        *(("x", "table_x"), ("table_x", "x"), ("min", "table_min"), ("w1", "table_w1")),
        *(("equation", "operands"), ("float", "in0"), ("in", "self"), ("einsum", "out")),
        *(
            ("def", "_"),
            ("x", "table_table_x"),
            ("size_c", "table_size_c"),
            ("c_begin", "table_c_begin"),
        ),
    ):
        found = tc.einsum(f"c(h+{a}[c]-{b}[c])->ch", data, **{a: indices, b: [2, 0, 1]})
        assert torch.equal(found, data), (a, b)
        text = tc.einsum_source(f"c(h+{a}[c])->ch", data, **{a: indices})
        assert torch.equal(
            tc.einsum(f"c(h+{a}[c])->ch", data, **{a: indices}),
            torch.stack([row[k : k + 7] for k, row in zip(indices, data, strict=True)]),
        ), text


def test_source() -> None:
    assert tc.einsum_source("nc(2*h+r)(w-1), ckr -> nkhw", DATA, WEIGHT[..., 0]) == (
        "def einsum(float(N, C, in0_2, in0_3) in0, float(C, K, R) in1) -> (out) {\n"
        "    out(n, k, h, w) +=! in0(n, c, 2 * h + r, w - 1) * in1(c, k, r)\n"
        "}\n"
    )


def test_order_of_contraction() -> None:
    """A long vector times two matrices: never the product of the matrices."""
    values = torch.randn(64, 64), torch.randn(64, 64), torch.randn(64)
    text = tc.einsum_source("ij,jk,k->i", *values)
    assert "t0(j) +=! in1(j, k) * in2(k)" in text
    torch.testing.assert_close(
        tc.einsum("ij,jk,k->i", *values), values[0] @ (values[1] @ values[2]), rtol=1e-4, atol=1e-4
    )


def test_mutated_equations() -> None:
    """Each is refused with a message, or has a text that the language takes."""
    r = random.Random(5)
    seeds = [equation for equation, _, _ in FORMS.values()]
    taken = 0
    for _ in range(20000):
        equation = r.choice(seeds)
        for _ in range(r.randint(1, 3)):
            at, end = sorted(r.randint(0, len(equation)) for _ in range(2))
            piece = r.choice(["", r.choice("ahr01()[]+-*,.> \u00e9"), equation[at:end]])
            equation = equation[:at] + piece + equation[r.choice([at, at + 1]) :]
        shapes = [
            ([3] * len(re.findall(r"\([^)]*\)|[A-Za-z]", part)), torch.float32)
            for part in re.split(r",(?![^\[]*\])", equation.split("->")[0])
        ]
        tables = [
            (name, torch.randint(-2, 3, (3,) * (1 + (name[0] == "o"))))
            for name in ("sh", "sw", "oh", "ow")
            if f"{name}[" in equation
        ]
        try:
            text, _ = _torch.Einsum(equation, shapes, tables).source([])
        except (tc.LanguageError, tc.ShapeError) as error:
            assert str(error)
            continue
        assert _torch.parse(text).definitions[0].name == "einsum"
        taken += 1
    assert taken > 100


@pytest.mark.parametrize(
    ("text", "shapes", "tables"),
    [
        # A table decides h, so that h + r has to wait for it.
        ("(h+t[c]), (h+r)(r+s)s -> hrcs", [(10,), (20, 6, 3)], {"t": torch.tensor([0, 1, 2])}),
        ("(h+t[c])(w+x), (w+y)(x+y)x -> hwc", [(5, 9), (12, 6, 3)], {"t": torch.tensor([0, 2])}),
        # y - y + h names y, so that h has to wait for it; 0 * y + h is no less.
        ("y, (h+y)(y-y+h)(y) -> hy", [(3,), (3, 4, 3)], {}),
        ("y, (h+y)(0*y+h) -> hy", [(3,), (3, 4)], {}),
        ("y, (h+y)(2*y-y-y+h)y -> h", [(3,), (7, 4, 3)], {}),
    ],
)
def test_labels_that_wait_for_others(text: str, shapes: list, tables: dict) -> None:
    """The text of the definition has other rounds than the equation, but the same ranges."""
    generator = torch.Generator().manual_seed(0)
    values = [torch.randint(-3, 4, shape, generator=generator).float() for shape in shapes]
    wanted = reference(text, *values, **tables)
    actual = tc.einsum(text, *values, **tables)
    assert actual.shape == wanted.shape
    assert torch.equal(actual.double(), wanted)


# ---- errors

A = torch.ones(3, 4)
UNSIGNED = torch.tensor([0, -1], dtype=torch.int64).view(torch.uint64)
WRONG = [
    ("ij,jk->ikk", (), {}, tc.LanguageError, "label k stands in the output twice", 10),
    ("i$j", (), {}, tc.LanguageError, "expected labels (letters), ( or ... in the equation", 2),
    ("i..j", (), {}, tc.LanguageError, "an ellipsis has three points: ...", 2),
    ("...i...", (), {}, tc.LanguageError, "an operand has one ellipsis (...)", 5),
    ("ij-ik", (), {}, tc.LanguageError, "-> stands between the operands and the output", 3),
    ("ij->ij->i", (), {}, tc.LanguageError, "expected labels (letters), ( or ... in the output", 7),
    ("ij->i,j", (), {}, tc.LanguageError, "an equation has one output", 6),
    ("2*i", (), {}, tc.LanguageError, "integers stand in parentheses, as in (2*h + 1)", 1),
    ("i+j", (), {}, tc.LanguageError, "sums and products stand in parentheses", 2),
    ("i[j", (), {}, tc.LanguageError, "lookups stand in parentheses, as in (h + t[c])", 2),
    ("i)j", (), {}, tc.LanguageError, "there is no ( before it", 2),
    ("n(h+r", (), {}, tc.LanguageError, "the ( is not closed", 2),
    ("n(h+", (), {}, tc.LanguageError, "the ( is not closed", 5),
    ("n(2h)", (), {}, tc.LanguageError, "write a product with a *, as in 2*h", 4),
    ("n(h*r)", (), {}, tc.LanguageError, "a product is an integer times a label or a table", 5),
    ("n(2*3)", (), {}, tc.LanguageError, "a product is an integer times a label or a table", 5),
    ("n(2*h*2)", (), {}, tc.LanguageError, "a product is an integer times a label or a table", 6),
    ("n(h+oh)", (), {}, tc.LanguageError, "oh is no label, which is one letter", 5),
    ("n(h+oh[2])", (), {}, tc.LanguageError, "a table is looked up by labels, as in t[c]", 8),
    ("n(h+oh[c)", (), {}, tc.LanguageError, "expected , or ], found )", 9),
    ("n(h+oh[c", (), {}, tc.LanguageError, "the [ is not closed", 5),
    ("n(9999999999+h)", (), {}, tc.LanguageError, "the integer is too large", 3),
    ("ij->i(j+1)", (), {}, tc.LanguageError, "the output is made of labels", 6),
    ("\u00e9", (), {}, tc.LanguageError, "found \u00e9", 1),
    ("ij->k", (A,), {}, tc.LanguageError, "label k of the output stands in no operand", 5),
    ("i(j+k)", (A,), {}, tc.LanguageError, "the range of label j is not known", 3),
    ("i(j-j)", (A,), {}, tc.LanguageError, "the range of label j is not known", 3),
    ("ij,jk", (A,), {}, tc.ShapeError, "the equation has 2 operands but 1 was passed", None),
    ("ij", ([],), {}, tc.ShapeError, "the equation has 1 operand but 0 were passed", None),
    ("ij", (A, A), {}, tc.ShapeError, "the equation has 1 operand but 2 were passed", None),
    (
        *("ij,jk", (A, A), {}, tc.ShapeError),
        "label j is 4 (dimension 1 of operand 0) but 3 (dimension 0 of operand 1); sizes must",
        4,
    ),
    ("ii", (A,), {}, tc.ShapeError, "a diagonal runs over equal sizes", 2),
    ("i", (A,), {}, tc.ShapeError, "operand 0 has 2 dimensions, sizes [3, 4], but the equation", 1),
    ("ijk...", (A,), {}, tc.ShapeError, "but the equation names at least 3", 1),
    ("i(j+t[i])", (A,), {}, tc.ShapeError, "table t was not passed; pass it by name", 5),
    (
        *("i(j+t[i])", (A,), {"u": [1]}, tc.ShapeError),
        "table t was not passed; the tables are u",
        5,
    ),
    ("ij", (A,), {"u": [1]}, tc.ShapeError, "table u was passed, but the equation does not", None),
    (
        *("i(j+t[i])->ij", (A,), {"t": [0, 1, 5]}, tc.ShapeError),
        "label j has no value: dimension 1 of operand 0 has size 4, and the rest of the index runs "
        "from 0 to 5 (t[2] = 5)",
        2,
    ),
    (
        *("i(t[i])->i", (A,), {"t": [0, 1, 5]}, tc.ShapeError),
        "index (t[i]) is 5 at t[2] = 5, but dimension 1 of operand 0 has size 4",
        2,
    ),
    (
        *("i(t[i])->i", (A,), {"t": [0, -1, 3]}, tc.ShapeError),
        "index (t[i]) is -1 at t[1] = -1, but dimension 1 of operand 0 has size 4",
        2,
    ),
    (
        *("(i+t[i])j,i->ij", (A, torch.ones(2)), {"t": [0, 2]}, tc.ShapeError),
        "index (i+t[i]) is 3 at i = 1, t[1] = 2, but dimension 0 of operand 0 has size 3",
        1,
    ),
    (
        *("i(t[i])->i", (A,), {"t": [0, 1]}, tc.ShapeError),
        "label i is 2 (dimension 0 of table t) but 3 (dimension 0 of operand 0)",
        1,
    ),
    ("i(t[i])", (A,), {"t": [0.0, 1]}, tc.ShapeError, "table t is float32; tables hold int", None),
    (
        "i(t[i])",
        (A,),
        {"t": [[0], [1]]},
        tc.ShapeError,
        "table t has 2 dimensions, sizes [2, 1]",
        3,
    ),
    ("i(t[i])", (A,), {"t": "012"}, tc.ShapeError, "integers but got str: ", None),
    ("i(t[i])", (A,), {"t": None}, tc.ShapeError, "integers but got NoneType: ", None),
    ("i(t[i])", (A,), {"t": [[0], [1, 2]]}, tc.ShapeError, "integers but got list: ", None),
    (
        *("i(t[i])", (A,), {"t": torch.tensor([0, 1, 2]).to_sparse()}, tc.ShapeError),
        "table t: expected a strided tensor but got layout torch.sparse_coo; call to_dense() on it",
        None,
    ),
    (
        *("i(t[i])", (A,), {"t": [0, 1, 2**40]}, tc.ShapeError),
        "table t holds 1099511627776 at [2], but indices have 32 bits",
        None,
    ),
    (
        *("i(t[i])", (A,), {"t": UNSIGNED}, tc.ShapeError),
        "table t holds 18446744073709551615 at [1], but indices have 32 bits",
        None,
    ),
    (
        *("i(2147483647*t[i]+2147483647*t[i]+j)", (A,), {"t": [2**31 - 1] * 3}, tc.ShapeError),
        "an index takes values beyond 2^61",
        None,
    ),
    (
        "i(2147483647*x-2147483647*y-2147483647*z+j),x,y,z->ij",
        (A, *[torch.ones(1).expand(2**31 - 1)] * 3),
        *({}, tc.ShapeError, "an index takes values beyond 2^61", None),
    ),
    (
        *("i(j+r),r->ij", (A, torch.ones(6)), {}, tc.ShapeError),
        "label j has no value: dimension 1 of operand 0 has size 4, and the rest of the index runs "
        "from 0 to 5 (r = 5)",
        2,
    ),
    (
        *("(h-2147483647)k->hk", (A,), {}, tc.ShapeError),
        "label h runs from 2147483647 to 2147483649, but labels have 32 bits: -2147483647 to "
        "2147483646; make the integers in its index smaller",
        1,
    ),
    (
        *("k,(h+2147483647+1)k->hk", (torch.ones(4), A), {}, tc.ShapeError),
        "label h runs from -2147483648 to -2147483646, but labels have 32 bits",
        3,
    ),
    (
        *("(h-2147483647-2147483647)k->hk", (A,), {}, tc.ShapeError),
        "label h runs from 4294967294 to 4294967296, but labels have 32 bits",
        1,
    ),
    ("ij,jk", (A, A.double()), {}, tc.ShapeError, "operand 1 is float64 but operand 0 is", None),
    ("ij", (A.bool(),), {}, tc.ShapeError, "sums of products of bool have no type", None),
    ("ij", (A.to(torch.complex64),), {}, tc.ShapeError, "operand 0 is complex64, which", None),
    ("ij", (A.to_sparse(),), {}, tc.ShapeError, "got layout torch.sparse_coo; call to_den", None),
    ("ij", (3,), {}, tc.ShapeError, "operand 0: expected a tensor but got int", None),
]


@pytest.mark.parametrize(("equation", "operands", "tables", "error", "message", "column"), WRONG)
def test_errors(
    equation: str, operands: tuple, tables: dict, error: type, message: str, column: int | None
) -> None:
    with pytest.raises(error) as caught:
        tc.einsum(equation, *(operands or (A,)), **tables)
    text = str(caught.value)
    assert message in text
    if column is not None:
        line, caret = text.splitlines()[-2:]
        assert line.strip() == equation
        assert caret.index("^") - 2 == column - 1


def test_errors_of_sublists() -> None:
    with pytest.raises(tc.TCError, match="52 in a sublist; labels are integers from 0 to 51"):
        tc.einsum(A, [0, 52])
    with pytest.raises(tc.TCError, match="an equation was expected, or operands each with"):
        tc.einsum(A)
    with pytest.raises(tc.TCError, match="int in the place of a sublist, a list of labels"):
        tc.einsum(A, 3)
    assert torch.equal(tc.einsum(A, range(2), range(1, -1, -1)), A.t())


def test_errors_after_calls_that_were_right() -> None:
    """A plan for these sizes is there already."""
    assert torch.equal(tc.einsum("ij->ji", A), A.t())
    with pytest.raises(tc.ShapeError, match="operand 0: expected a strided tensor but got layout"):
        tc.einsum("ij->ji", A.to_sparse())
    with pytest.raises(tc.ShapeError, match="operand 1 is on meta but operand 0 is on cpu"):
        tc.einsum("ij,ij->ji", A, A.to("meta"))
    assert torch.equal(tc.einsum("ij,ij->ji", A, A), A.t())
    with pytest.raises(tc.ShapeError, match="operand 1 is on meta but operand 0 is on cpu"):
        tc.einsum("ij,ij->ji", A, A.to("meta"))


def test_a_failed_call_spoils_nothing() -> None:
    for _ in range(2):
        with pytest.raises(tc.ShapeError):
            tc.einsum("i(j+t[i])->ij", A, t=[0, 1, 5])
        assert torch.equal(tc.einsum("i(j+t[i])->ij", A, t=[0, 1, 2]), torch.ones(3, 2))


def test_document() -> None:
    """Every call in docs/einsum.md means what reference or torch.einsum says."""
    text = (Path(__file__).parents[2] / "docs" / "einsum.md").read_text()
    calls = re.findall(r'^tc\.einsum\("([^"]+)", ([\w, =]+)\)', text, re.M)
    assert len(calls) == 6
    values = {
        "data": DATA,
        "weight": WEIGHT,
        "filters": WEIGHT[:, 0],
        "mix": WEIGHT[..., 0, 0],
        "few": WEIGHT[..., :2, 0],
        "a": torch.randn(2, 3, 4),
        "b": torch.randn(4, 5),
        **SHIFTS,
        **OFFSETS,
    }
    for equation, arguments in calls:
        names = arguments.split(", ")
        operands = [values[name] for name in names if "=" not in name]
        tables = {name.split("=")[0]: values[name.split("=")[1]] for name in names if "=" in name}
        actual = tc.einsum(equation, *operands, **tables)
        if "..." in equation:
            wanted = torch.einsum(equation, *operands).double()
        else:
            wanted = reference(equation, *operands, **tables)
        torch.testing.assert_close(actual.double(), wanted, rtol=1e-5, atol=1e-5)


def test_importing_the_package_does_not_load_dynamo() -> None:
    """And what marks einsum for it is there when a compiled function asks first."""
    program = """
import sys, torch, tensor_comprehensions as tc
assert "torch._dynamo" not in sys.modules
layer = torch.compile(lambda a: tc.einsum("ij->ji", a), fullgraph=True, backend="aot_eager")
a = torch.randn(3, 4)
assert torch.equal(layer(a), a.t())
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_a_table_that_inference_has_seen_first_is_trained_with() -> None:
    data, shift = torch.randn(2, 3, 8, 8), torch.tensor([0, 1, 2])
    mix = torch.nn.Parameter(torch.randn(3, 4))
    equation = "nc(h+sh[c])w, ck -> nkhw"
    with torch.inference_mode():
        first = tc.einsum(equation, data, mix, sh=shift)
    result = tc.einsum(equation, data, mix, sh=shift)
    assert torch.equal(first, result)
    result.sum().backward()
    windows = torch.stack([data[:, c, c : c + 6].sum() for c in range(3)])
    torch.testing.assert_close(mix.grad, windows[:, None].expand(3, 4), rtol=1e-4, atol=1e-4)


def test_an_empty_list_is_one_of_integers() -> None:
    x = torch.randn(0, 9)
    wanted = tc.einsum("c(h+s[c]) -> h", x, s=torch.zeros(0, dtype=torch.int64))
    assert torch.equal(tc.einsum("c(h+s[c]) -> h", x, s=[]), wanted)
