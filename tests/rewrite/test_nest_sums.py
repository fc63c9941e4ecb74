"""Sums over products of several factors cost what the best order of them costs.

Values are small integers, so that sums are exact in every order.
"""

from __future__ import annotations

import re

import emulated
import pytest
import torch
from exact import integers

import tensor_comprehensions as tc
from tensor_comprehensions import reference

OWN = tc.MappingOptions().matchLibraryCalls(False)


def compiled(text: str, *values: object) -> tc.Executor:
    return tc.compile(text, "f", OWN, *values)


def added(executor: tc.Executor) -> set[str]:
    return set(re.findall(r"\w+\.over_\w+", executor.explain()))


CONTRACTIONS = {
    # The text, the equation, its sizes, and the sums inside.
    "three matrices": (
        "f(float(I, J) A, float(J, K) B, float(K, L) C) -> (O) {"
        " O(i, l) +=! A(i, j) * B(j, k) * C(k, l) }",
        "ij,jk,kl->il",
        {"i": 20, "j": 30, "k": 25, "l": 18},
        {"O.over_j"},
    ),
    "the other end first": (
        "f(float(I, J) A, float(J, K) B, float(K, L) C) -> (O) {"
        " O(i, l) +=! A(i, j) * B(j, k) * C(k, l) }",
        "ij,jk,kl->il",
        {"i": 50, "j": 30, "k": 60, "l": 4},
        {"O.over_k"},
    ),
    "canonical polyadic gradient": (
        "f(float(I, J, K) X, float(J, R) B, float(K, R) C) -> (O) {"
        " O(i, r) +=! X(i, j, k) * B(j, r) * C(k, r) }",
        "ijk,jr,kr->ir",
        {"i": 10, "j": 22, "k": 18, "r": 20},
        {"O.over_j"},
    ),
    "Tucker": (
        "f(float(A, B, C) G, float(I, A) X, float(J, B) Y, float(K, C) Z) -> (O) {"
        " O(i, j, k) +=! G(a, b, c) * X(i, a) * Y(j, b) * Z(k, c) }",
        "abc,ia,jb,kc->ijk",
        {"a": 5, "b": 6, "c": 7, "i": 12, "j": 11, "k": 13},
        {"O.over_b", "O.over_c"},
    ),
    "a number": (
        "f(float(I, J) A, float(J, K) B, float(K) C) -> (O) { O +=! A(i, j) * B(j, k) * C(k) }",
        "ij,jk,k->",
        {"i": 30, "j": 40, "k": 50},
        {"O.over_k"},
    ),
}


@pytest.mark.parametrize(
    ("text", "equation", "sizes", "inside"), CONTRACTIONS.values(), ids=CONTRACTIONS
)
def test_contractions(text: str, equation: str, sizes: dict[str, int], inside: set[str]) -> None:
    operands = equation.split("->")[0].split(",")
    values = [integers(*(sizes[index] for index in operand)) for operand in operands]
    executor = compiled("def " + text, *values)
    wanted = torch.einsum(equation, *(value.double() for value in values)).float()
    assert torch.equal(executor(*values), wanted)
    assert added(executor) == inside


# A quotient, what it is, and the sum inside; powers of two keep sums exact.
QUOTIENTS = {
    "by rows": ("A(i, k) * B(k, j) / z(i)", lambda a, b, z: a @ b / z[:, None], "O.over_k"),
    "inside the product": (
        "A(i, k) / z(i) * B(k, j)",
        lambda a, b, z: a @ b / z[:, None],
        "O.over_k",
    ),
    "by a quotient": (
        "A(i, k) * B(k, j) / (2.0 / z(i))",
        lambda a, b, z: a @ b * z[:, None] / 2,
        "O.over_k",
    ),
    "by terms": ("A(i, k) * B(k, j) / z(k)", lambda a, b, z: (a / z) @ b, None),
}


@pytest.mark.parametrize(("value", "wanted", "inside"), QUOTIENTS.values(), ids=QUOTIENTS)
def test_quotients(value: str, wanted: object, inside: str | None) -> None:
    text = f"""def f(float(N, N) A, float(N, N) B, float(N) z) -> (O) {{
        O(i, j) +=! {value}
    }}"""
    a, b = integers(40, 40), integers(40, 40)
    z = 2.0 ** integers(40)
    executor = compiled(text, a, b, z)
    assert torch.equal(executor(a, b, z), wanted(a, b, z))
    assert added(executor) == ({inside} if inside else set())


