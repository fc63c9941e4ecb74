"""What the emulator finds in wrong kernels, in one order of threads, and what it counts."""

from __future__ import annotations

import emulator
import numpy as np
import pytest

TEXT = """
template <class T>
struct pair { T a, b; };
extern __shared__ float dynamic[];
extern "C" __global__ void some_threads(float* a) {
  if (threadIdx.x < 3) __syncthreads();
}
extern "C" __global__ void two_barriers(float* a) {
  if (threadIdx.x < 3) {
    __syncthreads();
  } else {
    __syncthreads();
  }
}
extern "C" __global__ void half_a_warp(float* a) {
  if (threadIdx.x < 16) {
    a[threadIdx.x] = __shfl_xor_sync(0xffffffffu, a[threadIdx.x], 1);
  } else {
    __syncthreads();
  }
}
extern "C" __global__ void outside(float* a) { a[threadIdx.x + 1] = 1; }
extern "C" __global__ void before(float* a) { if (a[(int)threadIdx.x - 1] > 5) __trap(); }
extern "C" __global__ void outside_shared(float* a) {
  __shared__ float s[64];
  s[threadIdx.x] = 1;
  __syncthreads();
  a[threadIdx.x] = s[threadIdx.x + 1];
}
extern "C" __global__ void outside_local(float* a) {
  float l[4];
  for (int i = 0; i < 4; ++i) l[i] = a[i];
  a[threadIdx.x] = l[(threadIdx.x + (int)a[0]) % 64];
}
extern "C" __global__ void trap(float* a) { if (threadIdx.x == 5) __trap(); }
extern "C" __global__ void uninitialized(float* a) {
  __shared__ float s[64];
  a[threadIdx.x] = s[threadIdx.x];
}
extern "C" __global__ void first_barrier(float* a) {
  __shared__ float s[64];
  for (int i = 0; i < 3; ++i) {
    s[threadIdx.x] = a[threadIdx.x];
    if (i > 0 || threadIdx.x > 1000) __syncthreads();
    a[threadIdx.x] = s[63 - threadIdx.x];
    __syncthreads();
  }
}
extern "C" __global__ void second_barrier(float* a) {
  __shared__ float s[64];
  float sum = 0;
  for (int i = 0; i < 3; ++i) {
    s[threadIdx.x] = threadIdx.x;
    __syncthreads();
    sum += s[63 - threadIdx.x];
  }
  a[threadIdx.x] = sum;
}
extern "C" __global__ void dynamic_tile(float* a) {
  dynamic[threadIdx.x] = threadIdx.x;
  a[threadIdx.x] = dynamic[63 - threadIdx.x];
}
extern "C" __global__ void lost(float* a) { a[threadIdx.x % 7] += 1; }
extern "C" __global__ void lost_in_shared(float* a) {
  __shared__ float s[1];
  if (threadIdx.x == 0) s[0] = 0;
  __syncthreads();
  s[0] += 1;
  __syncthreads();
  if (threadIdx.x == 0) a[0] = s[0];
}
extern "C" __global__ void between_blocks(float* a) { if (threadIdx.x == 0) a[0] += 1; }
extern "C" __global__ void reads_of_blocks(float* a) {
  a[64 * blockIdx.x + threadIdx.x] = a[64 * (blockIdx.x ^ 1) + threadIdx.x];
}
extern "C" __global__ void mixed(float* a) {
  if (blockIdx.x == 0) atomicAdd(a, 1.f);
  else if (threadIdx.x == 0) a[1] = a[0];
}
extern "C" __global__ void votes(int* a) {
  __shared__ int s[64];
  s[threadIdx.x] = threadIdx.x;
  int any = __any_sync(0xffffffffu, threadIdx.x == 3);
  a[threadIdx.x] = s[threadIdx.x ^ 1] + any;
}
extern "C" __global__ void bytes(unsigned char* a) { a[threadIdx.x / 2] = 1; }
extern "C" __global__ void overlap(double* a) {
  if (threadIdx.x == 0) a[0] = 1;
  else if (threadIdx.x == 1) ((float*)a)[1] = 1;
}
extern "C" __global__ void pairs(pair<double>* a) {
  const int i = threadIdx.x;
  a[i] = pair<double>{1, 2};
  if (i == 7) ((double*)a)[3] = a[i].a;
}
extern "C" __global__ void temporary(float* a, const float* t) {
  a[threadIdx.x] = t[threadIdx.x] + 1;
}
extern "C" __global__ void after_atomics(float* a) {
  atomicAdd(&a[0], 1.f);
  __syncthreads();
  if (threadIdx.x == 0) a[1 + blockIdx.x] = a[0];
}

// ---- and right ones
extern "C" __global__ void atomic_updates(float* a) { atomicAdd(a, 1.f); }
extern "C" __global__ void words(int* a) {
  volatile int* place = a;
  int old = *place, expected;
  do {
    expected = old;
    old = atomicCAS(a, expected, expected + 1);
  } while (old != expected);
}
extern "C" __global__ void neighbours(unsigned char* a) { a[threadIdx.x] = 1; }
extern "C" __global__ void halves(double* a) { ((float*)a)[threadIdx.x] = 1; }
extern "C" __global__ void warp_tree(float* a) {
  __shared__ float s[64];
  const int t = threadIdx.x, lane = t % 32;
  s[t] = a[t];
  __syncwarp();
  for (int half = 16; half > 0; half /= 2) {
    if (lane < half) s[t] += s[t + half];
    __syncwarp();
  }
  if (lane == 0) a[t] = s[t];
}
extern "C" __global__ void part_of_a_warp(float* a) {
  __shared__ float s[64];
  const int t = threadIdx.x;
  if (t < 16) {
    s[t] = t;
    __syncwarp(0xffffu);
    a[t] = s[15 - t];
  }
}
extern "C" __global__ void wrong_part_of_a_warp(float* a) {
  __shared__ float s[64];
  const int t = threadIdx.x;
  if (t < 32) {
    s[t] = t;
    if (t < 8) __syncwarp(0xffu);
    if (t >= 8) __syncwarp(0xffffff00u);
    a[t] = s[31 - t];
  }
}
extern "C" __global__ void readers_after_barrier(float* a) {
  __shared__ float s[64];
  s[threadIdx.x] = 1;
  __syncthreads();
  float sum = 0;
  for (int i = 0; i < 64; ++i) sum += s[i];
  __syncthreads();
  s[threadIdx.x] = sum;
  a[64 * blockIdx.x + threadIdx.x] = s[threadIdx.x];
}
"""
SHARED = r"s\[\d+\] in shared memory"
THREAD = r"thread \(\d+, 0, 0\) of block \(\d+, 0, 0\)"

