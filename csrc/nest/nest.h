// The loop nest: what a Plan became, as data that says what each part of it is. Halide expressions
// are its bounds and values; a Halide Stmt is made of it by codegen/lower_nest and by nothing else.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <variant>
#include <vector>

#include "ir/layout.h"
#include "ir/scan.h"

namespace tc::nest {

using ir::Expr;
using ir::Type;

class Node;
/// Nodes never change, so that parts may be shared.
using Nest = std::shared_ptr<const Node>;

/// What the iterations of a loop become.
enum class Role {
  Serial,
  Parallel,  ///< tasks of threads
  Vector,    ///< lanes; of any extent until vectors are cut
  Unrolled,
  Block,  ///< of a CUDA grid
  Thread  ///< of a CUDA block
};

/// for (name = min; name < min + extent; ++name) body. Bounds are expressions over the loops around
/// it: constants, symbols or loads.
struct Loop {
  std::string name;
  Expr min, extent;
  Role role = Role::Serial;
  /// Of a loop over the points of a register tile: which dimension; 0 is the vector.
  std::optional<size_t> point;
  Nest body;
};

/// Parts that run one after the other.
struct Sequence {
  std::vector<Nest> parts;
};

/// `then` where the condition holds, `otherwise` (which may be null) elsewhere.
struct Guard {
  Expr condition;
  Nest then, otherwise;
  bool likely = false;  ///< it nearly always holds: the code for that goes straight on
};

/// A name for a value.
struct Binding {
  std::string name;
  Expr value;
  Nest body;
};

/// Where a buffer of the nest's own lies.
enum class Memory {
  Registers,  ///< the results of an expanded register tile, once all that is around is unrolled
  Stack,
  Heap,   ///< got from the host before a task begins
  Shared  ///< of the threads of a CUDA block
};

/// A buffer that exists for its body.
struct Buffer {
  std::string name;
  Type type;
  int64_t elements = 0;
  Memory memory = Memory::Stack;
  Nest body;
};

/// One dimension of a register tile: `full` points in every tile but the last, which has `rest`, 0
/// where the tiles divide the extent, any number from 1 on where the extent is a symbol.
struct TileDimension {
  static constexpr int64_t kAnyRest = -1;
  int64_t full = 1, rest = 0;
  bool operator==(const TileDimension& other) const {
    return full == other.full && rest == other.rest;
  }
};

/// A register tile: results that reductions inside keep in registers. Loops below it that are
/// `point`s are over its dimensions, begin at 0, and are Unrolled or Vector.
struct Tile {
  std::vector<TileDimension> dimensions;
  Nest body;
};

/// Loops around one compute that an instruction does at once: over its lanes, a vector, and over
/// the terms that it adds up in each of them, which are Unrolled. In a register tile, over the
/// vector of all of the tile until that is cut.
struct Intrinsic {
  std::string instruction;  ///< see isa/instructions
  Nest body;
};

/// A copy (memory promotion): loops, in any order, around one Compute of a buffer of the nest's
/// own, whose value is an element of a tensor, or computed, of buffers that are not written
/// meanwhile.
struct Copy {
  Nest body;
};

/// buffer[index] = value, or buffer[index] = buffer[index] op value where it reduces, or goes on
/// from the element an iteration before it.
struct Compute {
  std::string buffer;
  Type type;  ///< of the element; a bool takes a byte of memory
  Expr index;
  Expr value;
  ir::Reduction reduction = ir::Reduction::None;
  /// Whether the threads of a CUDA block around it that its index does not use combine their values
  /// into the one element (see codegen/cuda/thread_reductions).
  bool over_threads = false;
  /// Whether other iterations that run at the same time may update the same element.
  bool atomic = false;
  /// A sum of products, value = a * b, whose multiply-adds may be contracted and reordered (see
  /// codegen/tiles/accumulations).
  bool contracts = false;
  /// Of what does not reduce; its neighbour is a load of the buffer.
  std::optional<ir::Scan> scan = {};
  /// Whether the element goes past the caches where the memory of its buffer was used before.
  bool streams = false;
  Halide::Parameter parameter = {};  ///< tells Halide that only elements are aligned
};

/// A prefetch of the line of buffer[index] to this cache (1 to 3) and the larger ones. The address
/// may lie outside of the buffer.
struct Prefetch {
  std::string buffer;
  Type type;
  Expr index;
  int cache = 1;
};

/// All threads of a CUDA block wait for each other.
struct Barrier {};

/// A part that is Halide's already.
struct Lowered {
  ir::Stmt stmt;
};

class Node {
 public:
  using Value = std::variant<Loop, Sequence, Guard, Binding, Buffer, Tile, Intrinsic, Copy, Compute,
                             Prefetch, Barrier, Lowered>;
  explicit Node(Value value) : value(std::move(value)) {}
  const Value value;
};

/// Null where the node is something else.
template <class T>
const T* as(const Nest& nest) {
  return nest ? std::get_if<T>(&nest->value) : nullptr;
}
template <class T>
Nest make(T value) {
  return std::make_shared<const Node>(Node::Value(std::move(value)));
}
/// One part stays itself; sequences in it are dissolved.
Nest make_sequence(const std::vector<Nest>& parts);
/// The parts of a sequence, or the one part.
std::vector<Nest> parts_of(const Nest& nest);
/// The parts where all of them are computes.
std::optional<std::vector<Compute>> computes_of(const Nest& nest);
Nest make_loop(const std::string& name, const Expr& min, const Expr& extent, Role role, Nest body);
/// The loop with another body.
Nest with_body(const Loop& loop, Nest body);
/// A vector as a serial loop. What was unrolled in it is serial, too, where its extent is not
/// constant: in vectors, the lanes decide it.
Nest make_serial(const Loop& vector);
/// The loop with these in front of its body; the loop itself where there are none.
Nest prepend(const Nest& loop, std::vector<Nest> parts);

// ---- walks. A pass is a function that looks at the nodes it knows and hands the rest to these.

/// The node with its children replaced by what `change` makes of them; the same node where none
/// changes.
Nest map_children(const Nest& nest, const std::function<Nest(const Nest&)>& change);
void for_each_child(const Nest& nest, const std::function<void(const Nest&)>& visit);
/// The node with its own expressions replaced; those below stay.
Nest map_own_expressions(const Nest& nest, const std::function<Expr(const Expr&)>& change);
/// The node, and all below it, with every expression replaced: bounds, conditions, indices, values.
Nest map_expressions(const Nest& nest, const std::function<Expr(const Expr&)>& change);
/// Every expression of the node and all below it.
void for_each_expression(const Nest& nest, const std::function<void(const Expr&)>& visit);
void for_each_own_expression(const Nest& nest, const std::function<void(const Expr&)>& visit);
/// The node with every compute in it replaced.
Nest map_computes(const Nest& nest, const std::function<Nest(const Compute&)>& change);
/// Every node, those around others first.
void for_each_node(const Nest& nest, const std::function<void(const Nest&)>& visit);
/// Whether `holds` for some node of a kind.
template <class T, class Holds>
bool any(const Nest& nest, const Holds& holds) {
  bool found = false;
  for_each_node(nest, [&](const Nest& node) {
    const T* value = as<T>(node);
    found = found || (value && holds(*value));
  });
  return found;
}

Nest substitute(const std::string& name, const Expr& value, const Nest& nest);

// ---- what a nest accesses

/// Every load in an expression, those in indices of others included.
void for_each_load(const Expr& e, const std::function<void(const Halide::Internal::Load&)>& visit);
/// Those inside of lazy choices, which may not run.
void for_each_lazy_load(const Expr& e,
                        const std::function<void(const Halide::Internal::Load&)>& visit);
/// The expression with every load replaced by what `change` makes of it, those in indices first.
Expr map_loads(const Expr& e, const std::function<Expr(const Halide::Internal::Load&)>& change);
/// Every load in the nest, but for those that reductions make of their results.
void for_each_load(const Nest& nest,
                   const std::function<void(const Halide::Internal::Load&)>& visit);
/// Those as well.
void for_each_read(const Nest& nest,
                   const std::function<void(const Halide::Internal::Load&)>& visit);
void for_each_compute(const Nest& nest, const std::function<void(const Compute&)>& visit);
/// Buffers that are read, by reductions of their own results too.
std::set<std::string> loaded_buffers(const Nest& nest);
std::set<std::string> stored_buffers(const Nest& nest);
/// Both.
std::set<std::string> used_buffers(const Nest& nest);
/// In bits, of what is loaded and stored; 0 where nothing is.
int widest_element(const Nest& nest);

/// Tells Halide that a tensor begins anywhere: only elements are aligned, not vectors of them. For
/// every load and compute of a buffer that is not the nest's own.
Halide::Parameter alignment_of(const std::string& tensor, Type type);
/// A value as memory has it, and back: a bool takes a byte.
Expr to_memory(const Expr& value);
Expr from_memory(const Expr& loaded, Type type);
/// The element that a compute writes, as it is in memory.
Expr load_of(const Compute& compute);
/// The value of a compute before it reduces, with its scan spelled out.
Expr computed_value(const Compute& compute);
/// What a compute stores, with its reduction or scan spelled out: a value of the type that memory
/// has.
Expr stored_value(const Compute& compute);

// ---- for passes

/// Whether two nests are alike, names included.
bool same(const Nest& a, const Nest& b);
/// A line for every node.
std::string to_string(const Nest& nest);

/// Throws an InternalError unless every variable is one of `names` or bound by a loop or binding
/// around it, none hides another of its name, every buffer is one of `buffers` or exists around its
/// use, point loops lie below a tile that has their dimension, intrinsics compute what their
/// instruction does, values have the type of their elements, and no read of the language is left.
/// Lowered parts are left alone.
void verify(const Nest& nest, const std::set<std::string>& buffers,
            const std::set<std::string>& names = {});

}  // namespace tc::nest
