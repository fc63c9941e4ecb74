"""The library of definitions: loading, every definition against PyTorch, its documentation."""

from __future__ import annotations

import logging
import os
import re
import warnings
from pathlib import Path

import emulated
import pytest
import torch
import torch.nn.functional as F
from operators import CASES, Case, Values
from operators.document import document, entries
from operators.features import text_of
from operators.published import MEANT, PUBLISHED
from workloads import REJECTED, WORKLOADS, assert_near

import tensor_comprehensions as tc

INF = float("inf")
ROOT = Path(__file__).resolve().parents[2]
DOCUMENT = ROOT / "docs" / "ops.md"

# Hand-written derivatives: tests/library/test_examples.py compares them with autograd.
GRADIENTS = {"convolution_grad", "linear_grad", "max_pooling_grad", "relu_grad"}

INSTANCES = [(case, sizes) for case in CASES for sizes in case.sizes]


def is_between(case: Case, sizes: tuple[int, ...]) -> bool:
    """Neither the first sizes, which are odd, nor the last ones, which are all 1."""
    return sizes not in (case.sizes[0], case.sizes[-1])


every_size = pytest.mark.parametrize(
    ("case", "sizes"),
    [
        pytest.param(case, sizes, marks=pytest.mark.slow if is_between(case, sizes) else ())
        for case, sizes in INSTANCES
    ],
    ids=[f"{case.definition}-{'x'.join(map(str, sizes))}" for case, sizes in INSTANCES],
)
every_case = pytest.mark.parametrize("case", CASES, ids=lambda case: case.definition)
every_definition = pytest.mark.parametrize(
    "case", {case.definition: case for case in CASES}.values(), ids=lambda case: case.definition
)


# Their values of large negative numbers are reciprocals of exponentials that overflow: 0.
RECIPROCALS = {"sigmoid", "silu"}


def compute(case: Case, dtype: torch.dtype, inputs: tuple, options: object = None) -> tuple:
    t = tc.define(text_of(case.definition, dtype), options, namespace=f"tc_ops_{str(dtype)[6:]}")
    results = t(case.definition, *inputs)
    return results if isinstance(results, tuple) else (results,)


def check(case: Case, dtype: torch.dtype, actual: tuple, inputs: tuple) -> None:
    """Within the rounding of the longest sum, of the largest value or of each."""
    expected = case.expected(inputs)
    assert len(actual) == len(expected)
    for a, e in zip(actual, expected, strict=True):
        assert a.shape == e.shape
        if not e.is_floating_point():
            assert a.dtype == e.dtype
            assert torch.equal(a, e)
            continue
        assert a.dtype == dtype
        finite = e[e.isfinite()]
        largest = finite.abs().max().item() if finite.numel() else 0.0
        info = torch.finfo(dtype)
        bound = 4 * case.terms * info.eps
        least = 256 * info.smallest_normal * info.eps  # some distances of denormal numbers
        if case.definition in RECIPROCALS:
            least = 128 * info.smallest_normal
        torch.testing.assert_close(
            a.double(), e, rtol=bound, atol=least if case.digits else bound * largest
        )


# ---- values


@every_size
def test_float(case: Case, sizes: tuple[int, ...]) -> None:
    inputs = case.inputs(Values(torch.float32), *sizes)
    check(case, torch.float32, compute(case, torch.float32, inputs), inputs)


@pytest.mark.sampled(every=3)
@every_case
def test_double(case: Case) -> None:
    inputs = case.inputs(Values(torch.float64), *case.sizes[0])
    check(case, torch.float64, compute(case, torch.float64, inputs), inputs)


@pytest.mark.sampled(every=3)
@every_case
def test_identity_schedule(case: Case) -> None:
    inputs = case.inputs(Values(torch.float32), *case.sizes[0])
    check(case, torch.float32, compute(case, torch.float32, inputs, "identity"), inputs)


