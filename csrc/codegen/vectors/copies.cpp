#include "codegen/vectors/copies.h"

#include <algorithm>
#include <cstdlib>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "codegen/names.h"
#include "ir/loops.h"
#include "machine/limits.h"

namespace tc::codegen {
namespace {

/// One loop of a copy.
struct CopyLoop {
  std::string name;
  Expr min, extent;
  int64_t from = 0, to = 0;  ///< steps of the two indices
};

/// The loops of a copy, outermost first, around one element.
struct CopyLoops {
  std::vector<CopyLoop> loops;
  const Compute* element = nullptr;
  const Load* load = nullptr;  ///< null where elements are computed
  Expr from, to;               ///< indices where all loops begin
};

/// Leads both indices on by so many iterations of a loop.
void advance(const CopyLoop& loop, const Expr& by, Expr& from, Expr& to) {
  from = from + Halide::cast(from.type(), by) * make_const(from.type(), loop.from);
  to = to + Halide::cast(to.type(), by) * make_const(to.type(), loop.to);
}

/// To the current iteration of all of them.
void advance(const std::vector<CopyLoop>& loops, Expr& from, Expr& to) {
  for (const CopyLoop& loop : loops) advance(loop, ir::make_variable(loop.name), from, to);
}

Expr ramp(const Expr& base, int64_t offset, int lanes) {
  return Ramp::make(base + make_const(base.type(), offset), make_one(base.type()), lanes);
}

/// Joins loops that both sides walk as one.
void merge(std::vector<CopyLoop>& loops) {
  for (size_t outer = 0; outer < loops.size(); ++outer) {
    for (size_t inner = 0; inner < loops.size(); ++inner) {
      auto extent = as_const_int(loops[inner].extent);
      if (outer == inner || !extent || loops[outer].from != loops[inner].from * *extent ||
          loops[outer].to != loops[inner].to * *extent)
        continue;
      loops[inner].extent =
          simplify(loops[outer].extent * make_const(loops[outer].extent.type(), *extent));
      loops.erase(loops.begin() + static_cast<int>(outer));
      merge(loops);
      return;
    }
  }
}

/// The element at these iterations, counted from 0, of the loops.
Expr compute(const CopyLoops& copy, std::map<std::string, Expr> places) {
  for (const CopyLoop& loop : copy.loops)
    places[loop.name] = simplify(places.at(loop.name) + loop.min);
  return substitute(places, copy.element->value);
}

Expr load(const CopyLoops& copy, const Expr& index) {
  return ir::make_load(copy.load->type.with_lanes(index.type().lanes()), copy.load->name, index,
                       copy.load->param);
}

Nest serial_loop(const std::string& name, const Expr& extent, const Nest& body) {
  return nest::make_loop(name, 0, extent, Role::Serial, body);
}

/// The loops in this order, the last of this role.
Nest around(const std::vector<CopyLoop>& loops, Role last, Nest body) {
  for (size_t l = loops.size(); l-- > 0;)
    body = nest::make_loop(loops[l].name, 0, loops[l].extent,
                           l + 1 == loops.size() ? last : Role::Serial, body);
  return body;
}

/// The same around the copy of one element.
Nest emit(const CopyLoops& copy, const std::vector<CopyLoop>& loops, Role last) {
  Expr from = copy.from, to = copy.to;
  advance(loops, from, to);
  std::map<std::string, Expr> places;
  for (const CopyLoop& loop : loops) places[loop.name] = ir::make_variable(loop.name);
  Compute element = *copy.element;
  element.value = copy.load ? load(copy, from) : compute(copy, places);
  element.index = to;
  return around(loops, last, nest::make(std::move(element)));
}

/// How many iterations of a loop a block has, a power of two, and whether it is known that there
/// are as many.
struct Side {
  int lanes;
  bool certain;
};
Side side_of(const CopyLoop& loop, int lanes) {
  // Of the last task along a loop fewer elements may be copied than of the others.
  const Expr most = find_constant_bound(loop.extent, Direction::Upper);
  const auto extent = as_const_int(most);
  if (!extent) return {lanes, false};
  while (lanes > *extent) lanes /= 2;
  return {lanes, is_const(loop.extent)};
}
Expr count_blocks(const CopyLoop& loop, int side) {
  return simplify((loop.extent + (side - 1)) / side);
}
/// Where a block of a loop begins: the last one ends with the loop.
Expr block_start(const CopyLoop& loop, const std::string& block, int side) {
  Expr start = ir::make_variable(block) * side;
  auto extent = as_const_int(loop.extent);
  return extent && *extent % side == 0 ? start : min(start, loop.extent - side);
}

/// Loops that are in none of these places.
std::vector<CopyLoop> others(const CopyLoops& copy, const std::vector<const CopyLoop*>& without) {
  std::vector<CopyLoop> rest;
  for (const CopyLoop& loop : copy.loops)
    if (std::none_of(without.begin(), without.end(),
                     [&](const CopyLoop* other) { return other && other->name == loop.name; }))
      rest.push_back(loop);
  return rest;
}

/// Blocks of a row, of a power of two elements, and what `copy_block` does for one at these places;
/// element by element where a task has fewer.
template <class CopyBlock>
Nest in_blocks(const CopyLoops& copy, const CopyLoop& row, const CopyLoop& column, int lanes,
               CopyBlock copy_block) {
  const auto [side, certain] = side_of(row, lanes);
  const std::vector<CopyLoop> outer = others(copy, {&row, &column});
  std::vector<CopyLoop> plain = outer;
  plain.insert(plain.end(), {row, column});
  if (side == 1) return emit(copy, plain, Role::Serial);
  const std::string block = row.name + ".b";
  Expr from = copy.from, to = copy.to;
  advance(row, block_start(row, block, side), from, to);
  advance(outer, from, to);
  const Nest body = serial_loop(block, count_blocks(row, side),
                                nest::make(nest::Lowered{copy_block(from, to, side)}));
  const Nest blocks = around(outer, Role::Serial, body);
  if (certain) return blocks;
  return nest::make(nest::Guard{row.extent >= side, blocks, emit(copy, plain, Role::Serial)});
}

Stmt store(const CopyLoops& copy, const Expr& index, const Expr& value) {
  return ir::make_store(copy.element->buffer, index, value, copy.element->parameter);
}

/// Rows, contiguous in `from`, whose elements take turns in `to`: a few columns are contiguous
/// there, and so is one after the other.
Nest interleave(const CopyLoops& copy, const CopyLoop& row, const CopyLoop& column, int lanes) {
  return in_blocks(copy, row, column, lanes, [&](const Expr& from, const Expr& to, int side) {
    std::vector<Expr> rows;
    for (int64_t c = 0; c < *as_const_int(column.extent); ++c)
      rows.push_back(load(copy, ramp(from, c * column.from, side)));
    const Expr value = Shuffle::make_interleave(rows);
    return store(copy, ramp(to, 0, value.type().lanes()), value);
  });
}

/// The reverse: columns of `from` follow each other, a few elements each, and rows are contiguous
/// in `to`.
Nest deinterleave(const CopyLoops& copy, const CopyLoop& row, const CopyLoop& column, int lanes) {
  return in_blocks(copy, row, column, lanes, [&](const Expr& from, const Expr& to, int side) {
    const auto columns = static_cast<int>(*as_const_int(column.extent));
    const Expr loaded = load(copy, ramp(from, 0, side * columns));
    const Expr value = Variable::make(loaded.type(), row.name + ".loaded");
    std::vector<Stmt> stores;
    for (int c = 0; c < columns; ++c)
      stores.push_back(
          store(copy, ramp(to, c * column.to, side), Shuffle::make_slice(value, c, columns, side)));
    return LetStmt::make(value.as<Variable>()->name, loaded, Block::make(stores));
  });
}

/// Square blocks of rows, contiguous in `from`, that are stored as columns, contiguous in `to`.
/// What lies in them may be runs of a few elements, which are moved as one: the loop over a run is
/// contiguous on both sides, and runs follow each other along a row and along a column.
class Transpose {
 public:
  Transpose(const CopyLoops& copy, const CopyLoop& row, const CopyLoop& column, const CopyLoop* run,
            const CpuMachine& machine)
      : copy_(copy),
        row_(row),
        column_(column),
        run_(run),
        elements_(run ? static_cast<int>(*as_const_int(run->extent)) : 1),
        machine_(machine),
        outer_(others(copy, {&row, &column, run})) {}

