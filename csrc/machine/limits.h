// From how much of something on a rewrite or a form of code pays, and how far it goes: thresholds
// that are not the sum of costs known here. Those called choices were not measured; the others were
// (benchmarks/thresholds.md), on one processor, and are taken to hold for all.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tc::machine {

// ---- statements in front of others (rewrite/operands)

/// Uses of each element from which on an operand is computed, or put in order, by a statement of
/// its own: of what lies along the reduction, and of what lies along results, which a block of them
/// loads once for all its rows.
constexpr int64_t kComputedUses = 4, kComputedRowUses = 16;
/// The same of operands at places that data says: along the reduction, and across it.
constexpr int64_t kGatheredRowUses = 256, kGatheredUses = 128;
/// By how much a temporary may exceed the largest tensor that its statement uses. A choice: time
/// does not say what memory is worth.
constexpr int64_t kTemporaryGrowth = 2;
/// Bytes of a row that a reduction walks through in no order, from which on the rows of a block of
/// results do not stay in the first cache.
constexpr int64_t kGatheredRowBytes = 12 << 10;
/// Lines that the columns of a block of results take of every row.
constexpr int64_t kBlockLines = 4;
/// Results for which a table of offsets is worth its statement.
constexpr int64_t kTableResults = 1024;
/// The part of its time that a sum has to gain where its last columns are summed apart.
constexpr double kColumnsGain = 0.02;
/// The part of the last cache's rate at which rows are read once more for these columns.
constexpr double kSplitRate = 0.7;

// ---- sums and scans (rewrite/algebra)

/// Terms that a scan replaces by one at least. A choice.
constexpr int64_t kScanTerms = 8;
/// Tensors in a product that is summed step by step. Of two, x * a + x * b stays what it is: a NaN
/// where x is infinite and a and b are not of one sign.
constexpr int kNestedFactors = 3;
/// Operations that summing step by step has to save, and the share of all that it may leave.
/// Choices.
constexpr int64_t kNestedSavings = 20000;
constexpr double kNestedShare = 0.9;
/// Operations that an element of a temporary costs, written once and read again. A choice.
constexpr double kElementOperations = 4;
/// The same of a scan that is multiplied and summed behind it, whose temporary may leave the
/// caches.
constexpr double kScannedOperations = 24;
/// Bytes of such a temporary, and of one that a condition leaves with more points than the result.
/// A choice.
constexpr double kNestedBytes = 1 << 30;
/// Terms that have to be spared where two statements sum the same, and of how many an element is
/// the sum, also where a condition is taken out of one. Choices.
constexpr int64_t kSharedSavings = 4096, kSharedTerms = 8;
/// Points of a reduction for which a pass of its own over data costs something. A choice.
constexpr int64_t kPassPoints = 4096;

// A long reduction with few results is added up in parts. In which order follows from these numbers
// alone, and from sizes, so that results are the same on every machine.
/// Tasks that are enough for any machine, and the most parts that are made.
constexpr int64_t kEnoughTasks = 16, kMostParts = 64;
/// Terms for which a part is worth its task.
constexpr int64_t kPartTerms = 8192;
/// Results that vectors and register tiles compute together.
constexpr int64_t kResultsTogether = 64;

/// Bytes of a scatter's rows up to which they are cut into ranges, of whole pairs of lines, rather
/// than split among owners: reads ahead go on over all of them.
constexpr int64_t kScatteredRowBytes = 1024, kScatteredRangeBytes = 128;
/// Looks at places for every owner, so that none has nearly all.
constexpr int64_t kLooksPerOwner = 16;
/// What splitting a scatter has to gain, and into how many copies of the result at most.
constexpr double kScatterGain = 1.3;
constexpr int64_t kMostCopies = 16;

// ---- index sets (rewrite/domains)

/// Iterations of a row from which on gathers cost more than loops of its own for its ends, and of a
/// piece of it from which on both sides of a choice do.
constexpr int64_t kSplitRow = 8;
/// Pieces of a row, and those of a subscript on the way to them. Choices.
constexpr size_t kRowSegments = 4, kSubscriptPieces = 16;
/// Terms of a sum over an index that chooses them, and instructions of all of them, up to which
/// they are written out. Choices.
constexpr int64_t kWrittenTerms = 4, kWrittenInstructions = 128;
/// Terms of a sum over an index that is an exponent in them. A choice.
constexpr int64_t kWrittenPowers = 8;
/// Statements that set results around the box of those that have terms. A choice.
constexpr size_t kBorders = 4;
/// Statements in place of one with loops over residues. A choice.
constexpr int64_t kResidueStatements = 4;
/// Residues from which on, and terms of a sum up to which, a temporary has residues in the order of
/// the row rather than apart.
constexpr int64_t kOrderedResidues = 16, kOrderedTerms = 16;
/// Terms of a sum from which on vectors of one residue are worth the pass that interleaves them.
constexpr int64_t kTermsOfResidues = 16;

// ---- fusion (poly/fuse)

/// Rows shorter than that are not worth loops of their own, and fewer do not keep threads busy.
constexpr int64_t kFusedRow = 64, kFusedRows = 16;
/// The same for the longest part of a row that several statements write: apart, each of them would
/// pass over the same lines.
constexpr int64_t kFusedPart = 8;
/// Terms beside which it costs nothing to put a block of results down and take it up again.
constexpr int64_t kManyTerms = 1024;