@pytest.mark.sampled(every=3)
@every_definition
def test_cuda(case: Case) -> None:
    """Compiled by NVRTC, and run under the emulator."""
    inputs = case.inputs(Values(torch.float32), *case.sizes[0])
    text = tc.ops.source(case.definition)
    executor = tc.compile(text, case.definition, None, *inputs, target="cuda:sm_90")
    assert len(executor.binary) > 0
    assert executor.number("spill_bytes") == 0
    outputs = emulated.make_outputs(executor, inputs)
    emulated.run(executor, inputs, outputs, initial=0)
    check(case, torch.float32, outputs, inputs)


@every_case
def test_references_have_the_derivatives_that_cases_name(case: Case) -> None:
    inputs = list(case.inputs(Values(torch.float64), *case.sizes[0]))
    places = case.differentiable(tuple(inputs))
    leaves = [inputs[k].requires_grad_() for k in places]
    results = [r for r in case.expected(tuple(inputs)) if r.is_floating_point()]
    if not places:
        assert not any(r.requires_grad for r in results)
        return
    gradients = torch.autograd.grad([r.sum() for r in results], leaves)
    assert all(g.isfinite().all() for g in gradients)


WORKLOADS_BY_NAME = {w.name: w for w in WORKLOADS}


@pytest.mark.parametrize("name", PUBLISHED)
def test_texts_of_the_papers_are_here(name: str) -> None:
    definition, arguments = PUBLISHED[name]
    workload = WORKLOADS_BY_NAME[name]
    torch.manual_seed(0)
    inputs = workload.inputs()
    if workload.initial is not None:
        inputs = (*inputs, *workload.initial())
    expected = workload.reference(*inputs)
    results = tc.ops.load(definition)(definition, *arguments(*inputs))
    results = results if isinstance(results, tuple) else (results,)
    assert_near(workload, results, expected)


def test_no_text_of_the_papers_is_missing() -> None:
    # The layers of networks with their gradients are in no paper.
    ours = re.compile("convolution_|input_gradient_|weight_gradient_")
    assert {name for name in WORKLOADS_BY_NAME if not ours.match(name)} == set(PUBLISHED)
    assert set(MEANT) == set(REJECTED)
    assert set(MEANT.values()) <= set(tc.ops.definitions())


# ---- loading


def test_every_definition_has_a_case() -> None:
    tested = {case.definition for case in CASES}
    assert tested & GRADIENTS == set()
    assert tested | GRADIENTS == set(tc.ops.definitions())


def test_files_are_those_of_the_checkout() -> None:
    files = {path.stem: path.read_text() for path in (ROOT / "ops").glob("*.tc")}
    assert tc.ops.names() == sorted(files)
    assert {name: tc.ops.source(name) for name in files} == files


@pytest.mark.parametrize("name", tc.ops.names())
def test_loads_without_warnings(name: str, caplog: pytest.LogCaptureFixture) -> None:
    text = tc.ops.source(name)
    with warnings.catch_warnings(), caplog.at_level(logging.WARNING, "tensor_comprehensions"):
        warnings.simplefilter("error")
        # Another text to the parser, which warns of each once.
        tc.define(text + "# again\n", namespace="tc_ops_again")
        t = tc.ops.load(name)
    # Others have loggers too: a notebook that is closed says so whenever Python comes to it.
    assert not [r for r in caplog.records if r.name.startswith("tensor_comprehensions")]
    defined = [d for d, file in tc.ops.definitions().items() if file == name]
    assert defined
    for definition in defined:
        assert getattr(t, definition).__name__ == definition
        assert hasattr(torch.ops.tc_ops, definition)


def test_definitions_have_one_file_each() -> None:
    heads = re.findall(r"^def (\w+)", "".join(map(tc.ops.source, tc.ops.names())), re.MULTILINE)
    assert len(heads) == len(set(heads)) == len(tc.ops.definitions())
    # A file's name may be that of a definition only where it is in that file.
    assert all(file == tc.ops.definitions().get(file, file) for file in tc.ops.names())


