"""Sums of derivatives that are zero whatever the data are not computed; all others are."""

from __future__ import annotations

import itertools
import re

import pytest
import torch
from derived import checked_gradient
from operators import CASES

import tensor_comprehensions as tc
from tensor_comprehensions._torch import parse

_namespaces = itertools.count()

HEAD = "def f(double(N, D) X, double(N, D) Y, double(D) w, double(N) v) -> (O) "
SQUARES = "O(n) +=! (X(n, d) - M(n)) * (X(n, d) - M(n))"
# Variances, whose derivative by the mean is the sum of deviations.
OWN_MEANS = {
    "of rows": "{ S(n) +=! X(n, d)  M(n) = S(n) / D " + SQUARES + " }",
    "in place": "{ S(n) +=! X(n, d)  O(n) +=! (X(n, d) - S(n) / D) * (X(n, d) - S(n) / D) * v(n) }",
    "of columns": "{ S(d) +=! X(n, d)  M(d) = S(d) / N"
    "  O(d) +=! (X(n, d) - M(d)) * (X(n, d) - M(d)) * w(d) }",
    "of all": "{ S +=! X(n, d)  M = S / D / N  O +=! (X(n, d) - M) * (X(n, d) - M) }",
    "of all, by their number": "{ S +=! X(n, d)  M = S / (N * D)"
    "  O +=! (X(n, d) - M) * (X(n, d) - M) }",
    "behind a name": "{ S(i) +=! X(i, j)  M(k) = S(k) / D  Z(i, j) = X(i, j) - M(i)"
    "  O(n) +=! Z(n, d) * Z(n, d) }",
    "of products": "{ S(n) +=! X(n, d)  M(n) = S(n) / D"
    "  O(i, j) +=! (X(i, d) - M(i)) * (X(j, d) - M(j)) }",
}
# What none of the sums below must be taken for: sizes that are tried are small.
OTHER_SUMS = {
    "over another size": "{ S(n) +=! X(n, d)  M(n) = S(n) / N " + SQUARES + " }",
    "by a number": "{ S(n) +=! X(n, d)  M(n) = S(n) / 4 " + SQUARES + " }",
    "by half a size": "{ S(n) +=! X(n, d)  M(n) = S(n) / (D / 2) " + SQUARES + " }",
    "from somewhere on": "{ S(n) +=! d >= 3 ? X(n, d) : 0  M(n) = S(n) / D " + SQUARES + " }",
    "one less": "{ S(n) +=! X(n, d)  M(n) = S(n) / (D - 1) " + SQUARES + " }",
    "of a part": "{ S(n) +=! X(n, d) where d in 0:D - 1  M(n) = S(n) / D " + SQUARES + " }",
    "weighted": "{ S(n) +=! X(n, d) * w(d)  M(n) = S(n) / D " + SQUARES + " }",
    "of another tensor": "{ S(n) +=! Y(n, d)  M(n) = S(n) / D " + SQUARES + " }",
    "of another row": "{ S(n) +=! X(n, d)  M(n) = S(n) / D"
    "  O(n) +=! (X(n, d) - M(3 - n)) * (X(n, d) - M(3 - n)) }",
    "weighted deviations": "{ S(n) +=! X(n, d)  M(n) = S(n) / D"
    "  O(n) +=! (X(n, d) - M(n)) * (X(n, d) - M(n)) * w(d) }",
    "of a part of the deviations": "{ S(n) +=! X(n, d)  M(n) = S(n) / D"
    "  O(n) +=! (X(n, d) - M(n)) * (X(n, d) - M(n)) where d in 1:D }",
    "a sum that goes on": "{ S(n) = v(n)  S(n) += X(n, d)  M(n) = S(n) / D " + SQUARES + " }",
    "products": "{ S(n) *=! X(n, d)  M(n) = S(n) / D " + SQUARES + " }",
}


def check(statements: str) -> str:
    return checked_gradient(HEAD + statements, (4, 5), (4, 5), (5,), (4,))


@pytest.mark.parametrize("name", OWN_MEANS)
def test_deviations_from_their_own_mean(name: str) -> None:
    text = check(OWN_MEANS[name])
    assert "d_M" not in text
    assert "d_S" not in text


@pytest.mark.parametrize("name", OTHER_SUMS)
def test_other_sums_are_computed(name: str) -> None:
    text = check(OTHER_SUMS[name])
    assert "d_M" in text or "d_S" in text