MISTAKES = {
    "some_threads": "barrier divergence: 3 of 64 threads wait at line 6, the others have ended",
    "two_barriers": r"barrier divergence: thread \(0, 0, 0\) waits at line 10, .* at line 12",
    "half_a_warp": "deadlock|barrier divergence",
    "outside": rf"{THREAD} writes 4 bytes beside an array at line \d+ "
    r"\(`.*a\[threadIdx.x \+ 1\] = 1; }`\), a\[64\] of 64 elements",
    "before": r"reads 4 bytes beside an array at line \d+ .*, a\[-1\] of 64 elements",
    "outside_shared": r"reads 4 bytes beside an array .*, s\[64\] in shared memory of 64 elements",
    "trap": r"__trap\(\) at line \d+ by thread \(5, 0, 0\) in block",
    "uninitialized": rf"read of {SHARED} by {THREAD} at line \d+ .*: nobody has written it",
    "first_barrier": rf"read of {SHARED} by {THREAD} at line \d+ .*: nobody has written it, or not "
    r"yet, where a barrier \(__syncthreads\) is missing|race",
    "second_barrier": rf"race on {SHARED}: {THREAD} reads it at line \d+ \(`sum \+= .*`\) where "
    rf"{THREAD} writes it at line \d+ \(`s\[threadIdx.x\] = .*;`\); a barrier .*is missing",
    "dynamic_tile": r"read of dynamic\[\d+\] in shared memory|race on dynamic\[",
    "lost": r"race on a\[\d\].*or the update must be atomic|no barrier orders blocks",
    "lost_in_shared": r"race on s\[0\] in shared memory.*or the update must be atomic",
    "between_blocks": r"race on a\[0\].*no barrier orders blocks: an atomic update is missing, or "
    "a launch of its own",
    "reads_of_blocks": r"race on a\[\d+\].*no barrier orders blocks",
    "mixed": r"race on a\[0\].*both must be atomic",
    "votes": rf"race on {SHARED}|read of {SHARED}.*nobody has written it",
    "bytes": r"race on a\[\d+\]",
    "overlap": r"race on a\[0\]",
    "pairs": r"race on a\[1\]",
    "temporary": rf"read of t\[\d+\] by {THREAD} at line \d+ .*: nobody has written it$",
    "after_atomics": r"race on a\[0\].*both must be atomic",
    "wrong_part_of_a_warp": rf"race on {SHARED}|read of {SHARED}.*nobody has written it",
}
RIGHT = (
    "atomic_updates",
    "words",
    "neighbours",
    "halves",
    "warp_tree",
    "part_of_a_warp",
    "readers_after_barrier",
)
TYPES = {
    "votes": np.int32,
    "words": np.int32,
    "bytes": np.uint8,
    "neighbours": np.uint8,
    "overlap": np.float64,
    "halves": np.float64,
}
# One block where the text has one.
BLOCKS = {"between_blocks": 2, "reads_of_blocks": 4, "mixed": 2, "atomic_updates": 4, "words": 4}
BLOCKS |= {"after_atomics": 3, "readers_after_barrier": 5}


