"""Register blocks at every kind of edge: rows and columns that do not divide, one vector, none."""

from __future__ import annotations

import re

import pytest
import torch
import torch.nn.functional as F
from explained import notes

import tensor_comprehensions as tc

MATMUL = """
def matmul_tile({type}(M, K) A, {type}(K, N) B) -> (C) {{
  C(m, n) +=! A(m, k) * B(k, n)
}}
"""
FUSED = """
def fused_tile(float(M, K) A, float(K, N) B, float(N) bias) -> (C, S) {
  C(m, n) = bias(n)
  C(m, n) += A(m, k) * B(k, n)
  C(m, n) = max(C(m, n), 0)
  S(m, n) = C(m, n) * C(m, n)
}
"""


def integers(*sizes: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """Sums of small integers are exact in every order, so results must be equal."""
    return torch.randint(-3, 4, sizes).to(dtype)


@pytest.mark.parametrize("columns", [1, 2, 3, 7, 8, 9, 15, 16, 17, 31, 40, 63, 64, 65, 100, 130])
@pytest.mark.parametrize("rows", [1, 2, 5, 13, 14, 15, 29])
def test_matmul_sizes(rows: int, columns: int) -> None:
    t = tc.define(MATMUL.format(type="float"), namespace="tc_tiles")
    a, b = integers(rows, 6), integers(6, columns)
    assert torch.equal(t.matmul_tile(a, b), a @ b)


@pytest.mark.parametrize("name", ["double", "int32", "int16", "uint8"])
@pytest.mark.parametrize("columns", [3, 16, 33, 70])
def test_types(name: str, columns: int) -> None:
    dtype = {"double": torch.float64, "int32": torch.int32, "int16": torch.int16}.get(
        name, torch.uint8
    )
    t = tc.define(MATMUL.format(type=name), namespace=f"tc_tiles_{name}")
    a, b = integers(11, 9).abs().to(dtype), integers(9, columns).abs().to(dtype)
    expected = (a.double() @ b.double()).to(dtype)
    assert torch.equal(t.matmul_tile(a, b), expected)


@pytest.mark.parametrize("columns", [5, 16, 20, 77])
def test_prologue_and_epilogue_in_registers(columns: int) -> None:
    t = tc.define(FUSED, namespace="tc_tiles")
    a, b, bias = integers(9, 7), integers(7, columns), integers(columns)
    c, s = t.fused_tile(a, b, bias)
    expected = F.relu(a @ b + bias)
    assert torch.equal(c, expected)
    assert torch.equal(s, expected * expected)


@pytest.mark.parametrize("columns", [5, 16, 20, 77])
def test_accumulates_into_what_is_there(columns: int) -> None:
    """The block is loaded first; lanes that overlap may not be added twice."""
    text = "def accumulate(float(M, K) A, float(K, N) B) -> (C) { C(m, n) += A(m, k) * B(k, n) }"
    t = tc.define(text, namespace="tc_tiles")
    a, b, start = integers(9, 7), integers(7, columns), integers(9, columns)
    c = start.clone()
    t.accumulate(a, b, outputs=(c,))
    assert torch.equal(c, start + a @ b)


@pytest.mark.parametrize("columns", [5, 16, 20, 77])
def test_in_place_update_after_a_reduction(columns: int) -> None:
    """Another tensor, updated in place in the same tile: overlapping lanes would do it twice."""
    text = """
    def updated(float(M, K) A, float(K, N) B) -> (C, D) {
      C(m, n) +=! A(m, k) * B(k, n)
      D(m, n) = D(m, n) + C(m, n)
    }
    """
    t = tc.define(text, namespace="tc_tiles")
    a, b, start = integers(9, 7), integers(7, columns), integers(9, columns)
    c, d = torch.empty(9, columns), start.clone()
    t.updated(a, b, outputs=(c, d))
    assert torch.equal(c, a @ b)
    assert torch.equal(d, start + a @ b)


@pytest.mark.parametrize("operator", ["max", "min"])
@pytest.mark.parametrize("width", [4, 17, 35])
def test_other_reductions(operator: str, width: int) -> None:
    text = (
        f"def extremum(float(C, H, W) I, float(S) E) -> (O) {{"
        f" O(c, h, w) {operator}=! I(c, h, w + s) - E(s) }}"
    )
    t = tc.define(text, namespace=f"tc_tiles_{operator}")
    image, window = integers(3, 8, width + 2), integers(3)
    shifted = torch.stack([image[..., s : s + width] - window[s] for s in range(3)])
    expected = shifted.amax(0) if operator == "max" else shifted.amin(0)
    assert torch.equal(t.extremum(image, window), expected)


@pytest.mark.parametrize("size", [(1, 1, 3, 3), (2, 3, 12, 14), (1, 5, 9, 40), (2, 16, 30, 19)])
def test_convolution(size: tuple[int, ...]) -> None:
    text = (
        "def convolution_tile(float(N,C,H,W) I, float(F,C,KH,KW) W1) -> (O) {"
        " O(n,f,h,w) +=! I(n,c,h+kh,w+kw) * W1(f,c,kh,kw) }"
    )
    t = tc.define(text, namespace="tc_tiles")
    image, weight = integers(*size), integers(7, size[1], 3, 3)
    assert torch.equal(t.convolution_tile(image, weight), F.conv2d(image, weight))


def test_strided_results() -> None:
    t = tc.define(MATMUL.format(type="float"), namespace="tc_tiles")
    a, b = integers(15, 6), integers(6, 37)
    transposed = torch.zeros(37, 15).t()
    t.matmul_tile(a, b, outputs=(transposed,))
    assert torch.equal(transposed, a @ b)
    sliced = torch.full((15, 80), -9.0)
    t.matmul_tile(a, b, outputs=(sliced[:, 1:75:2],))
    assert torch.equal(sliced[:, 1:75:2], a @ b)
    assert bool((sliced[:, 0::2] == -9).all()) and bool((sliced[:, 75:] == -9).all())


@pytest.mark.parametrize("name", ["half", "float", "double"])
@pytest.mark.parametrize(
    ("subscript", "points"),
    [("(i + 1) / 2", lambda i: (i + 1) // 2), ("3 * i % 5", lambda i: 3 * i % 5)],
)
def test_operands_at_uneven_steps(
    monkeypatch: pytest.MonkeyPatch, name: str, subscript: str, points
) -> None:
    """What a block reads once is moved to registers first where its steps are all the same."""
    monkeypatch.setenv("TC_MACHINE", "cores=2,cache_bytes=2048,least_percent=1,library_rate=1")
    type_ = {"half": torch.float16, "float": torch.float32, "double": torch.float64}[name]
    text = f"""def uneven(bool(P) C, {name}(R, M) A, {name}(R, N) B) -> (O) {{
      O(i) +=! C(i) ? A(r, {subscript}) : B(r, i)
    }}"""
    t = tc.define(text, namespace=f"tc_uneven_{len(subscript)}_{name}")
    a, b = integers(1, 4 * 33, dtype=type_)[:, ::4], integers(1, 33, dtype=type_)
    c = torch.rand(33) < 0.5
    wanted = torch.where(c, a[0, points(torch.arange(33))], b[0])
    assert torch.equal(t.uneven(c, a, b), wanted)


def test_operands_across_vectors_under_a_condition() -> None:
    """Nothing is read where the condition is false: there is no element."""
    text = """def guarded(float(R, M) A, float(R, N) B) -> (O) {
      O(i) +=! i < 7 ? A(r, i) : B(r, i) where i in 0:N
    }"""
    t = tc.define(text, namespace="tc_tiles")
    a, b = integers(1, 28)[:, ::4], integers(1, 33)
    assert torch.equal(t.guarded(a, b), torch.cat([a[0], b[0, 7:]]))


@pytest.mark.parametrize("columns", range(17, 32))
def test_tails_find_registers(monkeypatch: pytest.MonkeyPatch, columns: int) -> None:
    """Less than a vector is vectors of the largest power of 2, the last of which overlaps."""
    monkeypatch.setenv(
        "TC_MACHINE",
        "vector_bits=512,unit_bits=256,vector_registers=32,cores=2,library_rate=1",
    )
    text = """def f(float(K,B,M,P) X, float(R,K,B,N) Y) -> (Z) {
      Z(p,b,r,n,m) +=! X(k,b,m,p) * Y(r,k,b,n)
    }"""
    x, y = integers(6, 3, columns, 4), integers(11, 6, 3, 21)
    executor = tc.compile(text, "f", None, x, y)
    assert torch.equal(executor(x, y), torch.einsum("kbmp,rkbn->pbrnm", x, y))
    *sides, vector = re.search(
        r"in registers: (.*)", notes(executor.explain(), "group 1")["form"][0]
    )[1].split(" x ")
    points, name = re.match(r"(\d+) of (\w)", vector).groups()
    extent = {"m": columns, "p": 4, "n": 21, "r": 11, "b": 3}[name]
    lanes, tail = 16, extent % int(points)
    while lanes > tail > 0:
        lanes //= 2
    rows = 1
    for side in sides:
        rows *= int(side.split()[0])
    assert rows * -(-tail // lanes) < 32


def blocks_of(assembly: str) -> list[str]:
    """The blocks of a kernel that add products to vectors of 512 bits."""
    blocks = [b for b in re.split(r"\n\.LBB\S+:", assembly) if b.count("vfmadd231ps") >= 8]
    if not any("zmm" in block for block in blocks):
        pytest.skip("the blocks are chosen for vectors of 512 bits")
    return blocks


@pytest.mark.parametrize(("channels", "size", "stride"), [(32, 14, 1), (64, 28, 2)])
def test_windows_leave_accumulators_in_registers(channels: int, size: int, stride: int) -> None:
    # Unrolled over a filter's columns, neighbouring windows have most of their elements in common,
    # and all of them together with the block of results are more than there are registers.
    text = f"""
def windows(float(N,C,H,W) I, float(F,C,KH,KW) K) -> (O) {{
  O(n,f,h,w) +=! I(n,c,{stride}*h+kh,{stride}*w+kw) * K(f,c,kh,kw)
}}
"""
    side = stride * (size - 1) + 3
    image = integers(2, 16, side, side)
    filters = integers(channels, 16, 3, 3)
    # ATen may be measured to be faster.
    options = tc.MappingOptions().matchLibraryCalls(False)
    kernel = tc.compile(text, "windows", options, image, filters)
    assert torch.equal(kernel(image, filters), F.conv2d(image, filters, stride=stride))
    for block in blocks_of(kernel.assembly):
        spills = len(re.findall(r"zmm\d+, .*-byte Spill", block))
        assert spills * 12 <= block.count("vfmadd231ps"), block


@pytest.mark.parametrize(("channels", "size"), [(256, 14), (512, 7)])
def test_rows_with_vectors_of_their_own_leave_accumulators_in_registers(
    channels: int, size: int
) -> None:
    # Along kw every row of a block reads other vectors, and each of them serves all rows along f.
    text = """
def weights(float(N,C,H,W) I, float(N,F,HO,WO) dO) -> (dK) {
  dK(f,c,kh,kw) +=! dO(n,f,h,w) * I(n,c,h+kh,w+kw) where kh in 0:3, kw in 0:3
}
"""
    image = integers(2, channels, size + 2, size + 2)
    gradient = integers(2, channels, size, size)
    options = tc.MappingOptions().matchLibraryCalls(False)
    kernel = tc.compile(text, "weights", options, image, gradient)
    expected = F.conv2d(image.transpose(0, 1), gradient.transpose(0, 1)).transpose(0, 1)
    assert torch.equal(kernel(image, gradient), expected)
    for block in blocks_of(kernel.assembly):
        assert not re.search(r"zmm\d+, .*-byte Spill", block), block


def test_tiles_that_share_cache_lines_of_results_follow_each_other() -> None:
    # dK's elements of neighbouring kh lie between those of neighbouring c, the vector.
    text = """
def weights(float(N,C,H,W) I, float(N,F,HO,WO) dO) -> (dK) {
  dK(f,c,kh,kw) +=! dO(n,f,h,w) * I(n,c,h+kh,w+kw) where kh in 0:3, kw in 0:3
}
"""
    image, gradient = integers(2, 256, 9, 9), integers(2, 256, 7, 7)
    # A library call has no tiles.
    options = tc.MappingOptions().matchLibraryCalls(False)
    explained = tc.compile(text, "weights", options, image, gradient).explain()
    (form,) = re.findall(r"form +(a block of .*)", explained)
    (tasks,) = re.findall(r"tasks +(.*)", explained)
    if not re.search(r"x \d+ of c ", form):
        pytest.skip(f"chosen for vectors of 512 bits: {form}")
    order = re.findall(r"(\w+) (?:one by one|whole|in \d+ tiles)", tasks)
    assert order.index("c") < order.index("kh"), tasks


@pytest.mark.parametrize("first", [0, 2])
def test_filters_of_one_element_merge_rows_and_columns(first: int) -> None:
    # A window of one element reads at h + (0): the image is as contiguous as in a matrix product.
    text = f"""
def pointwise(float(N,C,H,W) I, float(F,C,KH,KW) K) -> (O) {{
  O(n,f,h,w) +=! I(n,c,h+kh-{first},w+kw-{first}) * K(f,c,kh,kw)
      where kh in {first}:{first + 1}, kw in {first}:{first + 1}, h in 0:H, w in 0:W
}}
"""
    image, filters = integers(2, 24, 7, 5), integers(20, 24, first + 1, first + 1)
    kernel = tc.compile(text, "pointwise", None, image, filters)
    assert torch.equal(kernel(image, filters), F.conv2d(image, filters[:, :, first:, first:]))
    assert "h 35" in kernel.explain()


def test_products_of_their_own_have_loops_of_their_own() -> None:
    # In one group neither could tile its reduction, and operands were gathered.
    text = """
def both(float(M,K) A, float(N,K) B, float(M,K) D) -> (C, E) {
  C(m,n) +=! A(m,k) * B(n,k)
  E(m,n) +=! D(m,k) * B(n,k)
}
"""
    a, b, d = integers(64, 20_000), integers(128, 20_000), integers(64, 20_000)
    kernel = tc.compile(text, "both", None, a, b, d)
    for actual, wanted in zip(kernel(a, b, d), (a @ b.t(), d @ b.t()), strict=True):
        assert torch.equal(actual, wanted)
    assert "S1 is a product with a block in registers of its own" in kernel.explain()
    assert "gathered" not in kernel.explain()


def test_products_into_one_tensor_share_their_block() -> None:
    text = """
def sum(float(M,K) A, float(K,N) B, float(M,L) D, float(L,N) E) -> (C) {
  C(m,n) +=! A(m,k) * B(k,n)
  C(m,n) += D(m,l) * E(l,n)
}
"""
    a, b, d, e = integers(64, 40), integers(40, 64), integers(64, 30), integers(30, 64)
    kernel = tc.compile(text, "sum", None, a, b, d, e)
    assert torch.equal(kernel(a, b, d, e), a @ b + d @ e)
    assert kernel.explain().count("\ngroup ") == 1
    long = integers(64, 3000), integers(3000, 64)
    kernel = tc.compile(text, "sum", None, a, b, *long)
    assert torch.equal(kernel(a, b, *long), a @ b + long[0] @ long[1])
    assert kernel.explain().count("\ngroup ") == 2


@pytest.mark.parametrize("cache", [1 << 16, 1 << 20])
def test_operands_larger_than_the_second_cache_are_read_in_chunks(
    monkeypatch: pytest.MonkeyPatch, cache: int
) -> None:
    # B is read where it lies, by the tiles of m after each other.
    monkeypatch.setenv(
        "TC_MACHINE",
        f"vector_bits=512,vector_registers=32,cores=2,cache_bytes={cache},library_rate=1",
    )
    text = f"""
def chunks_{cache}(float(M,K) A, float(N,K) B) -> (C) {{ C(n,m) +=! A(m,k) * B(n,k) }}
"""
    a, b = integers(96, 32), integers(2003, 32)
    kernel = tc.compile(text, f"chunks_{cache}", None, a, b)
    assert torch.equal(kernel(a, b), b @ a.t())
    (tasks,) = [line for line in kernel.explain().splitlines() if line.startswith("  tasks")]
    if cache == 1 << 16:
        # 2003 rows of 128 bytes are 3.9 times what is kept; n comes first, so that its chunk stays.
        tiles, size = map(int, re.search(r": n in (\d+) tiles of (\d+), m in", tasks).groups())
        assert size * 128 <= cache and tiles * size >= 2003
    else:
        assert "n whole" in tasks


def test_rows_that_are_fetched_ahead_are_not_read_in_chunks(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Copies of A for 8 chunks of B would take 0.07 of the time."""
    machine = "vector_bits=512,vector_registers=32,cores=2,cache_bytes=65536,library_rate=1"
    monkeypatch.setenv("TC_MACHINE", machine)
    text = "def product(float(M,K) A, float(N,K) B) -> (C) { C(n,m) +=! A(m,k) * B(n,k) }"
    a, b = integers(96, 64), integers(2003, 64)
    kernel = tc.compile(text, "product", None, a, b)
    assert torch.equal(kernel(a, b), b @ a.t())
    (tasks,) = [line for line in kernel.explain().splitlines() if line.startswith("  tasks")]
    assert "n whole (2003)" in tasks


def test_images_that_exceed_the_second_cache_are_cut_into_rows(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """One by one, and then their rows, while the tiles of f pass over them."""
    cache = 1 << 16
    monkeypatch.setenv(
        "TC_MACHINE",
        f"vector_bits=512,vector_registers=32,cores=2,cache_bytes={cache},library_rate=1",
    )
    text = """def convolution(float(N,C,H,W) I, float(F,C,KH,KW) K) -> (O) {
        O(n,f,h,w) +=! I(n,c,h+kh,w+kw) * K(f,c,kh,kw)
    }"""
    image, filters = integers(3, 16, 42, 42), integers(256, 16, 3, 3)
    executor = tc.compile(text, "convolution", None, image, filters)
    assert torch.equal(executor(image, filters), torch.nn.functional.conv2d(image, filters))
    (tasks,) = [line for line in executor.explain().splitlines() if line.startswith("  tasks")]
    assert ": n one by one (3), h in" in tasks
    rows = int(re.search(r"h in \d+ tiles of (\d+), f in", tasks)[1])
    assert 16 * (rows + 2) * 42 * 4 <= cache < 16 * (2 * rows + 2) * 42 * 4


def test_filters_that_exceed_the_second_cache_stay_for_the_next_row(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """All rows of an image use the filters of a tile of c before the next filters come."""
    monkeypatch.setenv(
        "TC_MACHINE",
        "vector_bits=512,vector_registers=32,cores=2,cache_bytes=131072,library_rate=1",
    )
    text = "def f(float(F,H,W) I, float(F,C) K) -> (O) { O(h,c,w) +=! I(f,h,w) * K(f,c) }"
    image, filters = integers(256, 8, 16), integers(256, 1024)
    executor = tc.compile(text, "f", None, image, filters)
    assert torch.equal(executor(image, filters), torch.einsum("fhw,fc->hcw", image, filters))
    (tasks,) = [line for line in executor.explain().splitlines() if line.startswith("  tasks")]
    assert re.search(r": c in \d+ tiles of \d+, h ", tasks)


def test_copies_of_reversed_filters_cost_what_others_cost() -> None:
    """A gradient reads its filters backwards; copies are made forwards."""
    notes = []
    for place in ("kh,kw", "2-kh,2-kw"):
        text = f"""def f(float(N,C,H,W) I, float(F,C,KH,KW) K) -> (O) {{
            O(n,f,h,w) +=! I(n,c,h+kh,w+kw) * K(f,c,{place}) where kh in 0:3, kw in 0:3
        }}"""
        image, filters = integers(2, 64, 9, 9), integers(64, 64, 3, 3)
        executor = tc.compile(text, "f", None, image, filters)
        wanted = filters if place == "kh,kw" else filters.flip(2, 3)
        assert torch.equal(executor(image, filters), torch.nn.functional.conv2d(image, wanted))
        lines = executor.explain().splitlines()
        notes.append([line for line in lines if line.startswith(("  form", "  cycles"))])
    assert notes[0] == notes[1]


def test_sums_that_an_epilogue_reads_are_in_registers() -> None:
    """What is done to a result when all its terms are there does not choose the vector."""
    product = "T(f,h,w) +=! I(c,h+kh,w+kw) * K(f,c,kh,kw)"
    image, filters, bias = integers(64, 16, 58), integers(64, 64, 3, 3), integers(64)
    forms = []
    for text in (product.replace("T(", "O("), f"{product}  O(f,h,w) = T(f,h,w) + b(f)"):
        executor = tc.compile(
            f"def f(float(C,H,W) I, float(F,C,KH,KW) K, float(F) b) -> (O) {{ {text} }}",
            "f",
            tc.MappingOptions().matchLibraryCalls(False),
            image,
            filters,
            bias,
        )
        wanted = torch.nn.functional.conv2d(image[None], filters, bias if "T" in text else None)
        assert torch.equal(executor(image, filters, bias), wanted[0])
        forms += [line for line in executor.explain().splitlines() if line.startswith("  form")]
    assert forms[0] == forms[1]


@pytest.mark.parametrize("first", [-2, 3])
def test_ranges_that_start_elsewhere(first: int) -> None:
    """A range as long as a tile is one tile wherever it starts; nothing is written beyond it."""
    t = tc.define(
        f"""def shifted(double(N, C, W) I, double(F, C, K) A) -> (O) {{
  O(n, f, w) +=! I(n, c, w + k - ({first})) * A(f, c, k)
    where w in {first}:W - K + 1 + ({first})
}}""",
        tc.MappingOptions().matchLibraryCalls(False),
        namespace=f"tc_tiles_from_{first + 5}",
    )
    i, a = integers(3, 4, 25, dtype=torch.double), integers(5, 4, 3, dtype=torch.double)
    expected = F.conv1d(i, a)
    memory = torch.full((expected.numel() + 200,), 7.0, dtype=torch.double)
    t.shifted(i, a, outputs=memory[100:-100].view_as(expected))
    assert torch.equal(memory[100:-100].view_as(expected), expected)
    assert (memory[:100] == 7).all() and (memory[-100:] == 7).all()


@pytest.mark.parametrize("low", [-2, 1, 7])
def test_first_tiles_of_ranges_that_start_elsewhere(low: int) -> None:
    offset = -3 * low
    text = f"""
def elsewhere(float(A, B, C) X) -> (T) {{
  T(k, i, j) +=! X(j, k, 3*i + r + {offset}) where i in ({low}):{low + 5}
}}
""".replace("+ -", "- ")
    x = integers(18, 18, 19)
    t = tc.define(text, namespace=f"tc_tiles_{abs(low)}")
    windows = x.unfold(2, 7, 3).sum(-1)  # j, k, i
    assert torch.equal(t.elsewhere(x), windows.permute(1, 2, 0))


@pytest.mark.parametrize("columns", [196, 197, 200, 203])
def test_narrow_tiles_keep_registers_of_their_own(columns: int) -> None:
    """The last tile's accumulators are narrower than those of the others and no parts of them."""
    text = "def f(float(B,I,K) X, float(B,K,J) Y) -> (Z) { Z(b,i,j) +=! X(b,i,k) * Y(b,k,j) }"
    x, y = integers(3, 64, 50), integers(3, 50, columns)
    kernel = tc.compile(text, "f", tc.MappingOptions().matchLibraryCalls(False), x, y)
    for block in blocks_of(kernel.assembly):
        assert not re.search("vinsertf|vextractf", block)
    assert torch.equal(kernel(x, y), x @ y)


def test_sums_that_only_their_block_uses_stay_in_registers() -> None:
    text = """def f(float(M,K) A, float(K,N) B, float(N) bias) -> (C) {
      sum(m,n) +=! A(m,k) * B(k,n)
      C(m,n) = sum(m,n) + bias(n)
    }"""
    for rows, columns in ((30, 50), (37, 13)):
        values = integers(rows, 20), integers(20, columns), integers(columns)
        kernel = tc.compile(text, "f", tc.MappingOptions().matchLibraryCalls(False), *values)
        found = notes(kernel.explain(), "whole")
        assert found["workspace"] == ["none"]
        assert found["private"] == ["sum: never whole, a part for every iteration"]
        assert torch.equal(kernel(*values), values[0] @ values[1] + values[2])


def test_values_that_only_their_block_uses_stay_in_registers() -> None:
    """What two statements of a block compute alike is computed once, and is in no memory."""
    text = """def f(float(M,K) A, float(K,N) B, float(N) w) -> (C, D) {
      C(m,n) +=! A(m,k) * B(k,n)
      D(m,n) = exp(C(m,n)) * w(n)
      C(m,n) = exp(C(m,n)) + w(n)
    }"""
    for rows, columns in ((30, 50), (37, 13), (64, 96)):
        values = torch.randn(rows, 20) / 9, torch.randn(20, columns), torch.rand(columns)
        kernel = tc.compile(text, "f", tc.MappingOptions().matchLibraryCalls(False), *values)
        explained = kernel.explain()
        assert "a block of results in registers" in explained
        assert notes(explained, "whole")["workspace"] == ["none"]
        c, d = kernel(*values)
        exp = (values[0].double() @ values[1].double()).exp()
        torch.testing.assert_close(c, (exp + values[2]).float(), rtol=2e-5, atol=1e-5)
        torch.testing.assert_close(d, (exp * values[2]).float(), rtol=2e-5, atol=1e-5)


def test_sums_that_others_use_are_stored() -> None:
    text = """def f(float(M,K) A, float(K,N) B, float(N,L) D) -> (C, E) {
      sum(m,n) +=! A(m,k) * B(k,n)
      C(m,n) = sum(m,n) * 2.0
      E(m,l) +=! sum(m,n) * D(n,l)
    }"""
    a, b, d = integers(30, 20), integers(20, 50), integers(50, 40)
    kernel = tc.compile(text, "f", tc.MappingOptions().matchLibraryCalls(False), a, b, d)
    c, e = kernel(a, b, d)
    assert torch.equal(c, 2 * (a @ b))
    assert torch.equal(e, a @ b @ d)


@pytest.mark.parametrize(("rows", "tile"), [(40, 32), (12, 8), (16, 16)])
def test_strided_results_of_temporaries_that_are_stored_between(
    monkeypatch: pytest.MonkeyPatch, rows: int, tile: int
) -> None:
    """Vectors along rows store every n-th element. Halide joined them where the first one is."""
    # What is computed is kept in memory there.
    machine = "vector_bits=256,dot_products=2,vector_registers=16,cores=3,cache_bytes=4096"
    monkeypatch.setenv("TC_MACHINE", f"{machine},library_rate=1,least_percent=2")
    text = """def softmax(float(N, D) X) -> (O) {
        M(n) max=! X(n, d)
        E(n, d) = exp(X(n, d) - M(n))
        S(n) +=! E(n, d)
        O(n, d) = X(n, d) - M(n) - log(S(n))
    }"""
    x = torch.randn(rows, 5)
    order = ["S0_init", "S0", "S1", "S2_init", "S2", "S3", "S4"]
    options = tc.MappingOptions().libraryCalls(None).cluster(*order).order("n")
    options = options.tile("task", n=tile).registers(n=tile).points("inside").vector(True)
    options = options.nest("S2_init", loops=()).nest("S0_init", loops=()).nest("S0", loops=("d",))
    options = options.nest("S1", "S2", loops=("d",)).nest("S3", "S4", loops=("d",)).copy(None)
    found = tc.compile(text, "softmax", options, x)(x)
    torch.testing.assert_close(found, torch.log_softmax(x, 1), rtol=1e-5, atol=1e-5)