def test_windows() -> None:
    """A depthwise convolution and the pointwise one behind it, in one sum."""
    text = """def f(float(C, H, W) X, float(C, KH, KW) D, float(M, C) P) -> (O) {
        O(m, h, w) +=! X(c, h + kh, w + kw) * D(c, kh, kw) * P(m, c)
    }"""
    image, depth, point = integers(6, 12, 14), integers(6, 3, 3), integers(10, 6)
    executor = compiled(text, image, depth, point)
    assert added(executor) == {"O.over_khkw"}
    middle = torch.nn.functional.conv2d(image[None], depth[:, None], groups=6)
    assert torch.equal(executor(image, depth, point), torch.einsum("mc,chw->mhw", point, middle[0]))


def test_a_sum_that_goes_on() -> None:
    text = """def f(float(I, J) A, float(J, K) B, float(K, L) C, float(I, L) D) -> (O) {
        O(i, l) = D(i, l)
        O(i, l) += A(i, j) * B(j, k) * C(k, l)
    }"""
    a, b, c, d = integers(20, 30), integers(30, 25), integers(25, 18), integers(20, 18)
    executor = compiled(text, a, b, c, d)
    assert added(executor) == {"O.over_j"}
    assert torch.equal(executor(a, b, c, d), d + a @ b @ c)
    assert re.search(r"computed +48(\.\d)? k floating-point operations", executor.explain())


def attention(condition: str) -> str:
    return f"""def f(float(T, D) Q, float(T, D) K, float(T, E) V, float(T, T) M) -> (O) {{
        O(t, e) +=! {condition} ? Q(t, d) * K(s, d) * V(s, e) : 0 where t in 0:T, s in 0:T }}"""


MASKS = {
    "an order": ("s <= t", lambda t, s, m: s <= t),
    "a window": ("s <= t && t < s + 5", lambda t, s, m: (s <= t) & (t < s + 5)),
    "data": ("M(t, s) > 0", lambda t, s, m: m > 0),
    "data and an order": ("s <= t && M(t, s) > 0", lambda t, s, m: (s <= t) & (m > 0)),
}


@pytest.mark.parametrize(("condition", "mask"), MASKS.values(), ids=MASKS)
def test_conditions_stay_outside(condition: str, mask: object) -> None:
    q, k, v, m = integers(40, 60), integers(40, 60), integers(40, 50), integers(40, 40)
    executor = compiled(attention(condition), q, k, v, m)
    assert added(executor) == {"O.over_d"}
    rows = torch.arange(40)
    kept = mask(rows[:, None], rows[None, :], m)
    assert torch.equal(executor(q, k, v, m), (kept * (q @ k.t())) @ v)


def test_terms_that_a_condition_leaves_out_may_be_infinite() -> None:
    q, k, v, m = torch.rand(40, 60), torch.rand(40, 60), torch.rand(40, 50), torch.ones(40, 40)
    m[:, 7] = 0
    k[7], v[7, 3] = torch.inf, torch.nan
    executor = compiled(attention("M(t, s) > 0"), q, k, v, m)
    assert added(executor) == {"O.over_d"}
    kept = [s for s in range(40) if s != 7]
    torch.testing.assert_close(executor(q, k, v, m), q @ k[kept].t() @ v[kept])


CONDITIONS_ALONE = {
    "of the index inside": "M(s, d) > 0 ? Q(t, d) * K(s, d) * V(s, e) : 0",
    "that keeps reads inside": "s >= t && M(s, d) > 0 ? Q(t, d) * P(s - t, d) * V(s, e) : 0",
    "with another value": "s % 3 > t % 5 ? Q(t, d) * K(s, d) * V(s, e) : 1",
}


@pytest.mark.parametrize("value", CONDITIONS_ALONE.values(), ids=CONDITIONS_ALONE)
def test_conditions_left_alone(value: str) -> None:
    text = f"""def f(float(T, D) Q, float(T, D) K, float(T, E) V, float(T, D) M, float(T, D) P)
        -> (O) {{ O(t, e) +=! {value} where t in 0:T, s in 0:T, d in 0:D, e in 0:E }}"""
    values = [integers(*size) for size in ((20, 30), (20, 30), (20, 25), (20, 30), (20, 30))]
    executor = compiled(text, *values)
    assert not added(executor)
    assert torch.equal(executor(*values), reference.run(text, "f", *values))