  Nest make(int lanes) {
    lanes /= elements_;
    const Side along_row = side_of(row_, lanes), along_column = side_of(column_, lanes);
    side_ = std::min(along_row.lanes, along_column.lanes);
    std::vector<CopyLoop> plain = outer_;
    plain.insert(plain.end(), {row_, column_});
    if (run_) plain.push_back(*run_);
    const Role last = run_ ? Role::Vector : Role::Serial;
    if (side_ == 1) return emit(copy_, plain, last);

    Expr from = copy_.from, to = copy_.to;
    advance(outer_, from, to);
    const std::string row_block = row_.name + ".b", column_block = column_.name + ".b";
    row_start_ = block_start(row_, row_block, side_);
    column_start_ = block_start(column_, column_block, side_);
    advance(row_, row_start_, from, to);
    advance(column_, column_start_, from, to);

    Nest body = copy_.load ? block(from, to) : computed_block(to);
    const Expr row_blocks = count_blocks(row_, side_);
    auto count = as_const_int(row_blocks);
    const bool short_copy = outer_.empty() && count && *count <= machine::kUnrolledBlocks;
    body =
        nest::make_loop(row_block, 0, row_blocks, short_copy ? Role::Unrolled : Role::Serial, body);
    body = serial_loop(column_block, count_blocks(column_, side_), body);
    body = around(outer_, Role::Serial, body);
    if (along_row.certain && along_column.certain) return body;
    return nest::make(nest::Guard{row_.extent >= side_ && column_.extent >= side_, body,
                                  emit(copy_, plain, last)});
  }

