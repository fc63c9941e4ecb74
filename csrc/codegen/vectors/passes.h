// Loops that become vectors, and what vectors become.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string>

#include "machine/cpu.h"
#include "nest/nest.h"

namespace tc::codegen {

/// Reorders and merges the loops of copies and gives them vectors: along the direction that both
/// sides have contiguous, or else in square blocks that are transposed by shuffles, the last of
/// which overlaps the one before it. Blocks that continue on another page are prefetched; those
/// that are computed pass through an array on the stack. Loops that remain Vector are for
/// cut_vector_loops. Copies of other forms stay as they are.
nest::Nest vectorize_copies(const nest::Nest& nest, int vector_bits, const CpuMachine& machine);

/// A vector loop that a compute scans along (see ir::Scan), over neighbours in either direction,
/// becomes a loop over vectors: the lanes of one are combined with those 1, 2, 4, ... before them
/// (Hillis and Steele, Data parallel algorithms, 1986), and with what the vectors before came to.
/// Where a condition says which elements go on and which start anew, lanes are combined as far as
/// it holds for all between them; a sum's neighbour may be scaled. Other computes of the loop
/// follow, a vector each. Loops that are scanned along in another way become serial. Runs before
/// vectorize_reductions.
nest::Nest vectorize_scans(const nest::Nest& nest, int vector_bits);

/// Turns what those loops say of lanes into shuffles. Runs after Halide's vectorize_loops.
ir::Stmt shuffle_lanes(const ir::Stmt& stmt);

/// A vector loop below which X[f] is reduced with f the same in all its iterations gets vectors of
/// partial results: enough of them to hide the latency of the operator, kept in registers over all
/// loops around it in which f stays the same, then added up and combined once with X[f]. Several
/// results may be reduced in one loop, and other computes may have consecutive elements. The order
/// of additions follows from extents and the vector width alone. Guards around a compute hold;
/// floats narrower than 32 bits are accumulated in float. Where data says how many iterations there
/// are, few of them run one after the other.
///
/// Unrolled loops right below the vector are rows that share loads: they are unrolled into it.
/// Loops around a vector loop that continue where its last iteration ends become part of it. Loops
/// that accumulate in another way than this become serial. Runs before cut_vector_loops, which must
/// not see loops that accumulate.
nest::Nest vectorize_reductions(const nest::Nest& nest, int vector_bits, const CpuMachine& machine);

/// The functions that the nests of stream_rows call; their types are those of runtime/nontemporal.
constexpr char kIsResident[] = "tc_is_resident", kCopyNontemporal[] = "tc_copy_nontemporal";

/// Chooses computes that stream: those of `results`, with their sizes in bytes, that nothing in the
/// nest reads, wherever a loop of vectors writes them side by side. Nests of loops that wait for
/// arithmetic, and rows shorter than `least_bytes`, are left alone.
nest::Nest choose_streamed(const nest::Nest& nest, const std::map<std::string, int64_t>& results,
                           int64_t least_bytes);

/// Buffers of which some elements stream.
std::set<std::string> streamed_buffers(const nest::Nest& nest);

/// Loops of vectors whose computes stream pass through a short array in the first cache and
/// non-temporal stores, where the memory of their results, of these sizes in bytes, was used
/// before. No caches keep them until somebody reads them, and an ordinary store would read every
/// line from memory first. Halide 21 has no such stores of its own. Runs before cut_vector_loops.
nest::Nest stream_rows(const nest::Nest& nest, const std::map<std::string, int64_t>& sizes);

/// Every vector loop becomes full vectors followed by one guarded tail where the extent is not
/// known to be a multiple; extents below the width take the next power of two. The width follows
/// from the widest element that lanes access. A few vectors at a place that data says are unrolled.
/// Vector loops have constant extents afterwards; Halide's vectorize_loops comes after.
nest::Nest cut_vector_loops(const nest::Nest& nest, int vector_bits);

/// A vector of loads whose places lie in few vectors' reach of each other, in a pattern that is
/// known, becomes loads of neighbours and a permutation of what they loaded: X[2 * i] of 16 lanes
/// is two loads, X[i / 3] from a multiple of 3 on one of 6 elements. Nothing is loaded from beyond
/// the outermost places. Of predicates, those that leave the first lanes on are known. After
/// vectorize_loops, on a simplified statement.
ir::Stmt load_neighbours(const ir::Stmt& stmt);

/// How many iterations a pattern has that divisions and remainders of `loop` give the places of
/// loads, by small numbers: 3 for X[i / 3], 1 where there are none, or one is too large.
int find_period(const nest::Nest& body, const std::string& loop);

/// Puts vectors together of the scalars' bits. Halide's simplifier makes `ramp(a, b - a, 2)` of two
/// scalars a and b, whose second lane is not b where b - a is rounded, or overflows. To be called
/// after separate_lanes, which alone makes such vectors, and before simplification.
ir::Stmt join_lanes_as_bits(const ir::Stmt& stmt);

/// Halide's rewrite_interleavings, for vectors whose every other lane is computed by itself. It
/// makes a vector of what is chosen where a lazy choice is one number for all lanes, so that these
/// numbers are kept from it. So are shuffles of which it would take a single lane: where their
/// operand is a vector with a name, it takes half of that instead (Halide 21, Deinterleaver of a
/// Shuffle: the operand's lane is looked for with the stride of the shuffle's lanes). So are
/// descending ones, every other lane of which is a slice that the simplifier does not understand,
/// and horizontal reductions, whose scalar results it would deinterleave as if they were vectors
/// (Interleaver of a Store), and strided stores that it must not interleave: of more vectors than
/// there are registers, and of values that are stored between them (StoreCollector: only loads from
/// the buffer itself end what it collects).
ir::Stmt separate_lanes(const ir::Stmt& stmt);

/// Halide's find_intrinsics. It looks for them in vectors only, and walks through expressions once
/// for every way that leads to them, so that it is kept from scalars, and from what around_choices
/// returns with all names replaced: common values have names again before (the gradient of seven
/// functions of functions took minutes).
ir::Stmt find_vector_intrinsics(const ir::Stmt& stmt);

// ---- guards: what a condition leaves out, be it some lanes only, must not read memory

/// A lazy choice (Call::if_then_else) of vectors becomes a select whose loads are predicated by the
/// condition; the parts of the condition that are the same in every lane become a branch around it.
/// Without this, Halide computes such choices lane by lane. Runs after vectorize_loops.
ir::Stmt predicate_guarded_loads(const ir::Stmt& stmt);

using StmtPass = std::function<ir::Stmt(const ir::Stmt&)>;
using ExprPass = std::function<ir::Expr(const ir::Expr&)>;

/// Runs a pass that names expressions or moves them, and would take what is read in a lazy choice
/// out of it: where the condition reads it too, where both branches do, out of a loop. `part_pass`
/// is for the conditions and branches.
ir::Stmt around_choices(const ir::Stmt& stmt, const StmtPass& pass, const ExprPass& part_pass);

/// Gives lanes that are switched off a value. To LLVM they hold poison, which `&&` and `||` of
/// vectors pass on where a lane's other side alone decides: once it finds that a mask is never set,
/// the result is anything. Neighbours are loaded under their mask, and the others are 0. What is
/// not together in memory is loaded without, for which Halide would branch in every lane: from the
/// first element where it is off. `empty` names the buffers that have none. To be called after all
/// simplification, which knows no poison.
ir::Stmt define_switched_off_lanes(const ir::Stmt& stmt, const std::set<std::string>& empty);

/// Names the constants at which vectors begin below 0, of which a guard has switched off some
/// lanes, or run backwards. Halide derives from constant addresses which accesses are apart, and
/// its rule holds for neither. To be called last: simplification undoes it.
ir::Stmt hide_negative_offsets(const ir::Stmt& stmt);

}  // namespace tc::codegen
