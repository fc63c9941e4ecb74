"""Options are plain data: exact text, exact equality, no silent values."""

from __future__ import annotations

import copy
import pickle
import re
from functools import cache

import numpy as np
import pytest
import torch

import tensor_comprehensions as tc

PRESETS = [
    "default",
    "naive",
    "pointwise",
    "mlp",
    "convolution",
    "group_convolution",
    "unmapped",
    "single_thread",
    "identity",
]
SETTINGS = [
    ("tile", (4, 8)),
    ("tile", (0,)),
    ("tile", (1,) * 16),
    ("mapToThreads", (32,)),
    ("mapToThreads", (32, 4, 2)),
    ("mapToBlocks", (7,)),
    ("mapToBlocks", (100, 100, 3)),
    ("unroll", (1,)),
    ("unroll", (256,)),
    ("maxSharedMemory", (0,)),
    ("maxSharedMemory", (49152,)),
    *(
        (name, (value,))
        for name in (
            "useSharedMemory",
            "usePrivateMemory",
            "unrollCopyShared",
            "useReadOnlyCache",
            "matchLibraryCalls",
            "fixParametersBeforeScheduling",
            "tileImperfectlyNested",
            "vectorize",
            "parallel",
        )
        for value in (True, False)
    ),
    *(
        (name, (value,))
        for name in (
            "scheduleFusionStrategy",
            "outerScheduleFusionStrategy",
            "intraTileScheduleFusionStrategy",
        )
        for value in ("Max", "Min", "Preserve3Coincident")
    ),
]


def check_same(a: tc.MappingOptions, b: tc.MappingOptions) -> None:
    assert a == b and b == a and not [x for x in (a,) if x != b]
    assert str(a) == str(b) and hash(a) == hash(b)


def check_copies(options: tc.MappingOptions) -> None:
    check_same(tc.MappingOptions.parse(str(options)), options)
    check_same(tc.MappingOptions.parse(options.serialize()), options)
    check_same(eval(str(options), {"tc": tc}), options)
    check_same(copy.copy(options), options)
    check_same(copy.deepcopy([options])[0], options)
    check_same(pickle.loads(pickle.dumps(options)), options)
    assert repr(options) == str(options)


@pytest.mark.parametrize("preset", PRESETS)
def test_presets(preset: str) -> None:
    options = tc.MappingOptions(preset)
    assert str(options) == f'tc.MappingOptions("{preset}")'
    check_copies(options)
    assert len({tc.MappingOptions(p) for p in PRESETS}) == len(PRESETS)


@pytest.mark.parametrize("preset", PRESETS)
def test_every_setting(preset: str) -> None:
    for name, values in SETTINGS:
        options = tc.MappingOptions(preset)
        assert getattr(options, name)(*values) is options
        check_copies(options)
        again = getattr(tc.MappingOptions(preset), name)(*values)
        check_same(options, again)


def test_all_settings_at_once() -> None:
    options = tc.MappingOptions("naive")
    for name, values in SETTINGS:
        options = getattr(options, name)(*values)
    check_copies(options)
    assert options != tc.MappingOptions("naive")


def test_copies_do_not_follow() -> None:
    options = tc.MappingOptions("naive")
    other = copy.copy(options)
    other.tile(3)
    assert options == tc.MappingOptions("naive") and other != options


def test_define_and_compile_keep_a_copy() -> None:
    text = "def f(float(N) A) -> (B) { B(i) = A(i) }"
    options = tc.MappingOptions("naive").tile(8)
    executor = tc.compile(text, "f", options, torch.ones(3))
    options.tile(5)
    assert executor.mapping_options == tc.MappingOptions("naive").tile(8)


def test_lists_as_in_2018() -> None:
    check_same(tc.MappingOptions().tile([4, 8]), tc.MappingOptions().tile(4, 8))
    check_same(tc.MappingOptions().mapToThreads((4, 8)), tc.MappingOptions().mapToThreads(4, 8))
    assert tc.MappingOptions().tile([4, 8]) != tc.MappingOptions().tile(8, 4)


def test_numbers_of_numpy() -> None:
    def made(one: object, two: object, yes: object, both: object) -> tc.MappingOptions:
        options = tc.MappingOptions().tile(both).unroll(two).useSharedMemory(yes).cluster("S0")
        return options.registers(m=two, n=one).vector(yes)

    check_same(
        made(np.int64(1), np.uint8(2), np.bool_(True), np.array([4, 8])), made(1, 2, True, [4, 8])
    )
    check_same(tc.MappingOptions().tile(torch.tensor([4, 8])), tc.MappingOptions().tile(4, 8))


def test_what_is_set_is_not_what_is_open() -> None:
    """Also where it is what the preset `naive` has."""
    default = tc.MappingOptions("default")
    for name, values in (("mapToThreads", (32, 8)), ("mapToBlocks", (256, 256))):
        options = getattr(tc.MappingOptions("default"), name)(*values)
        assert options != default
        check_copies(options)


def test_both_fusion_strategies() -> None:
    both = tc.MappingOptions().scheduleFusionStrategy("Max")
    each = (
        tc.MappingOptions()
        .intraTileScheduleFusionStrategy("Max")
        .outerScheduleFusionStrategy("Max")
    )
    check_same(both, each)