def test_an_input_that_nothing_depends_on() -> None:
    """The deviations are multiplied by it before they are summed: its gradient is zero."""
    text = """def f(double(N, D) X, double(N) v) -> (O) {
        S(n) +=! X(n, d)
        O(n) +=! v(n) * (X(n, d) - S(n) / D)
    }"""
    f = tc.make_autograd(tc.define(text, namespace=f"tc_zero_sums_{next(_namespaces)}").f)
    x, v = (torch.rand(*s, dtype=torch.double, requires_grad=True) for s in ((4, 5), (4,)))
    assert torch.autograd.gradcheck(f, (x, v))
    assert "d_v(i0) = double(0.0)" in tc.grad_source(text)


FAR = {
    "conditions": "{ S(n) +=! d >= 40 ? X(n, d) : 0.0  O(n) = S(n) * v(n) }",
    "conditions of two": "{ O(n, e) +=! d - e >= 40 ? X(n, d) : 0.0 where e in 0:D, d in 0:D }",
    "sizes": "{ O(n, e) +=! d - e >= N ? X(n, d) : 0.0 where e in 0:D, d in 0:D }",
    "parts": "{ T(n, d) = 0.0 * v(n) where d in 0:D  T(n, d) = X(n, d) where d in 0:D / 30"
    "  O(n) +=! T(n, d) * v(n) }",
    "quotients": "{ S(n) +=! X(n, d) - X(n, d / 30)  O(n) = S(n) * v(n) }",
    "remainders": "{ S(n) +=! X(n, d) - X(n, d % 30)  O(n) = S(n) * v(n) }",
    "extremes": "{ S(n) +=! X(n, d) - X(n, min(d, 30))  O(n) = S(n) * v(n) }",
    "casts": "{ S(n) +=! X(n, d) - X(n, uint8(4 * d) / 4)  O(n) = S(n) * v(n) }",
    "even ones": "{ S(n) +=! X(n, d) - X(n, d / 2 * 2)  O(n) = S(n) * v(n) }",
    "distances": "{ S(n) +=! X(n, abs(d - 30)) - X(n, max(d, 30) - 30) where d in 0:D"
    "  O(n) = S(n) * v(n) }",
    "rotations": "{ S(n) +=! w(d) * (X(n, (d + 40) % D) - X(n, (d + 41) % D))"
    "  O(n) = S(n) * v(n) }",
    "what small sizes do not have": "{ S(n) +=! X(n, d + 30) - X(n, d + 31) where d in 0:30"
    "  O(n) = S(n) * v(n) }",
    "ranges": "{ S(n) +=! X(n, 30 * d) where d in 0:D / 30  O(n) = S(n) * v(n) }",
    "positions": "{ S(n) +=! X(n, d) * (d - 1) * (d - 2) * (d - 3) * (d - 4) * (d - 0)"
    "  O(n) = S(n) * v(n) }",
}


@pytest.mark.parametrize("statements", FAR.values(), ids=FAR)
def test_what_differs_far_out_is_computed(statements: str) -> None:
    text = HEAD + statements
    torch.manual_seed(6)
    inputs = [
        torch.rand(*sizes, dtype=torch.double, requires_grad=True)
        for sizes in ((3, 64), (3, 64), (64,), (3,))
    ]
    f = tc.make_autograd(tc.define(text, namespace=f"tc_zero_sums_{next(_namespaces)}").f)
    assert torch.autograd.gradcheck(f, tuple(inputs))


@pytest.mark.parametrize("definition", sorted({case.definition for case in CASES}))
def test_no_input_of_the_library_is_without_effect(definition: str) -> None:
    (found,) = [d for d in parse(tc.ops.source(definition)).definitions if d.name == definition]
    numbers = {info.name: 2 for info in found.inputs if info.is_specialized}
    try:
        text = tc.grad_source(tc.ops.source(definition), definition, **numbers)
    except tc.LanguageError:
        return  # it has no derivative, as one_hot
    assert not re.search(r"= \w+\(0\.0\)", text)


SOFTMAXES = [
    *("softmax", "softmin", "log_softmax", "logsumexp", "softmax_columns", "masked_softmax"),
    *("causal_softmax", "cross_entropy", "cross_entropy_weighted", "attention"),
    *("causal_attention", "grouped_query_attention", "biased_attention", "cumulative_logsumexp"),
]


