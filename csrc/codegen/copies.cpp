#include "codegen/copies.h"

#include <algorithm>
#include <cstdlib>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/memory.h"
#include "ir/loops.h"

namespace tc::codegen {
namespace {

using namespace Halide::Internal;
using ir::Expr;
using ir::ForType;
using ir::Stmt;

constexpr char kMarker[] = "tc.copy";
// Blocks of a short copy that are no loop. LLVM takes deeper loops for more frequent ones: with
// these inside others, the masks of their shuffles kept the registers that a reduction before them
// needs for its results.
constexpr int64_t kUnrolledBlocks = 4;

/// The steps of everything that a computed element reads when a loop goes on.
class FindSteps : public IRVisitor {
 public:
  explicit FindSteps(const std::string& loop) : loop_(loop) {}
  /// 1 where all that moves is contiguous, 0 where nothing moves; the largest of other steps, and a
  /// long one of what is in no order.
  int64_t step = 0;

 private:
  using IRVisitor::visit;
  void visit(const Load* op) override {
    const int64_t own = ir::step_along(op->index, loop_).value_or(kPageBytes);
    if (std::abs(own) > std::abs(step)) step = own;
    IRVisitor::visit(op);
  }
  const std::string& loop_;
};

/// Nothing when the statement has another form.
std::optional<Copy> match(Stmt stmt) {
  Copy nest;
  while (const For* loop = stmt.as<For>()) {
    for (const CopyLoop& outer : nest.loops)
      if (expr_uses_var(loop->min, outer.name) || expr_uses_var(loop->extent, outer.name))
        return std::nullopt;
    nest.loops.push_back({loop->name, loop->min, loop->extent, 0, 0});
    stmt = loop->body;
  }
  nest.store = stmt.as<Store>();
  if (!nest.store || nest.loops.empty()) return std::nullopt;
  nest.load = nest.store->value.as<Load>();
  nest.from = nest.load ? nest.load->index : Expr(0);
  nest.to = nest.store->index;
  for (CopyLoop& loop : nest.loops) {
    std::optional<int64_t> from;
    if (nest.load) {
      from = ir::step_along(nest.load->index, loop.name);
    } else {
      FindSteps find(loop.name);
      nest.store->value.accept(&find);
      from = find.step;
    }
    auto to = ir::step_along(nest.store->index, loop.name);
    if (!from || !to) return std::nullopt;
    loop.from = *from;
    loop.to = *to;
    nest.from = substitute(loop.name, loop.min, nest.from);
    nest.to = substitute(loop.name, loop.min, nest.to);
  }
  nest.from = simplify(nest.from);
  nest.to = simplify(nest.to);
  return nest;
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

class VectorizeCopies : public IRMutator {
 public:
  explicit VectorizeCopies(int vector_bits) : vector_bits_(vector_bits) {}

 private:
  using IRMutator::visit;
  Stmt visit(const ProducerConsumer* op) override {
    if (op->name != kMarker) return IRMutator::visit(op);
    inside_ = true;
    Stmt body = mutate(op->body);
    inside_ = false;
    return body;
  }
  Stmt visit(const For* op) override {
    if (!inside_) return IRMutator::visit(op);
    auto nest = match(op);
    return nest ? vectorize(std::move(*nest)) : Stmt(op);
  }

  Stmt vectorize(Copy nest) {
    auto unit = [](const CopyLoop& loop) { return loop.from == 1 && loop.to == 1; };
    // Steps of what is computed are those of one of its reads.
    if (nest.load) merge(nest.loops);
    auto find = [&](auto condition) {
      return std::find_if(nest.loops.begin(), nest.loops.end(), condition);
    };
    auto end = nest.loops.end();
    auto both = find(unit);
    auto from = find([](const CopyLoop& loop) { return loop.from == 1; });
    auto to = find([](const CopyLoop& loop) { return loop.to == 1; });
    if (both == end && from != end && to != end) return transpose(nest, *from, *to);
    auto vector = both != end ? both : to != end ? to : from;
    if (vector != end) std::rotate(vector, vector + 1, end);
    return emit(nest, nest.loops, vector != end ? ForType::Vectorized : ForType::Serial);
  }

  /// The loops in this order, the last of this type, around the copy of one element.
  static Stmt emit(const Copy& nest, const std::vector<CopyLoop>& loops, ForType last) {
    Expr from = nest.from, to = nest.to;
    std::map<std::string, Expr> places;
    for (const CopyLoop& loop : loops) {
      from = from + position(ir::make_variable(loop.name), loop.from, from.type());
      to = to + position(ir::make_variable(loop.name), loop.to, to.type());
      places[loop.name] = ir::make_variable(loop.name);
    }
    Expr value = nest.load ? Load::make(nest.load->type, nest.load->name, from, Halide::Buffer<>(),
                                        nest.load->param, const_true(), ModulusRemainder())
                           : compute(nest, places);
    Stmt stmt = Store::make(nest.store->name, value, to, nest.store->param, const_true(),
                            ModulusRemainder());
    for (size_t l = loops.size(); l-- > 0;)
      stmt = ir::make_for(loops[l].name, 0, loops[l].extent,
                          l + 1 == loops.size() ? last : ForType::Serial, stmt);
    return stmt;
  }

  /// The element at these iterations, counted from 0, of the loops.
  static Expr compute(const Copy& nest, std::map<std::string, Expr> places) {
    for (const CopyLoop& loop : nest.loops)
      places[loop.name] = simplify(places.at(loop.name) + loop.min);
    return substitute(places, nest.store->value);
  }

  static Expr position(const Expr& value, int64_t step, ir::Type type) {
    return Halide::cast(type, value) * make_const(type, step);
  }

  /// The most lanes of a block along a loop, and whether it is known to have as many iterations.
  struct Side {
    int lanes;
    bool certain;
  };
  Side side_of(const CopyLoop& loop, int lanes) const {
    auto extent = as_const_int(loop.extent);
    if (!extent) return {lanes, false};
    while (lanes > *extent) lanes /= 2;
    return {lanes, true};
  }

  /// Square blocks of rows, contiguous in `from`, that are stored as columns, contiguous in `to`.
  Stmt transpose(const Copy& nest, const CopyLoop& row, const CopyLoop& column) {
    const ir::Type element = nest.store->value.type();
    int lanes = vector_bits_ / std::max(8, element.bits());
    Side along_row = side_of(row, lanes), along_column = side_of(column, lanes);
    const int side = std::min(along_row.lanes, along_column.lanes);
    std::vector<CopyLoop> outer;
    for (const CopyLoop& loop : nest.loops)
      if (loop.name != row.name && loop.name != column.name) outer.push_back(loop);
    std::vector<CopyLoop> plain = outer;
    plain.push_back(row);
    plain.push_back(column);
    if (side == 1) return emit(nest, plain, ForType::Serial);

    Expr from = nest.from, to = nest.to;
    for (const CopyLoop& loop : outer) {
      from = from + position(ir::make_variable(loop.name), loop.from, from.type());
      to = to + position(ir::make_variable(loop.name), loop.to, to.type());
    }
    std::string row_block = row.name + ".b", column_block = column.name + ".b";
    Expr row_start = block_start(row, row_block, side);
    Expr column_start = block_start(column, column_block, side);
    from = from + position(row_start, row.from, from.type()) +
           position(column_start, column.from, from.type());
    to = to + position(row_start, row.to, to.type()) + position(column_start, column.to, to.type());

    const ir::Type type = element.with_lanes(side);
    std::vector<std::pair<std::string, Expr>> lets;
    auto bind = [&](const Expr& value) {
      std::string name = concat(row.name, ".x", lets.size());
      lets.emplace_back(name, value);
      return ir::make_variable(name, type);
    };
    const std::string block = row.name + ".block";  // of what is computed
    std::vector<Expr> vectors;
    for (int r = 0; r < side; ++r)
      vectors.push_back(
          bind(nest.load ? Load::make(type, nest.load->name, ramp(from, r * column.from, side),
                                      Halide::Buffer<>(), nest.load->param, const_true(side),
                                      ModulusRemainder())
                         : ir::make_load(type, block, ramp(0, r * side, side))));
    // Exchanges one bit of the vectors' number with the same bit of the lanes' number at a time,
    // the lanes that are farthest apart first.
    for (int distance = side / 2; distance > 0; distance /= 2) {
      std::vector<Expr> next(vectors.size());
      for (int r = 0; r < side; ++r) {
        if (r & distance) continue;
        std::vector<int> low, high;
        for (int lane = 0; lane < side; ++lane) {
          bool second = lane & distance;
          low.push_back(second ? side + lane - distance : lane);
          high.push_back(second ? side + lane : lane + distance);
        }
        next[r] = bind(Shuffle::make({vectors[r], vectors[r + distance]}, low));
        next[r + distance] = bind(Shuffle::make({vectors[r], vectors[r + distance]}, high));
      }
      vectors = next;
    }
    std::vector<Stmt> stores;
    for (int c = 0; c < side; ++c)
      stores.push_back(Store::make(nest.store->name, vectors[c], ramp(to, c * row.to, side),
                                   nest.store->param, const_true(side), ModulusRemainder()));
    if (const CopyLoop* next = nest.load ? next_region(nest, outer, row, column) : nullptr)
      for (int r = 0; r < side; ++r)
        stores.push_back(
            prefetch(nest, from + make_const(from.type(), next->from + r * column.from)));
    Stmt body = Block::make(stores);
    for (size_t l = lets.size(); l-- > 0;)
      body = LetStmt::make(lets[l].first, lets[l].second, body);
    if (!nest.load) {
      const std::string each = column.name + ".r", lane = row.name + ".l";
      std::map<std::string, Expr> places;
      for (const CopyLoop& loop : outer) places[loop.name] = ir::make_variable(loop.name);
      places[row.name] = row_start + ir::make_variable(lane);
      places[column.name] = column_start + ir::make_variable(each);
      Stmt computed = ir::make_store(
          block, ir::make_variable(each) * side + ir::make_variable(lane), compute(nest, places));
      computed = ir::make_for(lane, 0, side, ForType::Vectorized, computed);
      computed = ir::make_for(each, 0, side, ForType::Serial, computed);
      body = Allocate::make(block, element, Halide::MemoryType::Stack, {side * side}, const_true(),
                            Block::make(computed, body));
    }
    Expr row_blocks = count_blocks(row, side);
    auto count = as_const_int(row_blocks);
    bool short_copy = outer.empty() && count && *count <= kUnrolledBlocks;
    body = ir::make_for(row_block, 0, row_blocks, short_copy ? ForType::Unrolled : ForType::Serial,
                        body);
    body = ir::make_for(column_block, 0, count_blocks(column, side), ForType::Serial, body);
    for (size_t l = outer.size(); l-- > 0;)
      body = ir::make_for(outer[l].name, 0, outer[l].extent, ForType::Serial, body);
    if (along_row.certain && along_column.certain) return body;
    return IfThenElse::make(row.extent >= side && column.extent >= side, body,
                            emit(nest, plain, ForType::Serial));
  }

  /// The loop whose next iteration reads from another page: a processor expects accesses behind the
  /// last ones, up to the end of their page.
  static const CopyLoop* next_region(const Copy& nest, const std::vector<CopyLoop>& outer,
                                     const CopyLoop& row, const CopyLoop& column) {
    auto row_extent = as_const_int(row.extent), column_extent = as_const_int(column.extent);
    if (outer.empty() || !row_extent || !column_extent) return nullptr;
    int64_t reach = std::max(*row_extent * row.from, *column_extent * column.from);
    int64_t page = kPageBytes / nest.load->type.bytes(), step = outer.back().from;
    return step > reach && step >= page ? &outer.back() : nullptr;
  }

  /// No fault where the address is outside of the tensor.
  static Stmt prefetch(const Copy& nest, const Expr& index) {
    return ir::make_prefetch(nest.load->type, nest.load->name, index);
  }

  static Expr ramp(const Expr& base, int64_t offset, int lanes) {
    return Ramp::make(base + make_const(base.type(), offset), make_one(base.type()), lanes);
  }
  static Expr count_blocks(const CopyLoop& loop, int lanes) {
    return simplify((loop.extent + (lanes - 1)) / lanes);
  }
  static Expr block_start(const CopyLoop& loop, const std::string& block, int lanes) {
    Expr start = ir::make_variable(block) * lanes;
    auto extent = as_const_int(loop.extent);
    return extent && *extent % lanes == 0 ? start : min(start, loop.extent - lanes);
  }

  const int vector_bits_;
  bool inside_ = false;
};

}  // namespace

Stmt make_copy(const Stmt& nest) { return ProducerConsumer::make(kMarker, true, nest); }

std::optional<Copy> find_copy(const ProducerConsumer* marked) {
  std::optional<Copy> copy = marked->name == kMarker ? match(marked->body) : std::nullopt;
  return copy && copy->load ? copy : std::nullopt;
}

Stmt vectorize_copies(const Stmt& stmt, int vector_bits) {
  return VectorizeCopies(vector_bits).mutate(stmt);
}

}  // namespace tc::codegen