// ---- library calls (library_plan)

/// Bytes a cycle of a pass over memory that fusion would have spared.
constexpr double kPassBytes = 8;
/// By how much estimates have to differ for no measurement to be made, and bytes of what is too
/// large for one: there a call has to win by as much.
constexpr double kNearEstimates = 1.5, kMeasuredBytes = 128e6;
/// A library has to be that much faster than a kernel of ours: figures vary by some hundredths.
constexpr double kLibraryGain = 0.97;

// ---- checks of indices (index_plan)

/// Points that a statement works on for each index, so that a pass over the indices before it
/// hides, and indices that take no time either way.
constexpr int64_t kIndexWork = 8, kFewIndices = 1024;
/// Checks in front of a kernel that are kernels themselves: each takes some 70 ms to compile.
constexpr size_t kCompiledChecks = 4;

/// Elements whose extremes threads look for together: one takes some 20 us for as many.
constexpr int64_t kSharedElements = 1 << 18;

// ---- checks of subscripts (lang/lowering)

/// Points of a subscript that are computed one by one, where neither intervals nor polyhedra say
/// whether it stays inside: 2 ms for a short subscript. The number is a choice.
constexpr int64_t kMostPointsOfSubscript = 16384;

// ---- code (codegen)

/// Lanes of narrow types: 64 would have tails and gathers that cost more than they save.
constexpr int kMostLanes = 32;
/// Vectors of a row at a place that data says that are unrolled, so that the loop over the places
/// sees all that it will read (prefetch/prefetch_gathers).
constexpr int kUnrolledVectors = 8;
/// Choices that a loop is there twice for.
constexpr int kLoopChoices = 2;
/// Copies of all statements of a body that an iteration of a sum along the vector may have.
constexpr int kMostSums = 16;
/// Different vectors of a pattern of places. A choice.
constexpr int kMostPeriod = 8;
/// Loads whose permutations cost what a gather does, and lanes that each has to serve.
constexpr size_t kNeighbourLoads = 4, kLanesOfLoad = 2;
/// Lanes of a gather from which on it loads the places that a table has one by one. A choice.
constexpr int kTableLanes = 4;
/// Lines that an iteration prefetches of a row whose elements are picked: where a piece would be
/// larger, most of it would not be read.
constexpr int64_t kPickedLines = 2;
/// Blocks of a short copy that are no loop. LLVM takes deeper loops for more frequent ones: with
/// these inside others, the masks of their shuffles kept the registers that a reduction before them
/// needs for its results.
constexpr int64_t kUnrolledBlocks = 4;
/// Vector operations that the body of a loop may grow to.
constexpr int64_t kUnrolledOperations = 128;
/// The same for all loops in the body of a register tile together: LLVM took 0.7 s for eight sums
/// of 80 operations each, and half a minute for 40 with another version for the last tile.
constexpr int64_t kUnrolledBody = 512;
/// How many of these a function counts as, exp as tan: LLVM took half a minute for 64 cosines of
/// four vectors each.
constexpr int64_t kUnrolledFunction = 8;
/// How many operations, beside a multiply-add, count as one more: LLVM took 0.15 s for the last
/// tile of an argmax of 100 elements, which has 11 each.
constexpr int64_t kUnrolledArithmetic = 6;
/// Calls of functions by vectors that the points of a register tile may be unrolled to: LLVM took
/// 18 s for 18 vectors of 19 calls each and the 12 of the last rows, and 2.5 s for the three calls
/// of mish behind a product of 128 x 64 x 1000. In loops over some of them that took 0.6 s, and ran
/// as fast: with eight of them together an acosh behind sums of 8 terms did, with fewer it
/// took 1.16 times as long.
constexpr int64_t kUnrolledFunctions = 16, kFunctionsTogether = 8;
/// Strided stores that one interleaved store is made of, at most: about the vector registers.
constexpr int64_t kInterleavedStores = 16;
/// Results of a row that a register tile along another loop has whole, whose vectors are
/// interleaved as they are stored (measured with a Zen 4, along the row and so: 65536 rows of 3
/// times a matrix in 67 and 38 us, 64 x 2048 of 4 times matrices in 480 and 160). For longer rows a
/// choice.
constexpr int64_t kInterleavedRow = 8;
/// Whether neighbours along the vector that lie `apart` elements from each other have such a row of
/// so many results between them.
constexpr bool is_interleaved(int64_t apart, int64_t row) {
  return apart > 1 && apart == row && apart <= kInterleavedRow;
}
/// Iterations of a loop whose divisions become products: a division of numbers takes as long as one
/// of vectors, and has to be waited for. How many divisors: each needs registers for itself and its
/// reciprocal.
constexpr int kDividedIterations = 4;
constexpr size_t kMostDivisors = 4;
/// Bytes of a row that goes past the caches: up to two of its lines are shared with others, which
/// ordinary stores write. And of the array that it passes through, part by part.
constexpr int64_t kStreamedRow = 1024, kStreamedPart = 4096;

}  // namespace tc::machine