def test_a_definition_is_a_name_too() -> None:
    by_file, by_definition = tc.ops.load("group_convolution"), tc.ops.load("depthwise_convolution")
    assert by_file.depthwise_convolution is by_definition.depthwise_convolution
    assert tc.ops.source("depthwise_convolution") == tc.ops.source("group_convolution")


def test_names_do_not_collide_with_ones_own() -> None:
    tc.ops.load("matmul")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        own = tc.define("def matmul(float(N) a) -> (b) { b(n) = 2 * a(n) }", namespace="tc_own")
    assert own.matmul(torch.ones(3)).tolist() == [2, 2, 2]
    a, b = torch.randn(3, 4), torch.randn(4, 5)
    torch.testing.assert_close(torch.ops.tc_ops.matmul(a, b), a @ b)


def test_options_and_namespace_are_those_of_define() -> None:
    chosen = []

    def factory(source: str, entry_point: str, *inputs: object) -> tc.MappingOptions:
        chosen.append((source, entry_point))
        return tc.MappingOptions("naive")

    t = tc.ops.load("transpose", factory, namespace="tc_ops_options")
    x = torch.randn(5, 7)
    assert torch.equal(t.transpose(x), x.t())
    assert chosen == [(tc.ops.source("transpose"), "transpose")]
    assert torch.equal(torch.ops.tc_ops_options.transpose(x), x.t())


@pytest.mark.parametrize("function", [tc.ops.load, tc.ops.source])
def test_unknown_names(function) -> None:
    message = (
        r"the library has no operator 'group_convolutoin'; did you mean group_convolution or .*\? "
        r"It has: activations, adaptive_average_pooling, .*, upsample_nearest, vectors"
    )
    with pytest.raises(tc.TCError, match=message):
        function("group_convolutoin")
    with pytest.raises(tc.TCError, match=r"no operator 'xyzzy'; it has: activations, .*"):
        function("xyzzy")
    with pytest.raises(TypeError, match="the name of an operator was expected, not int"):
        function(3)


def test_dir() -> None:
    assert dir(tc.ops) == ["definitions", "load", "names", "source"]
    assert tc.ops.names() == sorted(tc.ops.names())
    assert tc.ops.definitions()["mlp3"] == "mlp"
    assert "ops" in tc.__all__


# ---- numbers that are none


#: Where a NaN is read by one side alone: as a factor of a zero, as the neighbour beside which a
#: result lies by chance; texts of 2018 have fmax, which ignores it; distances in PyTorch ignore it.
NAN_APART = {
    *("sparse_filter_convolution", "transposed_convolution", "upsample_bilinear"),
    *("mlp1", "mlp2", "mlp3", "mlp4", "production_model", "maximum_distances"),
}


@pytest.mark.sampled(every=4)
@pytest.mark.parametrize(
    "case",
    {case.definition: case for case in CASES if case.definition not in NAN_APART}.values(),
    ids=lambda case: case.definition,
)
def test_nan(case: Case) -> None:
    """A NaN among the inputs becomes NaN in just the results where PyTorch has one."""
    inputs = case.inputs(Values(torch.float32), *case.sizes[0])
    for place, x in enumerate(inputs):
        if not isinstance(x, torch.Tensor) or not x.is_floating_point() or x.numel() < 2:
            continue
        changed = list(inputs)
        changed[place] = x.clone()
        changed[place].view(-1)[1] = float("nan")
        try:
            expected = case.expected(tuple(changed))
        except RuntimeError:
            continue  # PyTorch refuses what is no probability
        actual = compute(case, torch.float32, tuple(changed))
        for a, e in zip(actual, expected, strict=True):
            assert torch.equal(a.isnan(), e.isnan())


