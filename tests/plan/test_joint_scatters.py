"""Scatters that add up in one tensor at the same points share their loops."""

from __future__ import annotations

import pytest
import torch
from scatters import integers, places

import tensor_comprehensions as tc

#: What the gradient of a linear interpolation along rows is: two neighbours of every place.
TWO = """def f(float(N, E) V, int32(E) P, float(B) z) -> (float(N, B) O) {
    O(n, b) = z(b)
    O(n, P(e)) += V(n, e)
    O(n, P(e) + 1) += 2 * V(n, e)
}"""


def wanted(v: torch.Tensor, p: torch.Tensor, z: torch.Tensor) -> torch.Tensor:
    start = z.expand(v.shape[0], -1).clone()
    return start.index_add_(1, p, v).index_add_(1, p + 1, 2 * v)


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize(("rows", "points"), [(1, 3000), (5, 700), (70, 40), (3, 0)])
def test_neighbours_of_a_place(rows: int, points: int, threads: int) -> None:
    v, p, z = integers(rows, points), places(22, points).int(), integers(23)
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        result = tc.compile(TWO, "f", tc.MappingOptions(), v, p, z)(v, p, z)
    finally:
        torch.set_num_threads(before)
    assert torch.equal(result, wanted(v, p, z))


def groups(text: str, *inputs: torch.Tensor) -> list[str]:
    said = tc.compile(text, "f", tc.MappingOptions(), *inputs).explain()
    return said[: said.index("\nwhole\n")].split("\ngroup ")[1:]


def test_they_share_their_loops() -> None:
    v, p, z = integers(5, 700), places(22, 700).int(), integers(23)
    _, scatters = groups(TWO, v, p, z)
    assert "  S1 " in scatters and "  S2 " in scatters
    assert "a scatter: loops over e inside each task" in scatters


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("O(n, P(e)) += V(n, e)", "O(n, P(e) + 1) max= V(n, e)"),  # no sum
        ("O(n, P(e)) += V(n, e)", "O(n, P(e) + 1) += V(n, e) where e in 0:E-1"),  # other points
        ("O(P(e), n) += V(n, e)", "O(n, P(e)) += V(n, e)"),  # rows of others
    ],
)
def test_others_have_loops_of_their_own(first: str, second: str) -> None:
    """In the order of the text, and with what is there by then."""
    text = f"""def f(float(N, E) V, int32(E) P) -> (float(30, 30) O) {{
        O(i, j) = 0
        {first}
        {second}
    }}"""
    v, p = integers(30, 200), places(22, 200).int()
    *_, one, other = groups(text, v, p)
    assert "  S1 " in one and "  S2 " in other
    value = torch.zeros(30, 30).index_add_(1, p, v)
    if first.startswith("O(P"):
        value = value.T.contiguous()
    if "max=" in second:
        value.scatter_reduce_(1, (p.long() + 1).expand(30, -1), v, "amax")
    elif "where" in second:
        value.index_add_(1, p[:-1] + 1, v[:, :-1])
    else:
        value.index_add_(1, p, v)
    result = tc.compile(text, "f", tc.MappingOptions(), v, p)(v, p)
    assert torch.equal(result, value)


def test_options_put_them_together_or_apart() -> None:
    v, p, z = integers(5, 700), places(22, 700).int(), integers(23)
    for options in (
        tc.MappingOptions().cluster("S1", "S2"),
        tc.MappingOptions().cluster("S1").cluster("S2"),
    ):
        executor = tc.compile(TWO, "f", options, v, p, z)
        together = str(options).count("cluster") == 1
        assert executor.explain().count("a scatter: loops over") == (1 if together else 2)
        assert torch.equal(executor(v, p, z), wanted(v, p, z))
    with pytest.raises(tc.TCError, match="into one cluster, but a scatter has loops of its own"):
        tc.compile(TWO, "f", tc.MappingOptions().cluster("S0", "S1"), v, p, z)


def test_the_plan_that_ran_runs_again() -> None:
    v, p, z = integers(5, 700), places(22, 700).int(), integers(23)
    executor = tc.compile(TWO, "f", tc.MappingOptions(), v, p, z)
    again = tc.compile(TWO, "f", executor.options, v, p, z)
    assert again.assembly == executor.assembly
    assert torch.equal(again(v, p, z), wanted(v, p, z))