@pytest.mark.parametrize("name", SOFTMAXES)
def test_the_largest_element_of_a_softmax_receives_nothing(name: str) -> None:
    """A softmax is the same for rows that all differ by one number."""
    text = tc.grad_source(tc.ops.source(name), name)
    assert "d_largest" not in text
    assert "ties" not in text


# What is added to the scores of attention, and what of, at places of the inputs.
BIASES = {
    "of pairs": ("double(T, T) b", "b(i, j)", (4, 4)),
    "of distances": ("double(R) b", "b(i - j + T - 1)", (7,)),
    "of distances around the middle": ("double(R) b", "b(i - j + R / 2)", (8,)),
    "of absolute distances": ("double(R) b", "b(abs(i - j))", (4,)),
    "of distances in a circle": ("double(R) b", "b((i - j + T) % T)", (4,)),
    "of clamped distances": ("double(R) b", "b(min(max(i - j, -2), 2) + 2)", (5,)),
    "of blocks": ("double(R) b", "b(i / 2 * 2 + j / 2)", (4,)),
    "of a table": ("double(R) b", "b(I(i, j))", (3,)),
    "of a table and more": ("double(R) b", "b((I(i, j) + 2 * j) % R)", (3,)),
}


@pytest.mark.parametrize("kind", BIASES)
def test_attention_with_a_bias(kind: str) -> None:
    """The largest score receives nothing, wherever the bias of a score is read."""
    parameter, bias, size = BIASES[kind]
    text = checked_gradient(
        f"""def f(double(T, D) q, double(T, D) k, double(T, D) p, {parameter}, int64(T, T) I)
            -> (o) {{
            s(i, j) +=! q(i, d) * k(j, d)
            s(i, j) = s(i, j) + {bias} + 0.0 * I(i, j)
            m(i) max=! s(i, j)
            e(i, j) = exp(s(i, j) - m(i))
            z(i) +=! e(i, j)
            o(i, d) +=! e(i, j) * p(j, d)
            o(i, d) = o(i, d) / z(i)
        }}""",
        *((4, 3), (4, 3), (4, 3), size),
        torch.tensor([[0, 1, 2, 0], [1, 1, 0, 2], [2, 0, 0, 1], [2, 2, 1, 0]]),
    )
    assert "ties" not in text
    assert "d_m" not in text


# Two places by data, which in tensors of a few elements may be one: of a few pairs of tables, some
# lead to one element in three tensors out of three.
PAIRS = list(itertools.combinations(("bb", "dd", "gg", "kk", "oo"), 2))


@pytest.mark.parametrize("tables", PAIRS, ids=map("".join, PAIRS))
@pytest.mark.parametrize("tensor", ["X", "L"])
def test_data_that_leads_to_two_elements(tables: tuple[str, str], tensor: str) -> None:
    a, b = tables
    text = f"""def f(double(N) X, int64(1) {a}, int64(1) {b}, double(M) w) -> (O) {{
        L(n) = X(n) * X(n)
        O +=! w(m) * ({tensor}({a}(0)) - {tensor}({b}(0))) where m in 0:M
    }}"""
    assert "0.0" not in tc.grad_source(text).split("d_w(")[-1]