@pytest.mark.parametrize("row", [[-INF] * 5, [INF, 1, 2, 3, -INF], [-INF, 1, 2, -INF, 0]])
def test_logsumexp_of_infinite_numbers(row: list[float]) -> None:
    x = torch.tensor([row, [1.0, 2, 3, 4, 5]])
    torch.testing.assert_close(tc.ops.load("softmax").logsumexp(x), torch.logsumexp(x, 1))


# ---- where a root is of 0, a logarithm of 0 or an exponential of -inf


def some_rows_zero(rows: int) -> torch.Tensor:
    x = torch.randn(rows, 7, generator=torch.Generator().manual_seed(rows))
    x[1] = 0
    return x


ZERO_ROWS = [
    ("l2_normalization", lambda x, e: F.normalize(x, eps=e), (some_rows_zero(5), 1e-12)),
    (
        "cosine_similarity",
        lambda a, b, e: F.cosine_similarity(a, b, eps=e),
        (some_rows_zero(5), some_rows_zero(5).flip(0), 1e-8),
    ),
    (
        "cosine_similarity_all",
        lambda a, b, e: F.cosine_similarity(a[:, None], b[None], 2, e),
        (some_rows_zero(5), some_rows_zero(4), 1e-8),
    ),
    (
        "pairwise_distance",
        lambda a, b, e: F.pairwise_distance(a, b, eps=e),
        (some_rows_zero(5), torch.zeros(5, 7), 0.0),
    ),
    ("distances", torch.cdist, (some_rows_zero(5), some_rows_zero(4))),
    ("distances", torch.cdist, (some_rows_zero(5), some_rows_zero(5))),
    ("norm_rows", lambda x: torch.linalg.vector_norm(x, dim=1), (some_rows_zero(5),)),
    ("standard_deviation", lambda x: x.std(1), (some_rows_zero(5) + 2,)),
]


def check_with_gradients(name: str, reference, inputs: tuple, dtype=torch.float32) -> None:
    """The result and the gradients of all floating-point tensors, all of them finite."""
    function = tc.make_autograd(
        getattr(tc.define(text_of(name, dtype), namespace=f"tc_corners_{str(dtype)[6:]}"), name)
    )
    found = []
    for f, kind in ((function, dtype), (reference, torch.float64)):
        leaves = [
            x.to(kind).requires_grad_()
            if isinstance(x, torch.Tensor) and x.is_floating_point()
            else x
            for x in (x.clone() if isinstance(x, torch.Tensor) else x for x in inputs)
        ]
        result = f(*leaves)
        weights = torch.arange(1, result.numel() + 1, dtype=kind).cos().view(result.shape)
        (result * weights).sum().backward()
        gradients = [x.grad for x in leaves if isinstance(x, torch.Tensor) and x.requires_grad]
        found.append([result.detach(), *gradients])
    for ours, theirs in zip(*found, strict=True):
        torch.testing.assert_close(ours.double(), theirs, rtol=1e-4, atol=1e-5)
    assert all(g.isfinite().all() for g in found[0][1:])


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize(("name", "reference", "inputs"), ZERO_ROWS)
def test_gradients_of_zero_lengths(name: str, reference, inputs: tuple, dtype) -> None:
    check_with_gradients(name, reference, inputs, dtype)


@pytest.mark.parametrize("name", ["norm_rows", "l2_normalization", "distances"])
def test_nan_passes_lengths(name: str) -> None:
    x = some_rows_zero(3)
    x[0, 2] = float("nan")
    arguments = {"norm_rows": (x,), "l2_normalization": (x, 1e-12), "distances": (x, x)}[name]
    result = getattr(tc.ops.load(name), name)(*arguments)
    assert result[0].isnan().all()
    assert not result[1, 1:].isnan().any() if result.dim() > 1 else not result[1:].isnan().any()


