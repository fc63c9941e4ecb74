"""Arithmetic on data in subscripts: what it gives is looked at as a number that does not wrap
around, whatever the bits are in which the address is computed."""

from __future__ import annotations

import emulated
import pytest
import torch
from fenced import fenced

import tensor_comprehensions as tc
from tensor_comprehensions import reference

LEAST, QUARTER = -(2**31), 2**30
LEAST_64, MOST_64 = -(2**63), 2**63 - 1
NAN = float("nan")

GATHER = "def f(float(N) A, {0}(M) I, {0}(M) J) -> (O) {{ O(i) = A({1}) }}"
every_option = pytest.mark.parametrize("options", [None, "naive", "identity"])


def fails(text: str, *inputs: torch.Tensor, options: str | None = None) -> str:
    with pytest.raises(tc.ShapeError) as error:
        tc.compile(text, "f", options, *inputs)(*inputs)
    return str(error.value)


@every_option
@pytest.mark.parametrize("count", [3, 5000])
@pytest.mark.parametrize(
    ("subscript", "bad", "index"),
    [
        ("I(i) * 4", QUARTER, 2**32),
        ("4 * I(i) + i % 2", QUARTER, 2**32),
        ("I(i) * 4", -QUARTER, -(2**32)),
        ("-4 * I(i)", QUARTER, -(2**32)),
        ("I(i) + J(i)", LEAST, -(2**32)),
        ("I(i) * J(i)", 2**16, 2**32),
        ("int64(I(i) * 4)", QUARTER, 2**32),
        ("I(i) > 3 ? I(i) * 4 : 0", QUARTER, 2**32),
    ],
)
def test_int32(subscript: str, bad: int, index: int, count: int, options: str | None) -> None:
    """Of 32 bits the last ones are those of an element of A."""
    text = GATHER.format("int32", subscript)
    table = fenced(torch.randn(4000), at_start=index < 0)
    good = torch.zeros(count, dtype=torch.int32)
    inputs = table, good, good.clone()
    wanted = torch.as_tensor(reference.run(text, "f", *inputs))
    assert torch.equal(tc.compile(text, "f", options, *inputs)(*inputs), wanted)
    for tensor in inputs[1:]:
        tensor[count // 2 * 2 - 2] = bad
    message = fails(text, *inputs, options=options)
    assert f"at i = {count // 2 * 2 - 2} index {index} of dimension 0, but" in message


HASHES = {
    # Of k and the number of rows N, as Python has them: `%` and `/` go towards zero in a text.
    "(k(i) * 1000003 * 1000) % N": lambda k, n: k * 1000003 * 1000 % n,
    "abs(k(i) * -1000003 * 1000) % N": lambda k, n: k * 1000003 * 1000 % n,
    "((j(i) * 2654435 * 1000) % N + N) % N": lambda k, n: -k * 2654435 * 1000 % n,
    "max(k(i) * 1000003 * 1000, 0) / 1000003 / 1000 % N": lambda k, n: k % n,
    "(k(i) + 2147483647) % N": lambda k, n: (k + 2**31 - 1) % n,
    "N - 1 + (j(i) * 2000003 * 2000) % N": lambda k, n: n - 1 - k * 2000003 * 2000 % n,
}


@every_option
@pytest.mark.parametrize("rows", [40, 41])
@pytest.mark.parametrize(("subscript", "wanted"), HASHES.items(), ids=HASHES)
def test_hashes(subscript: str, wanted: object, rows: int, options: str | None) -> None:
    """What is divided does not wrap around either, whatever the sign."""
    text = f"""def f(float(N) A, int32(M) k, int32(M) j) -> (O) {{
        O(i) = A({subscript}) where i in 0:M }}"""
    k = torch.arange(60, dtype=torch.int32)
    inputs = torch.randn(rows), k, -k
    found = tc.compile(text, "f", options, *inputs)(*inputs)
    assert torch.equal(found, inputs[0][[wanted(int(each), rows) for each in k]])
    assert torch.equal(found, torch.as_tensor(reference.run(text, "f", *inputs)))


def test_a_condition_that_wraps_around_keeps_nothing_inside() -> None:
    text = """def f(float(N) A, int32(M) I) -> (O) {
        O(i) = x >= 0 && x < N ? A(x) : -1 where x = I(i) * 4 }"""
    index = torch.tensor([1, 10**6, 2], dtype=torch.int32)
    inputs = torch.randn(4000), index
    wanted = torch.tensor([inputs[0][4], -1, inputs[0][8]])
    assert torch.equal(tc.compile(text, "f", None, *inputs)(*inputs), wanted)
    index[1] = QUARTER
    assert "at i = 1 index 4294967296 of" in fails(text, *inputs)


@every_option
@pytest.mark.parametrize("count", [3, 5000])
def test_places_of_a_scatter(count: int, options: str | None) -> None:
    text = "def f(float(M) G, int32(M) I) -> (float(4000) O) { O(I(i) * 4) +=! G(i) }"
    index = torch.zeros(count, dtype=torch.int32)
    index[1] = QUARTER
    message = fails(text, torch.ones(count), index, options=options)
    assert "writes O(I(i)*4) outside: at i = 1 index 4294967296 of dimension 0" in message


def test_rows() -> None:
    text = "def f(float(R, 64) A, int32(M) I) -> (O) { O(i, d) = A(I(i) * 2, d) }"
    table, index = torch.randn(40, 64), torch.tensor([1, 19, 0], dtype=torch.int32)
    f = tc.compile(text, "f", None, table, index)
    assert torch.equal(f(table, index), table[index.long() * 2])
    index[1] = LEAST
    assert "at i = 1 index -4294967296 of dimension 0" in fails(text, table, index)
    text = "def f(float(R) A, int32(M) I) -> (O) { O(i, d) = A(I(i) * 64 + d) where d in 0:64 }"
    assert "at i = 1, d = 0 index -137438953472 of" in fails(text, torch.randn(4000), index)


def test_nan_in_a_float_index() -> None:
    text = """def f(float(H) Y, float(H) X, float(N) A) -> (O) {
        O(i) = A(int32(Y(i)) * 64 + int32(X(i))) }"""
    y, x = torch.tensor([1.0, NAN, 2.0]), torch.tensor([0.5, 3.0, 1.0])
    assert "outside: at i = 1 index -" in fails(text, y, x, torch.randn(4000))


@every_option
@pytest.mark.parametrize("count", [3, 5000])
@pytest.mark.parametrize(
    ("subscript", "bad", "other"),
    [
        ("I(i) * 4", 2**62, 0),
        ("I(i) * 4 + i % 2", -(2**62), 0),
        ("I(i) * J(i)", 2**32, 2**32),
        ("I(i) - J(i)", LEAST_64, MOST_64),
        ("I(i) + J(i)", LEAST_64, LEAST_64),
        ("int32(I(i)) * 4 + 1", 2**62, 0),
    ],
)
def test_int64(subscript: str, bad: int, other: int, count: int, options: str | None) -> None:
    """What 64 bits do not hold is outside."""
    text = GATHER.format("int64", subscript)
    table = torch.randn(4000)
    inputs = table, torch.zeros(count, dtype=torch.int64), torch.zeros(count, dtype=torch.int64)
    wanted = torch.as_tensor(reference.run(text, "f", *inputs))
    assert torch.equal(tc.compile(text, "f", options, *inputs)(*inputs), wanted)
    inputs[1][2], inputs[2][2] = bad, other
    assert f"at i = 2 index {MOST_64} of dimension 0" in fails(text, *inputs, options=options)


def test_large_numbers_whose_sum_is_inside() -> None:
    text = GATHER.format("int64", "I(i) - J(i)")
    table, large = torch.randn(4000), torch.tensor([MOST_64, 2**62, LEAST_64 + 7])
    inputs = table, large, large - torch.tensor([3, 3999, 7])
    assert torch.equal(tc.compile(text, "f", None, *inputs)(*inputs), table[[3, 3999, 7]])


def test_products_of_three() -> None:
    """Of int32 that 64 bits do not hold."""
    text = """def f(float(N) A, int32(M) I, int32(M) J, int32(M) K) -> (O) {
        O(i) = A(I(i) * J(i) * K(i)) }"""
    table = torch.randn(4000)
    indices = [torch.tensor([1, 15, 2], dtype=torch.int32) for _ in range(3)]
    f = tc.compile(text, "f", None, table, *indices)
    assert torch.equal(f(table, *indices), table[[1, 15**3, 8]])
    for index in indices:
        index[1] = QUARTER
    assert f"at i = 1 index {MOST_64} of dimension 0" in fails(text, table, *indices)


@pytest.mark.parametrize(("dtype", "bad"), [(torch.int32, QUARTER), (torch.int64, 2**62)])
def test_cuda(dtype: torch.dtype, bad: int) -> None:
    text = GATHER.format(str(dtype).removeprefix("torch."), "I(i) * 4 + J(i)")
    inputs = torch.randn(100), torch.tensor([1, 24, 0], dtype=dtype), torch.zeros(3, dtype=dtype)
    executor = tc.compile(text, "f", None, *inputs, target="cuda:sm_90")
    out = torch.full((3,), NAN)
    assert emulated.run(executor, inputs, (out,), initial=0) is None
    assert torch.equal(out, inputs[0][[4, 96, 0]])
    inputs[1][1] = bad
    report = emulated.run(executor, inputs, (out,), initial=0)
    assert report["state"] == 2 and report["position"] == 1
    assert report["index"] == (2**32 if dtype == torch.int32 else MOST_64)
