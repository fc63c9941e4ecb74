"""Reads at places that are computed of data: conditions that keep them inside, and tables."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

import tensor_comprehensions as tc

CORNERS = " + ".join(
    f"({u})*({v})*({y} >= 0 && {y} < H && {x} >= 0 && {x} < W ? X(b,c,{y},{x}) : 0)"
    for u, y in (("1-u", "y"), ("u", "y+1"))
    for v, x in (("1-v", "x"), ("v", "x+1"))
)
SAMPLE = f"""def f(float(B,C,H,W) X, float(B,P,Q,2) G) -> (O) {{
    O(b,c,p,q) = {CORNERS} where px = (G(b,p,q,0)+1)*0.5*(W-1), py = (G(b,p,q,1)+1)*0.5*(H-1),
        x = int32(floor(px)), y = int32(floor(py)), v = px-floor(px), u = py-floor(py) }}"""


@pytest.mark.parametrize("channels", [1, 3, 40])
@pytest.mark.parametrize("size", [(5, 7), (24, 33)])
def test_grid_sample(channels: int, size: tuple[int, int]) -> None:
    """With places outside of the image, on its edge, and between its points."""
    x = torch.randn(2, channels, *size)
    g = torch.rand(2, 19, 23, 2) * 2.6 - 1.3
    g[0, 0, :4] = torch.tensor([[-1.0, -1.0], [1.0, 1.0], [-1.0, 1.0], [0.0, 0.0]])
    t = tc.define(SAMPLE, namespace=f"tc_places_{channels}_{size[0]}")
    x.requires_grad_(), g.requires_grad_()
    result, wanted = tc.make_autograd(t.f)(x, g), F.grid_sample(x, g, align_corners=True)
    torch.testing.assert_close(result, wanted, rtol=1e-4, atol=1e-5)
    seed = torch.randn_like(wanted)
    grads = torch.autograd.grad(result, (x, g), seed)
    torch.testing.assert_close(grads[0], torch.autograd.grad(wanted, x, seed)[0])
    # Where a place is a point of the image, the derivative by places jumps.
    wanted = F.grid_sample(x, g, align_corners=True)
    theirs = torch.autograd.grad(wanted, g, seed)[0]
    torch.testing.assert_close(grads[1][:, 1:], theirs[:, 1:], rtol=1e-3, atol=1e-3)


def test_places_are_written_out_once() -> None:
    x, g = torch.randn(2, 40, 24, 33), torch.rand(2, 19, 23, 2)
    executor = tc.compile(SAMPLE, "f", None, x, g)
    said = executor.explain()
    assert said.count("places in X") == 4 and said.count("which places are inside of X") == 4
    # Conditions keep them inside, so nobody looks at them.
    assert "indices " not in said.split("\ngroup 1\n")[0]
    assert "checked_index" not in executor.loop_nest
    torch.testing.assert_close(executor(x, g), F.grid_sample(x, g, align_corners=True))


WIDE = """def f(float(B,C,N) X, float(P) A) -> (O) {
    O(b,c,p) = X(b, c, int32(floor(A(p)*(N-1)))) + X(b, c, N-1 - int32(A(p)*3)) }"""


def test_bad_places_without_conditions_are_found() -> None:
    """Where they are written out, too; what they are is not known before."""
    x, a = torch.randn(3, 50, 31), torch.rand(900)
    executor = tc.compile(WIDE, "f", None, x, a)
    assert "places in X" in executor.explain()
    first, second = (a * 30).floor().long(), 30 - (a * 3).long()
    assert torch.equal(executor(x, a), x[:, :, first] + x[:, :, second])
    a[5] = 2.0
    with pytest.raises(tc.ShapeError, match=r"X\(b, c, .*index 60 .*has size 31"):
        executor(x, a)
    a[5] = float("nan")
    with pytest.raises(tc.ShapeError, match=r"index -?[0-9]+ "):
        executor(x, a)


KEPT = [
    "I(p) >= 0 && I(p) < N",
    "0 <= I(p) && I(p) <= N - 1",
    "I(p) > -1 && N > I(p)",
]
NOT_KEPT = [
    ("I(p) >= 0 && I(p) <= N", 31),
    ("I(p) >= -1 && I(p) < N", -1),
    ("I(p) > 0 || I(p) < N", 31),
    ("I(p) < N", -4),
    ("J(p) >= 0 && J(p) < N", 31),
    ("!(I(p) >= 0 && I(p) < N)", 31),
]


@pytest.mark.parametrize("dtype", ["int32", "int64"])
@pytest.mark.parametrize("condition", KEPT)
def test_conditions_that_keep_a_place_inside(condition: str, dtype: str) -> None:
    text = f"""def f(float(C,N) X, {dtype}(P) I) -> (O) {{
        O(c,p) = {condition} ? X(c, I(p)) : 0 where c in 0:C }}"""
    x = torch.randn(4, 31)
    i = torch.randint(-5, 40, (60,), dtype=getattr(torch, dtype))
    executor = tc.compile(text, "f", None, x, i)
    assert "indices " not in executor.explain().split("\ngroup 1\n")[0]
    inside = (i >= 0) & (i < 31)
    assert torch.equal(executor(x, i), torch.where(inside, x[:, i.clamp(0, 30).long()], 0.0))


@pytest.mark.parametrize(("condition", "bad"), NOT_KEPT)
def test_conditions_that_do_not(condition: str, bad: int) -> None:
    text = f"""def f(float(C,N) X, int32(P) I, int32(P) J) -> (O) {{
        O(c,p) = {condition} ? X(c, I(p)) : 0 where c in 0:C }}"""
    x, i, j = torch.randn(4, 31), torch.full((9,), 5, dtype=torch.int32), torch.zeros(9).int()
    i[3] = bad
    with pytest.raises(tc.ShapeError, match=f"index {bad} "):
        tc.compile(text, "f", None, x, i, j)(x, i, j)


@pytest.mark.parametrize("bad", [2**31 - 1, 2**31, 2**32 + 3, -(2**31), 2**63 - 1, -(2**63)])
def test_sums_that_leave_their_type(bad: int) -> None:
    """A condition on a sum or a cast that wraps around is none on what does not."""
    x = torch.randn(4, 31)
    for condition, place in (
        ("int32(I(p)) >= 0 && int32(I(p)) < N", "I(p)"),
        ("I(p) + 1 >= 0 && I(p) + 1 < N", "I(p) + 1"),
        ("I(p) + 1 < N && I(p) >= 0", "I(p) + 1"),
        ("I(p) - 2 >= 0 && I(p) - 2 < N", "I(p) - 2"),
    ):
        for dtype in ("int32", "int64"):
            if dtype == "int32" and not -(2**31) <= bad < 2**31:
                continue
            text = f"""def f(float(C,N) X, {dtype}(P) I) -> (O) {{
                O(c,p) = {condition} ? X(c, {place}) : 0 where c in 0:C }}"""
            i = torch.full((9,), 5, dtype=getattr(torch, dtype))
            wanted = x[:, i.long() + {"I(p)": 0, "I(p) + 1": 1, "I(p) - 2": -2}[place]]
            executor = tc.compile(text, "f", None, x, i)
            assert torch.equal(executor(x, i), wanted)
            i[3] = bad
            try:
                result = executor(x, i)
            except tc.ShapeError:
                continue
            wanted[:, 3] = 0
            assert torch.equal(result, wanted), (text, bad)


@pytest.mark.parametrize("channels", [2, 16, 40])
@pytest.mark.parametrize("order", [(0, 1, 2, 3), (0, 2, 3, 1), (2, 0, 1, 3), (1, 3, 2, 0)])
def test_images_that_lie_in_other_orders(order: tuple[int, ...], channels: int) -> None:
    """Channels last, with gaps between rows: places count in what the image lies in."""
    sizes = [2, channels, 24, 33]
    apart = torch.randn(*(sizes[d] + 3 for d in order))
    x = apart.permute(*(order.index(d) for d in range(4)))[:2, :channels, :24, :33]
    g = torch.rand(2, 19, 23, 2) * 2.6 - 1.3
    result = tc.compile(SAMPLE, "f", None, x, g)(x, g)
    torch.testing.assert_close(result, F.grid_sample(x, g, align_corners=True))


def test_places_of_terms_that_do_not_count() -> None:
    """They may be bad, or be computed of what is outside: nobody asks for them."""
    text = """def f(float(C,N) X, float(P) A, float(K) W) -> (O) {
        O(c,p) +=! k <= p ? X(c, int32(floor(A(p-k)*(N-1)))) * W(k) : 0
            where p in 0:P, k in 0:K }"""
    x, a, w = torch.randn(300, 31), torch.rand(200), torch.randn(5)
    executor = tc.compile(text, "f", None, x, a, w)
    padded = torch.nn.functional.pad(x[:, (a * 30).floor().long()], (4, 0))
    wanted = (padded.unfold(1, 5, 1) * w.flip(0)).sum(2)
    torch.testing.assert_close(executor(x, a, w), wanted)
    assert "places in X" not in executor.explain()
    text = """def f(float(C,N) X, float(P) A, int32(K) W) -> (O) {
        O(c,p) +=! k < p ? X(c, int32(floor(A(p)*(N-1)))) * W(k) : 0
            where p in 0:P, k in 0:K }"""
    a[0] = 9.0
    executor = tc.compile(text, "f", None, x, a, w.int())
    counts = torch.stack([w.int()[:p].sum() for p in range(200)])
    wanted = x[:, (a.clamp(0, 1) * 30).floor().long()] * counts
    torch.testing.assert_close(executor(x, a, w.int()), wanted)