def test_a_condition_goes_where_its_reads_are() -> None:
    text = """def f(float(T, D) Q, float(T, D) P, float(T, E) V) -> (O) {
        O(t, e) +=! s >= t ? Q(t, d) * P(s - t, d) * V(s, e) : 0 where t in 0:T, s in 0:T }"""
    q, p, v = integers(20, 30), integers(20, 30), integers(20, 25)
    executor = compiled(text, q, p, v)
    assert added(executor) == {"O.over_d"}
    wanted = torch.zeros(20, 25)
    for t in range(20):
        wanted[t] = (q[t] @ p[: 20 - t].t()) @ v[t:]
    assert torch.equal(executor(q, p, v), wanted)


def test_types() -> None:
    text = """def f({0}(I, J) A, {0}(J, K) B, {0}(K, L) C) -> (O) {{
        O(i, l) +=! A(i, j) * B(j, k) * C(k, l) }}"""
    for name, dtype in (("double", torch.double), ("half", torch.half)):
        values = [integers(*size).to(dtype) for size in ((20, 30), (30, 25), (25, 18))]
        executor = compiled(text.format(name), *values)
        a, b, c = (value.double() for value in values)
        wanted = a @ b @ c
        torch.testing.assert_close(executor(*values).double(), wanted, rtol=1e-3, atol=0)
        # Half accumulates in float, in which the sums inside are.
        assert added(executor), name


ALONE = {
    # What scales every term may be what keeps the sum finite.
    "a scale": "O(i) +=! A(i, j) * 0.001 * s",
    "a scale of each row": "O(i) +=! A(i, j) * C(i)",
    # x * a + x * b is a NaN where x is infinite and a and b are not of one sign.
    "a product of two with a sum of one": "O(i) +=! A(i, j) * B(j, k)",
    "a product of two and an index": "O(i) +=! A(i, j) * B(j, k) * k",
    "a product of two": "O(i, k) +=! A(i, j) * B(j, k)",
    "a scaled product of two": "O(i, k) +=! A(i, j) * B(j, k) * s * 0.5",
    "one factor that has all indices": "O(i, k) +=! A(i, j) * B(j, k) * D(i, j, k)",
    "a maximum": "O(i, l) max=! A(i, j) * B(j, k) * E(k, l)",
    "a sum of products": "O(i, l) +=! A(i, j) * B(j, k) + E(k, l) * A(i, j)",
}


@pytest.mark.parametrize("statement", ALONE.values(), ids=ALONE)
def test_left_alone(statement: str) -> None:
    text = f"""def f(float(I, J) A, float(J, K) B, float(I) C, float(I, J, K) D, float(K, L) E,
                     float s) -> (O) {{ {statement} }}"""
    values = (integers(20, 30), integers(30, 25), integers(20), integers(20, 30, 25))
    values += (integers(25, 18), 2.0)
    executor = compiled(text, *values)
    assert not added(executor)
    torch.testing.assert_close(executor(*values), reference.run(text, "f", *values))


def test_cuda() -> None:
    text, equation, sizes, inside = CONTRACTIONS["three matrices"]
    operands = equation.split("->")[0].split(",")
    values = [integers(*(sizes[index] for index in operand)) for operand in operands]
    executor = tc.compile("def " + text, "f", None, *values, target="cuda:sm_90")
    assert added(executor) == inside
    result = torch.full((sizes["i"], sizes["l"]), torch.nan)
    emulated.run(executor, tuple(values), (result,), initial=0)
    assert torch.equal(result, torch.einsum(equation, *values))


def test_scales_that_keep_a_sum_finite() -> None:
    text = """def f(float(I, J) A, float(I) s) -> (O) { O(i) +=! A(i, j) * s(i) }"""
    values = (torch.full((20, 3000), 1e37), torch.full((20,), 1e-3))
    assert torch.isfinite(compiled(text, *values)(*values)).all()


def test_scales_of_what_several_sums_share() -> None:
    """They are those of each sum: neither of what it shares, nor of what that is made of."""
    scales = {"p": -1, "q": 2, "r": 3, "s": -4}
    sums = " ".join(
        f"{name}(n) +=! {scale} * D(n, i) * (B(n, i) / (Z(n, 0) * Z(n, 1))) * W(n, {k})"
        for k, (name, scale) in enumerate(scales.items())
    )
    tensors = "float(N, I) D, float(N, I) B, float(N, 2) Z, float(N, 4) W"
    text = f"def f({tensors}) -> (p, q, r, s) {{ {sums} }}"
    d, b, w = integers(3000, 5), integers(3000, 5), integers(3000, 4)
    z = torch.tensor([1.0, 2.0, 4.0])[torch.randint(3, (3000, 2))]
    executor = compiled(text, d, b, z, w)
    assert ".product" in executor.explain() and added(executor)
    shared = (d * b).sum(1) / z.prod(1)
    for k, (found, scale) in enumerate(zip(executor(d, b, z, w), scales.values(), strict=True)):
        assert torch.equal(found, scale * shared * w[:, k])