def launch(kernel: str, **how: object) -> np.ndarray:
    blocks = BLOCKS.get(kernel, 1)
    array = np.zeros(64 * blocks, TYPES.get(kernel, np.float32))
    if kernel == "pairs":
        array = np.zeros(64, np.complex128)  # elements of 16 bytes
    args = [array]
    if kernel == "temporary":
        args.append(np.zeros(64, np.float32))
        how["defined"] = {1: np.zeros(256, np.uint8)}
    emulator.compile(TEXT).launch(kernel, blocks, 64, args, shared_bytes=256, **how)
    return array


@pytest.mark.parametrize("order", emulator.ORDERS)
@pytest.mark.parametrize("kernel", MISTAKES)
def test_mistakes_are_found(kernel: str, order: str) -> None:
    """In each order alone."""
    with pytest.raises(emulator.EmulatorError, match=f"(?s)^{kernel}: .*({MISTAKES[kernel]})"):
        launch(kernel, order=order)


@pytest.mark.parametrize("order", emulator.ORDERS)
@pytest.mark.parametrize("kernel", RIGHT)
def test_right_kernels_pass(kernel: str, order: str) -> None:
    for seed in range(3 if order == "shuffled" else 1):
        result = launch(kernel, order=order, seed=seed)
        if kernel in ("atomic_updates", "words"):
            assert result[0] == 64 * BLOCKS[kernel]


def test_compare_and_swap_is_tried_again() -> None:
    """Other threads come between the first load and the exchange, so that the loop runs."""
    text = """extern "C" __global__ void f(int* a) {
      volatile int* place = a;
      int old = *place, expected;
      do {
        expected = old;
        old = atomicCAS(a, expected, expected + 1);
        if (old != expected) atomicAdd(a + 1, 1);
      } while (old != expected);
    }"""
    array = np.zeros(2, np.int32)
    emulator.compile(text).launch("f", 2, 64, [array])
    assert array[0] == 128 and array[1] > 0


def test_what_was_written_by_an_earlier_launch_may_be_read() -> None:
    text = """extern "C" __global__ void f(float* t) { if (threadIdx.x < 32) t[threadIdx.x] = 1; }
    extern "C" __global__ void g(float* a, const float* t) { a[threadIdx.x] = t[threadIdx.x]; }"""
    module, t, a = emulator.compile(text), np.zeros(64, np.float32), np.zeros(64, np.float32)
    defined = np.zeros(256, np.uint8)
    module.launch("f", 1, 64, [t], defined={0: defined})
    assert defined.tolist() == 128 * [1] + 128 * [0]
    module.launch("g", 1, 32, [a, t], defined={1: defined})
    with pytest.raises(emulator.EmulatorError, match=r"read of t\[\d\d\].*nobody has written it"):
        module.launch("g", 1, 64, [a, t], defined={1: defined})


@pytest.mark.parametrize("kernel", ["outside", "outside_local"])
def test_sanitizer_finds(kernel: str) -> None:
    with pytest.raises(emulator.EmulatorError, match="buffer-overflow"):
        launch(kernel, sanitize=True)


def test_texts_that_are_no_cuda() -> None:
    with pytest.raises(emulator.EmulatorError, match="rejects"):
        emulator.compile('extern "C" __global__ void f(float* a) { a[0] = b; }').launch(
            "f", 1, 1, [np.zeros(1, np.float32)]
        )
    with pytest.raises(emulator.EmulatorError, match="no __global__"):
        emulator.compile("int x;")


# ---- what it counts, against what is computed by hand

