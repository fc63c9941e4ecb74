"""Allocations of isl that fail, one at a time, at moments all over a compilation."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest

# Only isl, which is part of the core's library, and the core's context for it call malloc from
# there; C++ calls it from libstdc++.
SHIM = r"""
#include <errno.h>
#include <stdlib.h>
extern void *__libc_malloc(size_t), *__libc_calloc(size_t, size_t), *__libc_realloc(void *, size_t);
static const char *low, *high;
static long left = -1, seen;
static __thread int skip;
void watch(const void *from, const void *to) { low = from; high = to; }
void fail_at(long n) { seen = 0; left = n; }
long count(void) { return seen; }
static int fails(const char *caller, size_t size) {
  if (!low || caller < low || caller >= high) return 0;
  if (skip > 0 && skip-- > 0) return 0;
  if (size == 65536) skip = 8;  /* poly::Context made sure of memory for isl_ctx_alloc */
  seen++;
  if (left <= 0 || --left > 0) return 0;
  errno = ENOMEM;
  return 1;
}
void *malloc(size_t n) { return fails(__builtin_return_address(0), n) ? 0 : __libc_malloc(n); }
void *calloc(size_t n, size_t m) {
  return fails(__builtin_return_address(0), n * m) ? 0 : __libc_calloc(n, m);
}
void *realloc(void *p, size_t n) {
  return fails(__builtin_return_address(0), n) ? 0 : __libc_realloc(p, n);
}
"""

PROGRAM = """
import ctypes, os, sys
import torch
import tensor_comprehensions as tc

shim = ctypes.CDLL(sys.argv[1])
shim.fail_at.argtypes, shim.count.restype = [ctypes.c_long], ctypes.c_long
places = [
    int(place, 16)
    for line in open("/proc/self/maps")
    if "libtensor_comprehensions.so" in line and " r-x" in line
    for place in line.split()[0].split("-")
]
shim.watch(ctypes.c_void_p(min(places)), ctypes.c_void_p(max(places)))
text = "def f(float(N, N) A) -> (T) { T(i, j) +=! A(i, r) * A(r, j + 3) where j in 0:20 }"
torch.manual_seed(0)
x = torch.randn(50, 50)
wanted = x @ x[:, 3:23]
shim.fail_at(-1)
tc.define(text).f(x)
total = shim.count()
assert total > 1000, total

def attempt(n):
    tc.clear_cache()
    f = tc.define(text).f
    try:
        shim.fail_at(n)
        try:
            result = f(x)
        finally:
            shim.fail_at(-1)
    except (tc.TCError, MemoryError) as error:
        assert "out of memory" in str(error), (n, error)
        return "refused"
    torch.testing.assert_close(result, wanted, msg=lambda text: f"{n}: {text}")
    return "right"

# In processes of their own, by number of exit status.
ends = ["right", "refused", "wrong"]
counts = {}
for n in range(1 + int(sys.argv[2]), total, total // int(sys.argv[3])):
    child = os.fork()
    if not child:
        end = "wrong"
        try:
            end = attempt(n)
        except BaseException as error:
            print(error, file=sys.stderr, flush=True)
        os._exit(ends.index(end))
    status = os.waitpid(child, 0)[1]
    end = ends[os.WEXITSTATUS(status)] if os.WIFEXITED(status) else "crashed"
    counts[end] = counts.get(end, 0) + 1
print(counts)
"""


@pytest.mark.parametrize(
    ("first", "moments"), [(0, 100), pytest.param(17, 400, marks=pytest.mark.slow)]
)
def test_each_is_an_error_or_costs_nothing(tmp_path: Path, first: int, moments: int) -> None:
    """isl's exceptions then speak of what they miss: an error of syntax in its parser's text, a
    void expression, an argument that is none. Where there is none, a loop may be missing."""
    source, shim = tmp_path / "shim.c", tmp_path / "shim.so"
    source.write_text(SHIM)
    # Calls in tail position would not return to where they come from.
    flags = ["-O1", "-fno-optimize-sibling-calls", "-shared", "-fPIC"]
    subprocess.run(["gcc", *flags, str(source), "-o", str(shim)], check=True)
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(shim), str(first), str(moments)],
        env={**os.environ, "LD_PRELOAD": str(shim)},
        capture_output=True,
        text=True,
        timeout=500,
    )
    assert done.returncode == 0, done.stderr
    counts = ast.literal_eval(done.stdout)
    assert "wrong" not in counts, (counts, done.stderr)
    assert counts["refused"] > moments // 2, counts
    # isl 0.25 itself forgets to look in one place of some thousand (isl_tab_compute_reduced_basis).
    assert counts.get("crashed", 0) <= max(1, moments // 200), counts