 private:
  Nest block(const Expr& from, const Expr& to) const {
    std::vector<Expr> rows;
    for (int r = 0; r < side_; ++r)
      rows.push_back(load(copy_, ramp(from, r * column_.from, side_ * elements_)));
    std::vector<Nest> prefetches;
    if (const CopyLoop* next = next_region())
      for (int r = 0; r < side_; ++r)
        prefetches.push_back(nest::make(
            nest::Prefetch{copy_.load->name, copy_.load->type,
                           from + make_const(from.type(), next->from + r * column_.from)}));
    return shuffle(rows, to, prefetches);
  }

  /// A block passes through an array.
  Nest computed_block(const Expr& to) const {
    const std::string block = row_.name + ".block", each = column_.name + ".r",
                      lane = row_.name + ".l";
    const Type type = copy_.element->type;
    std::map<std::string, Expr> places;
    for (const CopyLoop& loop : outer_) places[loop.name] = ir::make_variable(loop.name);
    places[row_.name] = row_start_ + ir::make_variable(lane);
    places[column_.name] = column_start_ + ir::make_variable(each);
    const Expr index = ir::make_variable(each) * side_ + ir::make_variable(lane);
    const Compute element{block, type, index, compute(copy_, places)};
    Nest computed = nest::make_loop(lane, 0, side_, Role::Vector, nest::make(element));
    std::vector<Expr> rows;
    for (int r = 0; r < side_; ++r)
      rows.push_back(ir::make_load(type.with_lanes(side_), block, ramp(0, r * side_, side_)));
    return nest::make(nest::Buffer{
        block, type, side_ * side_, nest::Memory::Stack,
        nest::make_sequence({serial_loop(each, side_, computed), shuffle(rows, to, {})})});
  }