def test_gradient_of_certain_probabilities() -> None:
    """That of a logarithm which was cut off is 0, as of any other that is clamped.

    PyTorch has a rule of its own there, which divides by 1e-12.
    """
    probabilities = torch.tensor([[0.0, 0.0, 1.0, 1.0, 0.25, 1e-43]], requires_grad=True)
    target = torch.tensor([[0.0, 1.0, 0.0, 1.0, 1.0, 0.0]])
    loss = tc.make_autograd(tc.ops.load("losses").binary_cross_entropy)(probabilities, target)
    loss.backward()
    torch.testing.assert_close(
        loss, F.binary_cross_entropy(probabilities.detach().double(), target.double()).float()
    )
    assert probabilities.grad is not None
    torch.testing.assert_close(
        6 * probabilities.grad, torch.tensor([[1.0, 0.0, 0.0, -1.0, -4.0, 1.0]])
    )


def cross_entropies(n: int, c: int) -> dict[str, tuple]:
    v = Values(torch.float32)
    classes = v.classes(c, n)
    return {
        "cross_entropy": (F.cross_entropy, (classes,)),
        "cross_entropy_weighted": (F.cross_entropy, (classes, v.between(0.5, 2, c))),
        "cross_entropy_smoothed": (
            lambda x, y, s: F.cross_entropy(x, y, label_smoothing=s),
            (classes, 0.0),
        ),
        "cross_entropy_probabilities": (F.cross_entropy, (F.one_hot(classes, c).float(),)),
    }


@pytest.mark.parametrize("name", cross_entropies(1, 1))
def test_cross_entropies_of_large_scores(name: str) -> None:
    """The logarithm keeps its digits beside scores of a million that are nearly equal."""
    reference, others = cross_entropies(9, 5)[name]
    scores = 1e6 + Values(torch.float32, seed=1).integers(0, 3, 9, 5).float()
    exact = [
        x.double() if isinstance(x, torch.Tensor) and x.is_floating_point() else x for x in others
    ]
    torch.testing.assert_close(
        getattr(tc.ops.load(name), name)(scores, *others).double(),
        reference(scores.double(), *exact),
        rtol=1e-5,
        atol=0,
    )


@pytest.mark.parametrize("smoothing", [0.0, 0.25])
def test_impossible_classes(smoothing: float) -> None:
    """Scores of -inf beside the right class, and for it."""
    _, (classes, _) = cross_entropies(9, 5)["cross_entropy_smoothed"]
    function = tc.ops.load("losses").cross_entropy_smoothed
    for shift in (1, 0):
        scores = Values(torch.float32)(9, 5)
        scores[2, (classes[2] + shift) % 5] = -INF
        torch.testing.assert_close(
            function(scores, classes, smoothing),
            F.cross_entropy(scores, classes, label_smoothing=smoothing),
        )
        if shift and not smoothing:
            check_with_gradients(
                "cross_entropy_smoothed",
                lambda x, y, s: F.cross_entropy(x, y, label_smoothing=s),
                (scores, classes, 0),
            )


def test_attention_of_a_query_that_may_see_nothing() -> None:
    v = Values(torch.float32)
    q, k, values = v(2, 3, 5, 8), v(2, 3, 6, 8), v(2, 3, 6, 7)
    bias = v(5, 6)
    bias[1] = -INF
    bias[3, :4] = -INF
    check_with_gradients(
        "biased_attention",
        lambda q, k, values, bias: F.scaled_dot_product_attention(q, k, values, bias),
        (q, k, values, bias),
    )
    output = tc.ops.load("attention").biased_attention(q, k, values, bias)
    assert torch.equal(output[:, :, 1], torch.zeros(2, 3, 7))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_cumulative_logsumexp_after_nothing(dtype: torch.dtype) -> None:
    x = torch.tensor(
        [[-INF, -INF, 1, 2, 3], [1, -INF, 2, -INF, 0], [-INF] * 5, [-1e4, -INF, -1e4, 1e4, 0]],
        dtype=dtype,
    )
    function = tc.make_autograd(
        tc.define(
            text_of("cumulative_logsumexp", dtype), namespace=f"tc_corners_{str(dtype)[6:]}"
        ).cumulative_logsumexp
    )
    leaf = x.clone().requires_grad_()
    result = function(leaf)
    torch.testing.assert_close(result, torch.logcumsumexp(x, 1))
    result.sum().backward()
    # PyTorch's gradient of a leading -inf is NaN; numbers that leave no trace there show the limit.
    least = x.double().nan_to_num(neginf=-1e6).requires_grad_()
    torch.logcumsumexp(least, 1).sum().backward()
    assert leaf.grad is not None
    finite = x.isfinite()
    torch.testing.assert_close(leaf.grad[finite], least.grad[finite].to(dtype))
    assert torch.equal(leaf.grad[~finite], torch.zeros_like(leaf.grad[~finite]))