def test_comparison_with_others() -> None:
    options = tc.MappingOptions("naive")
    assert options != "naive" and options != str(options) and options is not None


@pytest.mark.parametrize(
    "name, values, words",
    [
        ("tile", (), "MappingOptions.tile(): expected 1 to 16 integers of at least 0"),
        ("tile", (-1,), "MappingOptions.tile(-1)"),
        ("tile", (1,) * 17, "expected 1 to 16 integers"),
        ("mapToThreads", (0,), "mapToThreads(0): expected 1 to 3 integers of at least 1"),
        ("mapToThreads", (1, 2, 3, 4), "expected 1 to 3 integers"),
        ("mapToBlocks", (), "MappingOptions.mapToBlocks()"),
        ("mapToBlocks", (3, -3), "MappingOptions.mapToBlocks(3, -3)"),
        ("unroll", (0,), "MappingOptions.unroll(0): expected one integer of at least 1"),
        ("maxSharedMemory", (-1,), "MappingOptions.maxSharedMemory(-1)"),
        ("useSharedMemory", (2,), "MappingOptions.useSharedMemory(2): expected True or False"),
        ("vectorize", (-1,), "expected True or False"),
        ("scheduleFusionStrategy", ("max",), 'expected "Max", "Min" or "Preserve3Coincident"'),
        ("outerScheduleFusionStrategy", ("",), 'MappingOptions.outerScheduleFusionStrategy("")'),
    ],
)
def test_bad_values(name: str, values: tuple, words: str) -> None:
    options = tc.MappingOptions("naive")
    with pytest.raises(tc.TCError) as error:
        getattr(options, name)(*values)
    assert words in str(error.value)
    assert options == tc.MappingOptions("naive")


@pytest.mark.parametrize(
    "name, lowest, allowed",
    [
        ("tile", 0, "1 to 16 integers of at least 0"),
        ("mapToThreads", 1, "1 to 3 integers of at least 1"),
        ("mapToBlocks", 1, "1 to 3 integers of at least 1"),
        ("unroll", 1, "one integer of at least 1"),
        ("maxSharedMemory", 0, "one integer of at least 0"),
    ],
)
def test_large_values(name: str, lowest: int, allowed: str) -> None:
    """What is taken can be printed and read again; what is not is refused where it is set."""
    text = "def f(float(N) A) -> (B) { B(i) = A(i) }"
    for value in (lowest, 2**31 - 1, 2**31, 2**53 + 1, 10**18 - 1):
        options = getattr(tc.MappingOptions(), name)(value)
        assert tc.MappingOptions.parse(str(options)) == options
        assert f".{name}({value})" in str(options) or str(options) == str(tc.MappingOptions())
        for target in ("cpu", "cuda:sm_90"):
            tc.compile(text, "f", options, torch.ones(10), target=target)
    for value in (10**18, 2**63 - 1, 2**63, 2**70, -(2**63) - 1):
        options = tc.MappingOptions("naive")
        with pytest.raises(tc.TCError) as error:
            getattr(options, name)(value)
        assert str(error.value) == (
            f"MappingOptions.{name}({value}): expected {allowed}; integers have at most 18 digits"
        )
        assert options == tc.MappingOptions("naive")
    with pytest.raises(tc.TCError, match=r"10{18}.*integers have at most 18 digits"):
        tc.MappingOptions().cluster("S0").tile("task", m=10**18)


def test_many_blocks() -> None:
    options = tc.MappingOptions("naive").mapToBlocks(10**17, 10**17)
    text = "def f(float(N) A) -> (B) { B(i) = A(i) }"
    executor = tc.compile(text, "f", options, torch.ones(1000), target="cuda:sm_90")
    assert '"grid": [32, 1, 1]' in executor.text("launches")


@pytest.mark.parametrize(
    "name, values",
    [
        ("tile", (1.5,)),
        ("tile", ("32",)),
        ("tile", (None,)),
        ("unroll", (2.0,)),
        ("useSharedMemory", ("yes",)),
        ("scheduleFusionStrategy", (3,)),
    ],
)
def test_values_of_other_types(name: str, values: tuple) -> None:
    options = tc.MappingOptions("naive")
    with pytest.raises((TypeError, tc.TCError)):
        getattr(options, name)(*values)
    assert options == tc.MappingOptions("naive")


def test_unknown_names() -> None:
    with pytest.raises(tc.TCError, match="unknown preset 'fast' of MappingOptions; there are: "):
        tc.MappingOptions("fast")
    with pytest.raises(AttributeError):
        tc.MappingOptions().tiles(3)
    with pytest.raises(tc.TCError, match="MappingOptions has no option 'tiles'; it has: "):
        tc.MappingOptions.parse('tc.MappingOptions("naive").tiles(3)')