  /// Stores the rows of a block as columns, with these nodes behind.
  Nest shuffle(std::vector<Expr> vectors, const Expr& to, const std::vector<Nest>& behind) const {
    std::vector<std::pair<std::string, Expr>> names;
    auto bind = [&](const Expr& value) {
      names.emplace_back(concat(row_.name, ".x", names.size()), value);
      return ir::make_variable(names.back().first, value.type());
    };
    for (Expr& vector : vectors) vector = bind(vector);
    // Exchanges one bit of the vectors' number with the same bit of the lanes' number at a time,
    // the lanes that are farthest apart first.
    for (int distance = side_ / 2; distance > 0; distance /= 2) {
      std::vector<Expr> next(vectors.size());
      for (int r = 0; r < side_; ++r) {
        if (r & distance) continue;
        std::vector<int> low, high;
        for (int lane = 0; lane < side_; ++lane) {
          const bool second = lane & distance;
          for (int e = 0; e < elements_; ++e) {
            low.push_back((second ? side_ + lane - distance : lane) * elements_ + e);
            high.push_back((second ? side_ + lane : lane + distance) * elements_ + e);
          }
        }
        next[r] = bind(Shuffle::make({vectors[r], vectors[r + distance]}, low));
        next[r + distance] = bind(Shuffle::make({vectors[r], vectors[r + distance]}, high));
      }
      vectors = next;
    }
    std::vector<Nest> parts;
    for (int c = 0; c < side_; ++c)
      parts.push_back(nest::make(nest::Lowered{
          ir::make_store(copy_.element->buffer, ramp(to, c * row_.to, side_ * elements_),
                         vectors[c], copy_.element->parameter)}));
    parts.insert(parts.end(), behind.begin(), behind.end());
    Nest result = nest::make_sequence(parts);
    for (size_t n = names.size(); n-- > 0;)
      result = nest::make(nest::Binding{names[n].first, names[n].second, result});
    return result;
  }

  /// The loop whose next iteration reads from another page: a processor expects accesses behind the
  /// last ones, up to the end of their page.
  const CopyLoop* next_region() const {
    auto row_extent = as_const_int(row_.extent), column_extent = as_const_int(column_.extent);
    if (outer_.empty() || !row_extent || !column_extent) return nullptr;
    const int64_t reach = std::max(*row_extent * row_.from, *column_extent * column_.from);
    const int64_t page = machine_.page_bytes / copy_.load->type.bytes();
    const int64_t step = outer_.back().from;
    return step > reach && step >= page ? &outer_.back() : nullptr;
  }

  const CopyLoops& copy_;
  const CopyLoop &row_, &column_;
  const CopyLoop* const run_;  ///< null: elements are moved one by one
  const int elements_;         ///< of a run
  const CpuMachine& machine_;
  const std::vector<CopyLoop> outer_;
  int side_ = 0;  ///< of a block
  Expr row_start_, column_start_;
};

struct VectorizeCopies {
  const int vector_bits;
  const CpuMachine& machine;

  Nest visit(const Nest& nest) const {
    if (const auto* copy = as<nest::Copy>(nest)) return visit_copy(copy->body);
    return nest::map_children(nest, [&](const Nest& child) { return visit(child); });
  }

  /// Its loops may come in pieces.
  Nest visit_copy(const Nest& nest) const {
    if (!as<Loop>(nest))
      return nest::map_children(nest, [&](const Nest& child) { return visit_copy(child); });
    auto copy = match(nest);
    return copy ? vectorize(std::move(*copy)) : nest;
  }