def test_what_is_too_short_for_a_vector_is_not_innermost() -> None:
    """As the batch of tensors whose first index has neighbours in memory: 2 lanes of 16."""
    text = """def f(float(B, H, T, D) Q, float(B, H, T, D) K, float(B, H, T, E) V) -> (O) {
      O(b, h, i, e) +=! j <= i ? Q(b, h, i, d) * K(b, h, j, d) * V(b, h, j, e) : 0 }"""
    q, k, v = (integers(32, 128, 4, 2).permute(3, 2, 1, 0) for _ in range(3))
    executor = compiled(text, q, k, v)
    assert re.search(r"O\.over_d\(.*, i\) \+=!", executor.explain())
    wanted = torch.tril(q @ k.transpose(2, 3)) @ v
    assert torch.equal(executor(q, k, v), wanted)


def test_the_loops_of_the_text_stay() -> None:
    text = CONTRACTIONS["three matrices"][0]
    values = (integers(20, 30), integers(30, 25), integers(25, 18))
    executor = tc.compile("def " + text, "f", tc.MappingOptions("identity"), *values)
    assert not added(executor)
    assert torch.equal(executor(*values), values[0] @ values[1] @ values[2])


def windows(image: torch.Tensor, *weights: torch.Tensor, **options: object) -> torch.Tensor:
    """The image through a window of its last dimensions, of all channels or by channel."""
    channels = image.shape[1]
    many = "abcdefg"[: len(weights)]
    if weights[0].dim() == 1:
        kernel = torch.einsum(",".join(many) + "->" + many, *weights).expand(
            channels, 1, *[-1] * len(weights)
        )
    else:
        kernel = torch.einsum(",".join(c + "z" for c in many) + "->z" + many, *weights)[:, None]
    run = torch.nn.functional.conv3d if len(weights) == 3 else torch.nn.functional.conv2d
    return run(image, kernel, groups=channels, **options)


IMAGE = (2, 3, 24, 40)
WINDOWS = {
    # Arguments besides the image, the statement, its window over the image.
    "a blur": (
        ((7,),),
        "O(b, c, i, j) +=! X(b, c, i + r, j + s) * g(r) * g(s)",
        lambda x, g: windows(x, g, g),
    ),
    "of channels": (
        ((7, 3), (5, 3)),
        "O(b, c, i, j) +=! h(s, c) * X(b, c, i + r, j + s) * g(r, c)",
        lambda x, g, h: windows(x, g, h),
    ),
    "with strides": (
        ((8,), (9,)),
        "O(b, c, i, j) +=! X(b, c, 2 * i + r, j * 3 + s) * g(r) * h(s)",
        lambda x, g, h: windows(x, g, h, stride=(2, 3)),
    ),
    "dilated": (
        ((6,), (7,)),
        "O(b, c, i, j) +=! X(b, c, i + 2 * r, j + 3 * s) * g(r) * h(s)",
        lambda x, g, h: windows(x, g, h, dilation=(2, 3)),
    ),
    "of a product": (
        ((7,), (2, 3, 24, 40)),
        "O(b, c, i, j) +=! X(b, c, i + r, j + s) * h(b, c, i + r, j + s) * g(r) * g(s)",
        lambda x, g, y: windows(x * y, g, g),
    ),
    "in zeros": (
        ((7,),),
        "O(b, c, i, j) +=! (i + r >= 3 && i + r < H + 3 && j + s >= 2 && j + s < W + 2"
        " ? X(b, c, i + r - 3, j + s - 2) : 0) * g(r) * g(s)"
        " where i in 0:H, j in 0:W - 2, r in 0:7, s in 0:7",
        lambda x, g: windows(x, g, g, padding=(3, 2)),
    ),
    "in repeated edges": (
        ((7,),),
        "O(b, c, i, j) +=! X(b, c, min(max(i + r - 3, 0), H - 1), min(max(j + s - 3, 0), W - 1))"
        " * g(r) * g(s) where i in 0:H, j in 0:W",
        lambda x, g: windows(torch.nn.functional.pad(x, [3] * 4, mode="replicate"), g, g),
    ),
    "transposed": (
        ((7,), (5,)),
        "O(b, c, i, j) +=! i >= r && i - r < H && j >= s && j - s < W"
        " ? X(b, c, i - r, j - s) * g(r) * h(s) : 0"
        " where i in 0:H + 6, j in 0:W + 4, r in 0:7, s in 0:5",
        lambda x, g, h: windows(x, g.flip(0), h.flip(0), padding=(6, 4)),
    ),
}