@pytest.mark.parametrize(
    "text",
    [
        "",
        "naive",
        "tc.MappingOptions",
        "tc.MappingOptions(",
        "tc.MappingOptions(naive)",
        'tc.MappingOptions("naive',
        'tc.MappingOptions("naive"',
        'tc.MappingOptions("naive") junk',
        'tc.MappingOptions("naive").tile',
        'tc.MappingOptions("naive").tile(',
        'tc.MappingOptions("naive").tile(3',
        'tc.MappingOptions("naive").tile(3 4)',
        'tc.MappingOptions("naive").tile(3.5)',
        'tc.MappingOptions("naive", "mlp")',
        'tc.MappingOptions("naive").tile("Max")',
        'tc.MappingOptions("naive").scheduleFusionStrategy(3)',
        'tc.MappingOptions("naive").tile(9999999999999999999999)',
        'tc.MappingOptions("naive").unroll(True, False)',
        'tc.MappingOptions("naive")..tile(3)',
        'tc.MappingOptions("naive").tile(3)\0',
        "import os",
    ],
)
def test_texts_that_are_no_options(text: str) -> None:
    with pytest.raises(tc.TCError) as error:
        tc.MappingOptions.parse(text)
    assert "internal" not in str(error.value)


def test_bytes_that_are_no_options() -> None:
    with pytest.raises(tc.TCError, match="can't decode byte 0xff in position 0"):
        tc.MappingOptions.parse(b"\xff")


def test_spaces_do_not_matter() -> None:
    check_same(
        tc.MappingOptions.parse(' tc.MappingOptions( "naive" )\n  .tile( 3,4 ) .unroll(2) '),
        tc.MappingOptions("naive").tile(3, 4).unroll(2),
    )


# ---- what acts upon a schedule

UNUSED = "Kept and printed; no mapping acts upon it yet."

# A product, and statements over the same indices that could share loops.
LAYER = """
def layer(float(M, K) A, float(K, N) W) -> (C, R, D) {
  C(m, n) +=! A(m, k) * W(k, n)
  R(m) max=! C(m, n)
  D(m, n) = C(m, n) - R(m)
}
"""
# Two values of every option, one of them not the default of any preset below.
TWO_VALUES = {
    "tile": (8, 16),
    "mapToThreads": (32, 4),
    "mapToBlocks": (256, 2),
    "unroll": (1, 8),
    "maxSharedMemory": (0, 1024),
    "useSharedMemory": (False, True),
    "usePrivateMemory": (False, True),
    "unrollCopyShared": (False, True),
    "useReadOnlyCache": (False, True),
    "matchLibraryCalls": (False, True),
    "checkIndices": (False, True),
    "fixParametersBeforeScheduling": (False, True),
    "tileImperfectlyNested": (False, True),
    "vectorize": (False, True),
    "parallel": (False, True),
    "scheduleFusionStrategy": ("Min", "Max"),
    "outerScheduleFusionStrategy": ("Min", "Max"),
    "intraTileScheduleFusionStrategy": ("Min", "Max"),
}
#: What is said of single clusters is in test_plans.py, and so are the calls of libraries.
OF_PLANS = {
    *("cluster", "inside", "order", "registers", "instruction", "points", "vector", "nest", "copy"),
    "libraryCalls",
}
NO_OPTION = {"parse", "serialize", *OF_PLANS}

TAKE = "def take(float(N) A, int(M) I) -> (B) { B(i) = A(I(i)) }"


@cache
def texts(options: tc.MappingOptions) -> list[str]:
    """What is made of a definition with given options, on the CPU and for CUDA."""
    inputs = torch.zeros(70, 100), torch.zeros(100, 90)
    cpu = tc.compile(LAYER, "layer", options, *inputs)
    gpu = tc.compile(LAYER, "layer", options, *inputs, target="cuda:sm_80")
    # Halide counts its temporaries through the process: here they are counted from 0.
    names: dict[str, str] = {}
    stmt = re.sub(r"\bt\d+\b", lambda m: names.setdefault(m[0], f"t{len(names)}"), cpu.text("stmt"))
    index = torch.zeros(30, dtype=torch.int32)
    picked = tc.compile(TAKE, "take", options, torch.zeros(50), index, target="cuda:sm_80")
    return [cpu.loop_nest, stmt, gpu.loop_nest, gpu.cuda_source, picked.cuda_source]


def test_every_option_has_two_values_here() -> None:
    methods = {name for name in vars(tc.MappingOptions) if not name.startswith("_")}
    assert set(TWO_VALUES) == methods - NO_OPTION


@pytest.mark.slow
@pytest.mark.parametrize("name", TWO_VALUES)
def test_docstrings_say_which_options_change_nothing(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Where a library is allowed it is fast enough to be called.
    monkeypatch.setenv("TC_MACHINE", "library_rate=1000000,library_call_cycles=1")

    def change(preset: str) -> bool:
        first, second = (
            texts(getattr(tc.MappingOptions(preset), name)(value)) for value in TWO_VALUES[name]
        )
        return first != second

    changes = change("naive") or change("convolution")
    says_unused = UNUSED in getattr(tc.MappingOptions, name).__doc__
    assert says_unused != changes, (
        f"{name} changes kernels but its docstring says that nothing acts upon it"
        if changes
        else f"{name} changes no kernel here: say so in its docstring, as in {UNUSED!r}"
    )