  /// Nothing when a loop depends on another one, or places are in no order.
  std::optional<CopyLoops> match(Nest nest) const {
    CopyLoops copy;
    for (; const auto* loop = as<Loop>(nest); nest = loop->body) {
      for (const CopyLoop& outer : copy.loops)
        if (expr_uses_var(loop->min, outer.name) || expr_uses_var(loop->extent, outer.name))
          return std::nullopt;
      copy.loops.push_back({loop->name, loop->min, loop->extent, 0, 0});
    }
    copy.element = as<Compute>(nest);
    if (!copy.element) return std::nullopt;
    copy.load = copy.element->value.as<Load>();
    copy.from = copy.load ? copy.load->index : Expr(0);
    copy.to = copy.element->index;
    for (CopyLoop& loop : copy.loops) {
      auto from = copy.load ? ir::step_along(copy.load->index, loop.name)
                            : computed_step(copy.element->value, loop.name);
      auto to = ir::step_along(copy.element->index, loop.name);
      if (!from || !to) return std::nullopt;
      loop.from = *from;
      loop.to = *to;
      copy.from = substitute(loop.name, loop.min, copy.from);
      copy.to = substitute(loop.name, loop.min, copy.to);
    }
    copy.from = simplify(copy.from);
    copy.to = simplify(copy.to);
    return copy;
  }

  /// By how much the places that a computed element is made of move when a loop goes on: 1 where
  /// all that moves is contiguous, 0 where nothing moves; the largest of other steps, and a long
  /// one of what is in no order.
  std::optional<int64_t> computed_step(const Expr& value, const std::string& loop) const {
    int64_t step = 0;
    nest::for_each_load(value, [&](const Load& load) {
      const int64_t own = ir::step_along(load.index, loop).value_or(machine.page_bytes);
      if (std::abs(own) > std::abs(step)) step = own;
    });
    return step;
  }

  /// Whether a loop is over so few elements that a machine word holds them, of a type of which a
  /// vector holds many.
  static bool is_short_run(const CopyLoop& loop, int bits) {
    constexpr int kWord = 64;
    const auto extent = as_const_int(loop.extent);
    return bits < 32 && extent && *extent > 1 && (*extent & (*extent - 1)) == 0 &&
           *extent * bits <= kWord;
  }

  Nest vectorize(CopyLoops copy) const {
    // Steps of what is computed are those of one of its reads.
    if (copy.load) merge(copy.loops);
    auto find = [&](auto condition) {
      return std::find_if(copy.loops.begin(), copy.loops.end(), condition);
    };
    auto end = copy.loops.end();
    auto both = find([](const CopyLoop& loop) { return loop.from == 1 && loop.to == 1; });
    auto from = find([](const CopyLoop& loop) { return loop.from == 1; });
    auto to = find([](const CopyLoop& loop) { return loop.to == 1; });
    const int bits = std::max(8, copy.element->type.bits()), lanes = vector_bits / bits;
    if (both == end && from != end && to != end) {
      if (copy.load && is_short_run(*to, bits) && from->to == *as_const_int(to->extent))
        return interleave(copy, *from, *to, lanes);
      const auto columns = as_const_int(from->extent);
      if (copy.load && columns && machine::is_interleaved(to->from, *columns))
        return deinterleave(copy, *to, *from, lanes);
      return Transpose(copy, *from, *to, nullptr, machine).make(lanes);
    }
    if (both != end && copy.load && is_short_run(*both, bits)) {
      const int64_t run = *as_const_int(both->extent);
      const auto row = find([&](const CopyLoop&loop) { return loop.from == run; }),
                 column = find([&](const CopyLoop&loop) { return loop.to == run; });
      if (row != end && column != end && row != column)
        return Transpose(copy, *row, *column, &*both, machine).make(lanes);
    }
    auto vector = both != end ? both : to != end ? to : from;
    if (vector != end) std::rotate(vector, vector + 1, end);
    return emit(copy, copy.loops, vector != end ? Role::Vector : Role::Serial);
  }
};

}  // namespace

Nest vectorize_copies(const Nest& nest, int vector_bits, const CpuMachine& machine) {
  return VectorizeCopies{vector_bits, machine}.visit(nest);
}

}  // namespace tc::codegen