@pytest.mark.parametrize(("sizes", "statement", "wanted"), WINDOWS.values(), ids=WINDOWS)
def test_separable_windows(
    sizes: tuple[tuple[int, ...], ...], statement: str, wanted: object
) -> None:
    names = ["M" if size[0] == 2 else "" for size in sizes]
    parameters = "".join(
        f", float({'B, C, H, W' if names[n] else ', '.join(['K' + str(n), 'C'][: len(size)])}) "
        + "gh"[n]
        for n, size in enumerate(sizes)
    )
    text = f"def f(float(B, C, H, W) X{parameters}) -> (O) {{ {statement} }}"
    values = (integers(*IMAGE), *(integers(*size) for size in sizes))
    executor = compiled(text, *values)
    assert added(executor) & {"O.over_r", "O.over_s"}
    assert torch.equal(executor(*values), wanted(*values))


def test_separable_windows_of_volumes() -> None:
    text = """def f(float(C, D, H, W) X, float(K) g) -> (O) {
        O(c, i, j, k) +=! X(c, i + q, j + r, k + s) * g(q) * g(r) * g(s) }"""
    volume, weights = integers(2, 20, 30, 32), integers(5)
    executor = compiled(text, volume, weights)
    assert len(added(executor)) == 2
    assert torch.equal(executor(volume, weights), windows(volume[None], *[weights] * 3)[0])


def test_gradients_of_separable_windows() -> None:
    text = """def f(float(B, C, H, W) X, float(K) g, float(L) h) -> (O) {
        O(b, c, i, j) +=! X(b, c, i + r, j + s) * g(r) * h(s) }"""
    values = (integers(*IMAGE), integers(11), integers(9))
    upstream = integers(2, 3, 14, 32)
    executor = tc.compile(tc.grad_source(text), "f_grad", OWN, *values, upstream)
    assert {"d_X.over_r", "d_g.over_s", "d_h.over_r"} <= added(executor)
    inputs = [value.double().requires_grad_() for value in values]
    wanted = torch.autograd.grad(windows(*inputs), inputs, upstream.double())
    for result, each in zip(executor(*values, upstream), wanted):
        assert torch.equal(result.double(), each)


def test_weights_that_a_condition_leaves_out_may_be_infinite() -> None:
    text = """def f(float(H, W) X, float(K) g, float(L) h) -> (O) {
        O(i, j) +=! i + r >= 6 && i + r < H && j + s < W
            ? X(i + r, j + s) * g(r) * h(s) : 0 where i in 0:H, j in 0:W, r in 0:K, s in 0:L }"""
    image, down, along = integers(40, 50), integers(7), integers(9)
    down[0], along[8] = torch.inf, torch.nan
    executor = compiled(text, image, down, along)
    assert added(executor)
    result = executor(image, down, along)
    down[0] = along[8] = 0
    finite = executor(image, down, along)
    # Rows in front of the first one have no term with the infinite weight, nor has the last column.
    assert torch.equal(result[:6, 42:], finite[:6, 42:])
    assert not result[6:, :42].isfinite().any()
    padded = torch.nn.functional.pad(image, (0, 8, 0, 6))
    padded[:6] = 0
    assert torch.equal(finite, windows(padded[None, None], down, along)[0, 0])


WINDOWS_ALONE = {
    "of few terms": "X(i + r, j + s) * g(r) * g(s) where r in 0:3, s in 0:3",
    "with gaps": "X(9 * i + r, 8 * j + s) * g(r) * g(s) where r in 0:7, s in 0:7",
    "of other weights": "X(i + r, j + s) * w(r, s) * w(s, r)",
    "that is round": "r + s < 7 ? X(i + r, j + s) * g(r) * g(s) : 0",
    "with one sum inside the other": "X(i + r, j + s + r) * g(r) * g(s)",
}


@pytest.mark.parametrize("value", WINDOWS_ALONE.values(), ids=WINDOWS_ALONE)
def test_windows_left_alone(value: str) -> None:
    text = f"""def f(float(H, W) X, float(K) g, float(K, K) w) -> (O) {{ O(i, j) +=! {value} }}"""
    image, weights, square = integers(60, 70), integers(7), integers(7, 7)
    executor = compiled(text, image, weights, square)
    assert not {"O.over_r", "O.over_s"} & added(executor)
    assert torch.equal(
        executor(image, weights, square), reference.run(text, "f", image, weights, square)
    )