TRANSPOSE = """
extern "C" __global__ void plain(float* out, const float* in) {
  const int x = threadIdx.x, y = threadIdx.y;
  for (int r = 0; r < 32; r += 8) out[x * 32 + y + r] = in[(y + r) * 32 + x];
}
extern "C" __global__ void tile(float* out, const float* in) {
  __shared__ float s[32][32];
  const int x = threadIdx.x, y = threadIdx.y;
  for (int r = 0; r < 32; r += 8) s[y + r][x] = in[(y + r) * 32 + x];
  __syncthreads();
  for (int r = 0; r < 32; r += 8) out[(y + r) * 32 + x] = s[x][y + r];
}
extern "C" __global__ void padded(float* out, const float* in) {
  __shared__ float s[32][33];
  const int x = threadIdx.x, y = threadIdx.y;
  for (int r = 0; r < 32; r += 8) s[y + r][x] = in[(y + r) * 32 + x];
  __syncthreads();
  for (int r = 0; r < 32; r += 8) out[(y + r) * 32 + x] = s[x][y + r];
}
"""


@pytest.mark.parametrize(
    "kernel, sectors, efficiency, conflicts, barriers",
    [
        # 32 reads of 4 sectors, and 32 writes of 32 sectors, 4 bytes of each.
        ("plain", (4 + 32) / 2, (4 + 4) / (4 + 32), 0, 0),
        # 32 stores side by side, and 32 loads whose lanes are all in one bank.
        ("tile", 4, 1, (1 + 32) / 2, 1),
        ("padded", 4, 1, 1, 1),
    ],
)
def test_transpositions(
    kernel: str, sectors: float, efficiency: float, conflicts: float, barriers: int
) -> None:
    source = np.arange(1024, dtype=np.float32).reshape(32, 32)
    result = np.zeros_like(source)
    counts = emulator.compile(TRANSPOSE).launch(kernel, 1, (32, 8), [result, source], counts=True)
    np.testing.assert_array_equal(result, source.T)
    assert counts.global_requests == 64 and counts.threads == 256
    assert counts.shared_requests == (0 if kernel == "plain" else 64)
    assert counts.sectors_per_request == sectors
    assert counts.efficiency == efficiency
    assert counts.bank_conflicts == conflicts
    assert counts.barriers == barriers and counts.atomics == 0


@pytest.mark.parametrize(
    "type_, index, sectors, used",
    [
        ("float", "t", 4, 128),
        ("float", "0", 1, 4),  # all lanes one word
        ("float", "t * 2", 8, 128),
        ("float", "t * 8", 32, 128),
        ("float", "t + 1", 5, 128),  # beside the sectors' edges
        ("double", "t", 8, 256),
        ("unsigned char", "t", 1, 32),
        ("short", "t / 2", 1, 32),
        ("float", "31 - t", 4, 128),
    ],
)
def test_sectors(type_: str, index: str, sectors: int, used: int) -> None:
    text = f"""extern "C" __global__ void f(const {type_}* a, int* out) {{
      const int t = threadIdx.x;
      if (a[{index}] != 0) out[0] = 1;
    }}"""
    sizes = {"float": np.float32, "double": np.float64, "short": np.int16}
    array = np.zeros(300, sizes.get(type_, np.uint8))
    counts = emulator.compile(text).launch("f", 1, 32, [array, np.zeros(1, np.int32)], counts=True)
    assert (counts.global_requests, counts.sectors, counts.used_bytes) == (1, sectors, used)


@pytest.mark.parametrize(
    "type_, index, wavefronts, least",
    [
        ("float", "t", 1, 1),
        ("float", "0", 1, 1),  # one word for all
        ("float", "t * 2", 2, 1),
        ("float", "t * 4", 4, 1),
        ("float", "t * 3", 1, 1),
        ("float", "t % 2 * 32", 2, 1),
        ("double", "t", 2, 2),  # half a warp at a time
        ("double", "t * 2", 4, 2),
        ("unsigned char", "t", 1, 1),
    ],
)
def test_bank_conflicts(type_: str, index: str, wavefronts: int, least: int) -> None:
    text = f"""extern "C" __global__ void f(int* out) {{
      __shared__ {type_} s[128];
      const int t = threadIdx.x;
      for (int i = t; i < 128; i += 32) s[i] = 1;
      __syncthreads();
      if (s[{index}] != 1) out[0] = 1;
    }}"""
    module = emulator.compile(text)
    counts = module.launch("f", 1, 32, [np.zeros(1, np.int32)], counts=True)
    # Four stores without conflicts, of one or two wavefronts each.
    stores = 4 * (2 if type_ == "double" else 1)
    assert counts.shared_requests == 5
    assert counts.wavefronts - stores == wavefronts
    assert counts.least_wavefronts - stores == least


def test_atomics_are_counted() -> None:
    text = 'extern "C" __global__ void f(int* a) { atomicAdd(a + threadIdx.x % 2, 1); }'
    counts = emulator.compile(text).launch("f", 3, 64, [np.zeros(2, np.int32)], counts=True)
    assert counts.atomics == 6  # one a warp
    assert counts.sectors_per_request == 1
