"""The folders of the core: includes point one way, and a folder has one subject."""

from __future__ import annotations

import re
from pathlib import Path

CORE = Path(__file__).parents[2] / "csrc"
#: From the bottom up; those of one line may include each other.
LAYERS = (
    ("base",),
    ("machine",),
    ("ir",),
    ("lang", "einsum", "isa", "poly", "rewrite"),
    ("plan",),
    ("tune",),
    ("nest",),
    ("runtime",),
    ("codegen",),
    ("store",),
)
INCLUDE = re.compile(r'^#include "(?:(\w+)/)?((?:\w+/)*\w+\.h)"', re.M)


def test_includes_point_down() -> None:
    heights = {name: k for k, layer in enumerate(LAYERS) for name in layer}
    wrong, seen = [], 0
    for folder in heights:
        for path in sorted((CORE / folder).rglob("*.[hc]*")):
            for included, header in INCLUDE.findall(path.read_text()):
                seen += 1
                # What is above all folders lies in none.
                if included != "tc" and heights.get(included, len(LAYERS)) > heights[folder]:
                    wrong.append(f"{path.relative_to(CORE)} includes {included or '.'}/{header}")
    assert not wrong, "\n".join(wrong)
    assert seen > 1000


def test_every_folder_is_in_a_layer() -> None:
    known = {name for layer in LAYERS for name in layer} | {"api", "include", "torch", "caffe2"}
    assert {path.name for path in CORE.iterdir() if path.is_dir()} == known


def test_folders_have_few_files() -> None:
    """At most some 25: what is more has a second subject."""
    for folder in (*CORE.rglob("*"), *(CORE.parent / "tests").rglob("*")):
        if folder.is_dir() and folder.name not in ("planted_bugs", "__pycache__"):
            files = [path.name for path in folder.iterdir() if path.suffix in (".cpp", ".h", ".py")]
            assert len(files) <= 28, f"{folder} has {len(files)} files"


def test_libraries_are_included_in_one_place() -> None:
    """Their pitfalls and version guards are written there."""
    places = {"Halide": "ir/halide.h", "isl/": "poly/isl.h"}
    for path in sorted(CORE.rglob("*.[hc]*")):
        for library, place in places.items():
            if re.search(rf"^#include <{library}", path.read_text(), re.M):
                assert path == CORE / place, f"{path} includes {library}"