@pytest.mark.parametrize("weight", [0.0, 0.25, 0.5, 0.75, 1.0, 1.5, -2.0])
def test_lerp_reaches_both_ends(weight: float) -> None:
    a, b = torch.tensor([[1e8, 1.0, -3.0]]), torch.tensor([[1.0, 1e8, 4.0]])
    assert torch.equal(tc.ops.load("copy").lerp(a, b, weight), torch.lerp(a, b, weight))


# ---- comments and docs/ops.md


@pytest.mark.parametrize("name", tc.ops.names())
def test_comments(name: str) -> None:
    text = tc.ops.source(name)
    assert text.isascii()
    assert all(len(line) <= 100 and line == line.rstrip() for line in text.splitlines())
    found = entries(name)
    assert [e.name for e in found] == re.findall(r"^def (\w+)", text, re.MULTILINE)
    for entry in found:
        assert entry.meaning.endswith("."), entry.name
        assert entry.pytorch, f"{entry.name} does not say what it equals in PyTorch"


def test_document() -> None:
    if os.environ.get("TC_UPDATE_GOLDEN") == "1":
        DOCUMENT.write_text(document())
    assert DOCUMENT.read_text() == document(), (
        "docs/ops.md does not say what the comments of ops/ say: TC_UPDATE_GOLDEN=1 writes it anew"
    )


def test_program_of_the_document() -> None:
    names: dict[str, object] = {}
    for block in DOCUMENT.read_text().split("```python\n")[1:]:
        exec(block.partition("```")[0], names)
    assert names["output"].shape == (8, 4, 5, 14, 14)
    assert names["means"].tolist() == [100, 100, 100]


def test_what_the_document_says_of_other_words() -> None:
    """Sums in half are infinite; double, and what only moves or chooses, is right."""

    def define(word: str, name: str) -> tc.TC:
        text = re.sub(r"\bfloat\b", word, tc.ops.source(name))
        return tc.define(text, namespace=f"tc_ops_in_{word}")

    x = torch.full((3, 4096), 100.0, dtype=torch.half)
    assert define("half", "mean_rows").mean_rows(x).tolist() == [INF] * 3
    assert define("double", "mean_rows").mean_rows(x.double()).tolist() == [100] * 3
    x = Values(torch.half)(5, 7)
    for word, dtype in {"half": torch.half, "bfloat16": torch.bfloat16, "int": torch.int32}.items():
        given = (100 * x).to(dtype)
        assert torch.equal(define(word, "transpose").transpose(given), given.t())
        assert torch.equal(define(word, "max_rows").max_rows(given), given.amax(1))


@pytest.mark.parametrize("word", ["double", "half", "bfloat16"])
@pytest.mark.parametrize("name", tc.ops.names())
def test_files_are_defined_with_other_words(name: str, word: str) -> None:
    """No number in a text is beyond another type."""
    try:
        tc.define(re.sub(r"\bfloat\b", word, tc.ops.source(name)), namespace=f"tc_ops_in_{word}")
    except tc.TCError as error:
        pytest.fail(str(error))
