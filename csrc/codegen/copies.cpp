#include "codegen/copies.h"

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"

namespace tc::codegen {
namespace {

using namespace Halide::Internal;
using ir::Expr;
using ir::ForType;
using ir::Stmt;

constexpr char kMarker[] = "tc.copy";

/// One loop of a copy, from 0.
struct CopyLoop {
  std::string name;
  Expr extent;
  int64_t from = 0, to = 0;  ///< steps of the two indices
};

struct CopyNest {
  std::vector<CopyLoop> loops;  ///< outermost first
  const Store* store = nullptr;
  const Load* load = nullptr;
  Expr from, to;  ///< indices where all loops are at 0
};

/// Nothing when the statement has another form.
std::optional<CopyNest> match(Stmt stmt) {
  CopyNest nest;
  std::vector<Expr> mins;
  while (const For* loop = stmt.as<For>()) {
    for (const CopyLoop& outer : nest.loops)
      if (expr_uses_var(loop->min, outer.name) || expr_uses_var(loop->extent, outer.name))
        return std::nullopt;
    nest.loops.push_back({loop->name, loop->extent, 0, 0});
    mins.push_back(loop->min);
    stmt = loop->body;
  }
  nest.store = stmt.as<Store>();
  nest.load = nest.store ? nest.store->value.as<Load>() : nullptr;
  if (!nest.load || nest.loops.empty()) return std::nullopt;
  nest.from = nest.load->index;
  nest.to = nest.store->index;
  for (size_t l = 0; l < nest.loops.size(); ++l) {
    CopyLoop& loop = nest.loops[l];
    Expr i = ir::make_variable(loop.name);
    auto step = [&](const Expr& index) {
      return as_const_int(simplify(substitute(loop.name, i + 1, index) - index));
    };
    auto from = step(nest.load->index), to = step(nest.store->index);
    if (!from || !to) return std::nullopt;
    loop.from = *from;
    loop.to = *to;
    nest.from = substitute(loop.name, mins[l], nest.from);
    nest.to = substitute(loop.name, mins[l], nest.to);
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

  Stmt vectorize(CopyNest nest) {
    auto unit = [](const CopyLoop& loop) { return loop.from == 1 && loop.to == 1; };
    merge(nest.loops);
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
  static Stmt emit(const CopyNest& nest, const std::vector<CopyLoop>& loops, ForType last) {
    Expr from = nest.from, to = nest.to;
    for (const CopyLoop& loop : loops) {
      from = from + position(ir::make_variable(loop.name), loop.from, from.type());
      to = to + position(ir::make_variable(loop.name), loop.to, to.type());
    }
    Stmt stmt = Store::make(nest.store->name,
                            Load::make(nest.load->type, nest.load->name, from, Halide::Buffer<>(),
                                       nest.load->param, const_true(), ModulusRemainder()),
                            to, nest.store->param, const_true(), ModulusRemainder());
    for (size_t l = loops.size(); l-- > 0;)
      stmt = ir::make_for(loops[l].name, 0, loops[l].extent,
                          l + 1 == loops.size() ? last : ForType::Serial, stmt);
    return stmt;
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

  /// Blocks of rows, contiguous in `from`, that are stored as columns, contiguous in `to`.
  Stmt transpose(const CopyNest& nest, const CopyLoop& row, const CopyLoop& column) {
    int lanes = vector_bits_ / std::max(8, nest.load->type.bits());
    Side along_row = side_of(row, lanes), along_column = side_of(column, lanes);
    const int width = along_row.lanes, height = along_column.lanes;
    std::vector<CopyLoop> outer;
    for (const CopyLoop& loop : nest.loops)
      if (loop.name != row.name && loop.name != column.name) outer.push_back(loop);
    std::vector<CopyLoop> plain = outer;
    plain.push_back(row);
    plain.push_back(column);
    if (width * height == 1) return emit(nest, plain, ForType::Serial);

    Expr from = nest.from, to = nest.to;
    for (const CopyLoop& loop : outer) {
      from = from + position(ir::make_variable(loop.name), loop.from, from.type());
      to = to + position(ir::make_variable(loop.name), loop.to, to.type());
    }
    std::string row_block = row.name + ".b", column_block = column.name + ".b";
    Expr row_start = block_start(row, row_block, width);
    Expr column_start = block_start(column, column_block, height);
    from = from + position(row_start, row.from, from.type()) +
           position(column_start, column.from, from.type());
    to = to + position(row_start, row.to, to.type()) + position(column_start, column.to, to.type());

    std::vector<Expr> rows;
    std::vector<std::pair<std::string, Expr>> lets;
    for (int r = 0; r < height; ++r) {
      Expr index =
          Ramp::make(from + make_const(from.type(), r * column.from), make_one(from.type()), width);
      if (width == 1) index = from + make_const(from.type(), r * column.from);
      std::string name = concat(row.name, ".r", r);
      lets.emplace_back(name, Load::make(nest.load->type.with_lanes(width), nest.load->name, index,
                                         Halide::Buffer<>(), nest.load->param, const_true(width),
                                         ModulusRemainder()));
      rows.push_back(ir::make_variable(name, nest.load->type.with_lanes(width)));
    }
    std::string all = row.name + ".t";
    Expr transposed = ir::make_variable(all, nest.load->type.with_lanes(width * height));
    lets.emplace_back(all, height == 1 ? rows[0] : Shuffle::make_interleave(rows));
    std::vector<Stmt> stores;
    for (int c = 0; c < width; ++c) {
      Expr start = to + make_const(to.type(), c * row.to);
      Expr index = height == 1 ? start : Ramp::make(start, make_one(to.type()), height);
      Expr value = height == 1 ? Shuffle::make_extract_element(transposed, c)
                               : Shuffle::make_slice(transposed, c * height, 1, height);
      stores.push_back(Store::make(nest.store->name, value, index, nest.store->param,
                                   const_true(height), ModulusRemainder()));
    }
    Stmt body = Block::make(stores);
    for (size_t l = lets.size(); l-- > 0;)
      body = LetStmt::make(lets[l].first, lets[l].second, body);
    body = ir::make_for(row_block, 0, count_blocks(row, width), ForType::Serial, body);
    body = ir::make_for(column_block, 0, count_blocks(column, height), ForType::Serial, body);
    for (size_t l = outer.size(); l-- > 0;)
      body = ir::make_for(outer[l].name, 0, outer[l].extent, ForType::Serial, body);
    if (along_row.certain && along_column.certain) return body;
    return IfThenElse::make(row.extent >= width && column.extent >= height, body,
                            emit(nest, plain, ForType::Serial));
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

Stmt vectorize_copies(const Stmt& stmt, int vector_bits) {
  return VectorizeCopies(vector_bits).mutate(stmt);
}

}  // namespace tc::codegen