LOGARITHM = "{ M(n) max=! X(n, d)  T(n) +=! exp(X(n, d) - M(n))  "
# Under conditions of data, where a row of a softmax has no largest element.
GUARDED = {
    "all": LOGARITHM + "O(n) = M(n) <= -1e300 ? v(n) : M(n) + log(T(n)) }",
    "not": LOGARITHM + "O(n) = !(M(n) <= -1e300) ? M(n) + log(T(n)) : v(n) }",
    "both": LOGARITHM + "O(n) = M(n) > -1e300 && v(n) < 0.5 ? M(n) + log(T(n)) : v(n) }",
    "one in the other": LOGARITHM
    + "O(n) = M(n) > -1e300 ? v(n) < 0.5 ? M(n) + log(T(n)) : v(n) : 1 }",
    "what is added apart": LOGARITHM
    + "A(n) = v(n) < 0.5 ? M(n) : 0  O(n) = A(n) + (v(n) < 0.5 ? log(T(n)) : 0) }",
    "quotients": LOGARITHM
    + "S(n) +=! exp(X(n, d) - M(n)) * w(d)  O(n) = T(n) == 0 ? v(n) : S(n) / T(n) }",
    "the same twice": LOGARITHM
    + "A(n) = v(n) < 0.5 ? M(n) : 0  O(n) = v(n) < 0.5 ? A(n) + log(T(n)) : 0 }",
}
# Conditions that are not the same, and what does not cancel.
OTHER_GUARDS = {
    "another": LOGARITHM + "O(n) = (v(n) < 0.5 ? M(n) : 0) + (v(n) < 0.7 ? log(T(n)) : 0) }",
    "the opposite": LOGARITHM + "O(n) = (v(n) < 0.5 ? M(n) : 0) + (v(n) < 0.5 ? 0 : log(T(n))) }",
    "another row": LOGARITHM
    + "O(n) = (v(n) < 0.5 ? M(n) : 0) + (v(3 - n) < 0.5 ? log(T(n)) : 0) }",
    "either": LOGARITHM + "O(n) = (v(n) < 0.5 ? M(n) : 0) + (v(n) < 0.5 || v(n) > 0.7"
    " ? log(T(n)) : 0) }",
    "as a factor": LOGARITHM + "O(n) = v(n) * (v(n) < 0.5 ? M(n) + log(T(n)) * v(n) : 0) }",
    "below itself": LOGARITHM + "A(n) = v(n) < 0.5 ? 2 * M(n) : M(n)"
    "  O(n) = (v(n) < 0.5 ? A(n) : 0) + (v(n) < 0.5 ? log(T(n)) : 0) }",
}


@pytest.mark.parametrize("name", GUARDED)
def test_sums_under_conditions_of_data(name: str) -> None:
    text = check(GUARDED[name])
    assert "d_M" not in text
    assert "ties" not in text


@pytest.mark.parametrize("name", OTHER_GUARDS)
def test_sums_under_other_conditions_are_computed(name: str) -> None:
    assert "d_M" in check(OTHER_GUARDS[name])


SUMS = {
    "layer_normalization": {"d_squares_sum", "d_mean_sum", "d_weight", "d_bias"},
    "instance_normalization": {"d_squares_sum", "d_mean_sum", "d_weight", "d_bias"},
    "batch_normalization_training": {"d_variance_1_sum", "d_mean_1_sum", "d_weight_sum", "d_bias"},
    "moments_two_passes": set(),
    "covariance": {"d_input"},
}


@pytest.mark.parametrize("name", SUMS)
def test_normalizations(name: str) -> None:
    text = tc.grad_source(tc.ops.source(name), name)
    assert set(re.findall(r"(d_\w+)\([^()]*\) \+=!", text)) == SUMS[name]


# Polynomials of sizes that are zero for small ones, by the sizes of A and B where they are not.
POLYNOMIALS = {
    "of one size": ("A(i) * ((N - 3) * (N - 5))", (8, 2)),
    "of two": ("A(i) * (0.5 * (M - N) * (M - N - 1))", (4, 9)),
    "without numbers": ("A(i) * ((N + N - M) * (N - M) * (M + M - N))", (4, 9)),
    "of a part": ("S * ((N - 3) * (N - 5)) + A(i) * A(i)", (8, 2)),
    "with an index": ("A(i) * (i + (N - 3) * (N - 5)) - A(i) * i", (8, 2)),
    "in a tensor": ("A(i) * P(i)", (8, 2)),
    "in a condition": ("P(i) != i ? A(i) : 0", (8, 2)),
    "in a place": ("A(i + (N - 3) * (N - 5) - 15) - A(i) where i in 0:N", (8, 2)),
    "of a place": ("A(i + (M - 3) * (M - 5)) - A(i) where i in 0:5", (21, 8)),
    "as a byte": ("A(i) * (uint8(M) - M)", (3, 300)),
}


@pytest.mark.parametrize("kind", POLYNOMIALS)
def test_sizes_in_values_are_not_the_small_ones_that_are_tried(kind: str) -> None:
    value, sizes = POLYNOMIALS[kind]
    statements = f"P(i) = i + (N - 3) * (N - 5) where i in 0:N  S +=! A(i)  O(i) = {value}"
    inputs = [torch.rand(size, dtype=torch.double, requires_grad=True) for size in sizes]
    text = f"def f(double(N) A, double(M) B) -> (O) {{ {statements} }}"
    f = tc.make_autograd(tc.define(text, namespace=f"tc_zero_sums_{next(_namespaces)}").f)
    assert torch.autograd.gradcheck(lambda a: f(a, inputs[1]), inputs[:1])