#: Numbers that decide something and are neither facts of the machine nor limits beside them
#: (machine/limits.h); each says where it stands why not.
DECISIONS = {
    "codegen/cpu/cpu_kernel.cpp": {"kLittle"},
    "codegen/vectors/vector_reductions.cpp": {"kGathered"},
    "codegen/workarounds/access_analysis.cpp": {"kMostAccesses"},
    "codegen/workarounds/lift_lets.cpp": {"kDeepest"},
    "codegen/workarounds/split_blocks.cpp": {"kMostNodes", "kMostInLoops"},
    "compile_segment.h": {"kMostStatements"},
    "ir/index_checks.cpp": {"kMostNodes"},
    "lang/gradient/sums/zero_sums.cpp": {"kMostPoints", "kMostDepth", "kMostSizes"},
    "lang/sema/recurrences.cpp": {"kMostOperations"},
    "poly/index_sets.cpp": {"kMostParts"},
    "store/tuning.cpp": {"kMostTimes"},
    "torch/differentiable.cpp": {"kMost"},
}
#: Limits of the language and of interfaces, forms, sizes of memory that the library itself needs,
#: arithmetic.
OTHERS = {
    "api/einsum.cpp": {"kMostElements"},
    "api/options.cpp": {"kMostValues"},
    "base/memory.h": {"kLineBytes", "kPageBytes", "kAddressSpace"},
    "base/notes.cpp": {"kLabelWidth"},
    "base/threads/out_of_memory.cpp": {"kReserve"},
    "base/python_calls.cpp": {"kMostDepth"},
    "base/python_calls.h": {"kMostDigits"},
    "base/threads/task.cpp": {"kStackBytes", "kShortBytes", "kPoll", "kLong", "kMostForking"},
    "caffe2/operator.cpp": {"kAtHand"},
    "codegen/cpu/cpu_kernel.cpp": {"kCpu", "kAlignment", "kInline"},
    "codegen/cuda/cuda_printer.cpp": {"kMaxStaticSharedBytes", "kSharedAlignment"},
    "codegen/cuda/gpu_loops.cpp": {"kMaxGridX", "kMaxThreads", "kMaxThreadsZ"},
    "codegen/math/inverse_functions.cpp": {"kLarge", "kNear", "kNearZero"},
    "codegen/math/invariant_divisors.cpp": {"kSmallestDivisor", "kLargestDivisor", "kOperations"},
    "codegen/math/narrow_floats.cpp": {"kShift", "kRebias", "kRoundedLanes"},
    "codegen/math/special_functions.cpp": {
        *("kInfinity", "kNaN", "kSqrtPi", "kI0Small", "kI1Small", "kI0Large", "kI1Large"),
    },
    "codegen/math/vector_trigonometry.cpp": {
        *("kLargestAngle", "kLargestQuotient", "kQuarterTurn", "kQuarterTurnOfDouble"),
        *("kOfAngle", "kOfQuotient"),
    },
    "codegen/prefetch/next_part.cpp": {"kMostIterations"},
    "codegen/vectors/copies.cpp": {"kWord"},
    "codegen/workarounds/large_arrays.cpp": {"kHalideStack"},
    "compile.cpp": {"kMostDigits"},
    "einsum/bind.cpp": {"kLargest", "kMost"},
    "einsum/equation.h": {"kFirstEllipsis"},
    "explain.cpp": {"kFewer"},
    "group_kernels.cpp": {"kMostKept"},
    "ir/accesses.cpp": {"kMostCompared"},
    "ir/expressions/wrap_integers.cpp": {"kMost"},
    "isa/instructions.cpp": {"kLanes"},
    "isa/library_calls.cpp": {"kMostDimensions"},
    "lang/gradient/invert_access.cpp": {"kFew", "kSmallFactor"},
    "lang/gradient/size_products.cpp": {"kMaxWeight"},
    "lang/gradient/sums/prime_field.h": {"kPrime"},
    "lang/gradient/sums/trial_values.h": {"kFar"},
    "lang/gradient/sums/zero_sums.cpp": {"kFollowing", "kSamples", "kTrials"},
    "lang/sema/builtins.cpp": {"kSame", "kBool", "kInt32", "kInt64", "kBuiltins"},
    "lang/sema/expansion.h": {"kMaximumDepth", "kMaximumOperations", "kMaximumStatements"},
    "lang/syntax/formatter.cpp": {"kWidth", "kIndentation"},
    "lang/syntax/instead.cpp": {
        "kFunctions",
        "kStatements",
        "kConstants",
        "kWords",
        "kSpellings",
        "kMembers",
    },
    "lang/syntax/parser.cpp": {"kOperators", "kReductions", "kUnaryPrecedence"},
    "nest/build.cpp": {"kLimit"},
    "nest/nest.h": {"kAnyRest"},
    "rewrite/algebra/contractions.cpp": {
        *("kSearchedFactors", "kMostIndices", "kAlongRows", "kComparedOrders"),
    },
    "rewrite/algebra/multiply_by_reciprocals.cpp": {"kSmallest", "kLargest"},
    "rewrite/algebra/nest_sums.cpp": {"kSharingRounds"},
    "rewrite/canonical/expand_positions.cpp": {"kMostPositions"},
    "rewrite/canonical/start_at_zero.cpp": {"kFar"},
    "runtime/check_tensor.h": {"kMostDimensions"},
    "runtime/host.cpp": {"kAlignment"},
    "runtime/kernel.cpp": {"kAround"},
    "runtime/libraries.cpp": {"kSize", "kImages", "kChannels", "kTaps"},
    "runtime/machine_code.cpp": {"kMachine", "kStubBytes", "kSlotBytes"},
    "store/code_folder.cpp": {
        *("kMagicSize", "kHeader", "kFlags", "kMostFile", "kAbandoned", "kLeft", "kCountAnew"),
    },
    "store/code_folder.h": {"kMostCodeBytes"},
    "store/file.cpp": {"kMostLinks", "kFirstPause", "kPause", "kLong"},
    "store/store.cpp": {"kVersion", "kTrailer"},
    "store/tuning.h": {"kMostPlans", "kMostTrials"},
    "torch/operator.cpp": {"kInline"},
    "torch/temporary_memory.cpp": {"kHugePage", "kKeeps", "kLeastKept", "kMostKept"},
}
CONSTANTS = re.compile(
    r"^ *(?:static )?constexpr (?!char\b|const char\b)[^=;]*?\bk[A-Z][^;]*;", re.M
)


def test_decisions_stand_with_the_machine_or_in_plans() -> None:
    """A new threshold is a fact or a limit in `machine`, or part of a Plan."""
    assert sum(map(len, DECISIONS.values())) <= 15
    found: dict[str, set[str]] = {}
    for path in sorted(CORE.rglob("*.[hc]*")):
        place = path.relative_to(CORE)
        # How a search draws its candidates is the search's own.
        if place.parts[0] in ("machine", "plan", "tune"):
            continue
        for declaration in CONSTANTS.findall(path.read_text()):
            names = set(re.findall(r"\b(k[A-Z]\w*)\b(?:\[\w*\])? *=", declaration))
            found.setdefault(str(place), set()).update(names)
    known = {
        place: DECISIONS.get(place, set()) | OTHERS.get(place, set())
        for place in {*DECISIONS, *OTHERS}
    }
    assert {place: names for place, names in found.items() if names} == known
