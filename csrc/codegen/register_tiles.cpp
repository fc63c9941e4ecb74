#include "codegen/register_tiles.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <sstream>

#include "base/error.h"
#include "base/memory.h"
#include "codegen/accumulations.h"
#include "codegen/copies.h"
#include "codegen/hidden_zero.h"
#include "codegen/merge_reductions.h"
#include "codegen/point_vectors.h"
#include "codegen/unroll_reductions.h"
#include "ir/compare.h"
#include "ir/loops.h"

namespace tc::codegen {
namespace {

const Pass kMergeReductions("tile", "merge_reductions");
const Pass kUnrollReductions("tile", "unroll_reductions");
const Pass kKeepInRegisters("tile", "keep_in_registers");
const Pass kMarkAccumulations("tile", "mark_accumulations");
const Pass kCutPointVectors("tile", "cut_point_vectors");

using namespace Halide::Internal;
using ir::Expr;
using ir::ForType;
using ir::Stmt;

constexpr char kMarker[] = "tc.register_tile:";
bool is_tile(const ProducerConsumer* op) {
  return op->name.compare(0, sizeof kMarker - 1, kMarker) == 0;
}

/// Replaces the extents of point loops by constants.
class FixExtents : public IRMutator {
 public:
  explicit FixExtents(const std::vector<int64_t>& extents) : extents_(extents) {}

 private:
  using IRMutator::visit;
  Stmt visit(const For* op) override {
    auto dimension = point_dimension(op->name);
    if (!dimension) return IRMutator::visit(op);
    return ir::make_for(op->name, op->min, static_cast<int>(extents_[*dimension]), op->for_type,
                        mutate(op->body));
  }
  const std::vector<int64_t>& extents_;
};

/// The condition under which a dimension's tile is full: the first point loop's extent says it.
class FindExtents : public IRVisitor {
 public:
  std::map<size_t, Expr> extents;

 private:
  using IRVisitor::visit;
  void visit(const For* op) override {
    if (auto dimension = point_dimension(op->name)) extents.emplace(*dimension, op->extent);
    IRVisitor::visit(op);
  }
};

/// How a buffer is addressed inside a tile: base + sum of steps[d] * (position in dimension d).
struct Addressing {
  Expr base;
  std::map<size_t, int64_t> steps;
  bool accumulated = false;  ///< stored below a loop that is no point loop
  bool inside = false;       ///< accessed below such a loop
  bool initialised = false;  ///< the first access is a store that reads nothing of it
  bool guarded = false;      ///< loaded under a condition, so perhaps outside of the buffer
  bool seen = false, regular = true, loaded = false, stored = false;
  ir::Type type;
  Halide::Parameter parameter;
};

class FindAddressing : public IRVisitor {
 public:
  std::map<std::string, Addressing> buffers;

 private:
  using IRVisitor::visit;
  void visit(const For* op) override {
    auto dimension = point_dimension(op->name);
    if (dimension)
      points_[op->name] = *dimension;
    else
      ++inner_loops_;
    IRVisitor::visit(op);
    if (dimension)
      points_.erase(op->name);
    else
      --inner_loops_;
  }
  void visit(const IfThenElse* op) override {
    ++conditions_;
    IRVisitor::visit(op);
    --conditions_;
  }
  void visit(const Call* op) override {
    bool choice = op->is_intrinsic(Call::if_then_else);
    if (choice) ++choices_;
    IRVisitor::visit(op);
    if (choice) --choices_;
  }
  void visit(const Load* op) override {
    Addressing& a = access(op->name, op->index, op->type, op->param);
    a.loaded = true;
    if (choices_ > 0) a.guarded = true;
    IRVisitor::visit(op);
  }
  void visit(const Store* op) override {
    IRVisitor::visit(op);  // what it reads comes first
    Addressing& a = access(op->name, op->index, op->value.type(), op->param, true);
    a.stored = true;
    if (inner_loops_ > 0) a.accumulated = true;
  }

  Addressing& access(const std::string& name, const Expr& index, ir::Type type,
                     const Halide::Parameter& parameter, bool store = false) {
    Addressing& a = buffers[name];
    if (inner_loops_ > 0) a.inside = true;
    Expr base = index;
    std::map<size_t, int64_t> steps;
    bool regular = conditions_ == 0;
    for (const auto& [loop, dimension] : points_) {
      Expr next = substitute(loop, ir::make_variable(loop) + 1, index);
      Expr step = simplify(next - index);
      auto constant = as_const_int(step);
      if (!constant || *constant == 0)
        regular = false;
      else
        steps[dimension] = *constant;
      base = substitute(loop, Expr(0), base);
    }
    base = simplify(base);
    if (!a.seen) {
      a.base = base;
      a.steps = steps;
      a.initialised = store && inner_loops_ == 0;
      a.seen = true;
      a.regular = regular;
      a.type = type;
      a.parameter = parameter;
    } else if (!equal(a.base, base) || a.steps != steps || !regular) {
      a.regular = false;
    }
    return a;
  }

  std::map<std::string, size_t> points_;
  int inner_loops_ = 0, conditions_ = 0, choices_ = 0;
};

class FindBuffers : public IRVisitor {
 public:
  std::set<std::string> names;

 private:
  using IRVisitor::visit;
  void visit(const Load* op) override {
    names.insert(op->name);
    IRVisitor::visit(op);
  }
  void visit(const Store* op) override {
    names.insert(op->name);
    IRVisitor::visit(op);
  }
};

/// Redirects accesses of promoted buffers to their local arrays.
class Redirect : public IRMutator {
 public:
  Redirect(const std::map<std::string, std::string>& locals, const std::vector<int64_t>& strides)
      : locals_(locals), strides_(strides) {}

 private:
  using IRMutator::visit;
  Stmt visit(const For* op) override {
    auto dimension = point_dimension(op->name);
    if (dimension) points_[*dimension] = op->name;
    Stmt result = IRMutator::visit(op);
    if (dimension) points_.erase(*dimension);
    return result;
  }
  Expr visit(const Load* op) override {
    auto local = locals_.find(op->name);
    if (local == locals_.end()) return IRMutator::visit(op);
    return ir::make_load(op->type, local->second, local_index());
  }
  Stmt visit(const Store* op) override {
    auto local = locals_.find(op->name);
    if (local == locals_.end()) return IRMutator::visit(op);
    return ir::make_store(local->second, local_index(), mutate(op->value));
  }
  Expr local_index() const {
    Expr index = 0;
    for (const auto& [dimension, loop] : points_)
      index = index + ir::make_variable(loop) * static_cast<int>(strides_[dimension]);
    return index;
  }

  const std::map<std::string, std::string>& locals_;
  const std::vector<int64_t>& strides_;
  std::map<size_t, std::string> points_;
};

/// Buffers that are accessed in one register tile only.
class FindTileBuffers : public IRVisitor {
 public:
  std::set<std::string> find(const Stmt& stmt, const std::set<std::string>& among) {
    stmt.accept(this);
    std::set<std::string> found;
    for (const std::string& name : among) {
      auto where = tiles_.find(name);
      if (where != tiles_.end() && where->second.size() == 1 && !where->second.count(0))
        found.insert(name);
    }
    return found;
  }

 private:
  using IRVisitor::visit;
  void visit(const ProducerConsumer* op) override {
    const int around = tile_;
    if (is_tile(op)) tile_ = ++count_;
    IRVisitor::visit(op);
    tile_ = around;
  }
  void visit(const Load* op) override {
    tiles_[op->name].insert(tile_);
    IRVisitor::visit(op);
  }
  void visit(const Store* op) override {
    tiles_[op->name].insert(tile_);
    IRVisitor::visit(op);
  }
  std::map<std::string, std::set<int>> tiles_;
  int tile_ = 0, count_ = 0;  ///< 0: none
};

/// Buffers that are read for more than to add something to what is read.
class FindReadBuffers : public IRVisitor {
 public:
  std::set<std::string> found;

 private:
  using IRVisitor::visit;
  void visit(const Store* op) override {
    const auto* sum = op->value.as<Add>();
    if (sum && ir::loads_itself(sum->a, *op)) {
      sum->b.accept(this);
    } else {
      IRVisitor::visit(op);
    }
  }
  void visit(const Load* op) override {
    found.insert(op->name);
    IRVisitor::visit(op);
  }
};

class ExpandTiles : public IRMutator {
 public:
  ExpandTiles(int vector_bits, const std::set<std::string>& large, std::set<std::string> forgotten,
              std::set<std::string> read)
      : vector_bits_(vector_bits),
        large_(large),
        forgotten_(std::move(forgotten)),
        read_(std::move(read)) {}

 private:
  using IRMutator::visit;
  Stmt visit(const ProducerConsumer* op) override {
    if (!is_tile(op)) return IRMutator::visit(op);
    std::vector<TileDimension> dimensions;
    std::istringstream list(op->name.substr(sizeof kMarker - 1));
    for (TileDimension d; list >> d.full >> d.rest;) dimensions.push_back(d);
    FindExtents find;
    op->body.accept(&find);
    std::vector<int64_t> extents(dimensions.size(), 1);
    return choose(dimensions, find.extents, 0, extents, op->body);
  }

  /// if (dimension is full) ... else ..., for one dimension after the other.
  Stmt choose(const std::vector<TileDimension>& dimensions, const std::map<size_t, Expr>& actual,
              size_t at, std::vector<int64_t>& extents, const Stmt& body) {
    if (at == dimensions.size()) return tile(extents, actual.size(), body);
    const TileDimension& d = dimensions[at];
    extents[at] = d.full;
    Stmt full = choose(dimensions, actual, at + 1, extents, body);
    auto extent = actual.find(at);
    if (d.rest == 0 || extent == actual.end()) return full;
    extents[at] = d.rest;
    Stmt rest = choose(dimensions, actual, at + 1, extents, body);
    return IfThenElse::make(extent->second == static_cast<int>(d.full), full, rest);
  }

  /// `looped`: dimensions that have loops; the others have one point and none.
  Stmt tile(const std::vector<int64_t>& extents, size_t looped, const Stmt& given) {
    Stmt body = FixExtents(extents).mutate(given);
    body = ir::run_pass(kMergeReductions, body, [&] { return merge_reductions(body); });
    int bits = std::max(8, ir::widest_element(body));
    int lanes = std::max(1, vector_bits_ / bits);
    // Whole vectors and one that overlaps them beat masks, also at half the width.
    while (lanes > extents[0]) lanes /= 2;
    body = ir::run_pass(kUnrollReductions, body, [&] {
      return unroll_short_reductions(body, lanes, vector_bits_ >= 512 ? 32 : 16);
    });

    // Local arrays: whole vectors in dimension 0, then the other dimensions.
    std::vector<int64_t> strides(extents.size(), 1);
    int64_t elements = (extents[0] + lanes - 1) / lanes * lanes;
    for (size_t d = 1; d < extents.size(); ++d) {
      strides[d] = elements;
      elements *= extents[d];
    }
    FindAddressing addressing;
    body.accept(&addressing);
    std::map<std::string, std::string> locals;
    std::set<std::string> names, read;
    for (const auto& [name, a] : addressing.buffers) {
      if (!a.regular || a.steps.size() != looped || !a.steps.count(0)) continue;
      // Elements that are no neighbours are moved in loops of their own: unrolled, they are
      // hundreds of scalar accesses, among which LLVM compares all pairs.
      bool apart = a.steps.at(0) != 1 && !a.inside && (a.stored || !a.guarded);
      if (!a.accumulated && !apart) continue;
      locals[name] = concat(name, ".local", tiles_);
      names.insert(locals[name]);
      if (read_.count(name)) read.insert(locals[name]);
    }
    ++tiles_;
    body = ir::run_pass(kKeepInRegisters, body,
                        [&] { return Redirect(locals, strides).mutate(body); });
    body = ir::run_pass(kMarkAccumulations, body,
                        [&] { return mark_accumulations(body, names, read, elements); });
    std::vector<std::pair<std::string, ir::Type>> arrays;
    std::vector<Part> parts = list_parts(body);
    for (const auto& [name, local] : locals) {
      const Addressing& a = addressing.buffers.at(name);
      arrays.emplace_back(local, a.type);
      Moves moves = a.steps.at(0) == 1 ? move_vectors(a, name, local, strides, extents)
                                       : move_elements(a, name, local, strides, extents, arrays);
      // Registers are free for other results as soon as these are stored.
      auto uses = [&](const Part& part) { return part.buffers.count(local) > 0; };
      auto first = std::find_if(parts.begin(), parts.end(), uses);
      auto last = std::find_if(parts.rbegin(), parts.rend(), uses);
      if (!a.initialised) first->before.push_back(moves.in);
      if (a.initialised && forgotten_.count(name)) continue;
      if (a.initialised && large_.count(name) && stores_parts_of_lines(a, extents))
        first->before.push_back(ask(a, name, local, strides, extents));
      if (a.stored) last->after.push_back(moves.out);
    }
    body = join(parts);
    bool repeatable =
        std::none_of(addressing.buffers.begin(), addressing.buffers.end(), [&](const auto& entry) {
          return entry.second.loaded && entry.second.stored && !locals.count(entry.first);
        });
    body = ir::run_pass(kCutPointVectors, body,
                        [&] { return cut_point_vectors(body, lanes, names, repeatable); });
    for (const auto& [array, type] : arrays)
      body = Allocate::make(array, type, Halide::MemoryType::Stack, {unlike_others(type, elements)},
                            const_true(), body);
    return body;
  }

  /// Elements of an array of at least this many that is larger than all arrays before. Halide lets
  /// one that is no larger lie where another was, and LLVM then takes accumulators of 8 lanes for
  /// halves of those of 16, which it puts together and takes apart in every step.
  int unlike_others(ir::Type type, int64_t elements) {
    const int64_t vector = vector_bits_ / 8;
    const int64_t bytes = (elements * type.bytes() + vector - 1) / vector * vector;
    largest_ = std::max(bytes, largest_ + vector);
    return static_cast<int>(largest_ / type.bytes());
  }

  /// One of the statements that a tile runs one after the other, and what moves results for it.
  struct Part {
    Stmt stmt;
    std::set<std::string> buffers;
    std::vector<Stmt> before, after;
  };
  static std::vector<Part> list_parts(Stmt body) {
    std::vector<Part> parts;
    for (const Block* block; (block = body.as<Block>()); body = block->rest)
      parts.push_back({block->first, find_buffers(block->first), {}, {}});
    parts.push_back({body, find_buffers(body), {}, {}});
    return parts;
  }
  static Stmt join(const std::vector<Part>& parts) {
    std::vector<Stmt> stmts;
    for (const Part& part : parts) {
      stmts.insert(stmts.end(), part.before.begin(), part.before.end());
      stmts.push_back(part.stmt);
      stmts.insert(stmts.end(), part.after.begin(), part.after.end());
    }
    return Block::make(stmts);
  }
  static std::set<std::string> find_buffers(const Stmt& stmt) {
    FindBuffers find;
    stmt.accept(&find);
    return find.names;
  }

  /// Index expressions of a result's place in its local array and in memory, as loops around them
  /// see it.
  struct Place {
    Expr local, memory;
    std::string suffix;  ///< of the loops' names
  };
  static Place place(const Addressing& a, const std::string& local,
                     const std::vector<int64_t>& strides) {
    Place p{0, a.base, "." + local};
    for (const auto& [d, step] : a.steps) {
      Expr point = ir::make_variable(point_loop(d) + p.suffix);
      p.local = p.local + point * static_cast<int>(strides[d]);
      p.memory = p.memory + Halide::cast(a.base.type(), point) * make_const(a.base.type(), step);
    }
    return p;
  }

  /// Loops over all results of the tile, of one type over the vector and another over the rest.
  static Stmt nest(const Addressing& a, const Place& p, const std::vector<int64_t>& extents,
                   const char* what, ForType vector, ForType other, Stmt inner) {
    for (const auto& [d, step] : a.steps) {
      std::string loop = point_loop(d) + p.suffix;
      std::string fresh = loop + what;
      inner = substitute(loop, ir::make_variable(fresh), inner);
      inner = ir::make_for(fresh, 0, static_cast<int>(extents[d]), d == 0 ? vector : other, inner);
    }
    return inner;
  }

  /// What fills a local array and what stores it.
  struct Moves {
    Stmt in, out;
  };

  /// Results that lie side by side in memory go there as vectors.
  static Moves move_vectors(const Addressing& a, const std::string& name, const std::string& local,
                            const std::vector<int64_t>& strides,
                            const std::vector<int64_t>& extents) {
    Place p = place(a, local, strides);
    Stmt in = ir::make_store(local, p.local, load(a, name, p.memory));
    Stmt out = store(a, name, p.memory, ir::make_load(a.type, local, p.local));
    return {nest(a, p, extents, ".in", ForType::Vectorized, ForType::Unrolled, in),
            nest(a, p, extents, ".out", ForType::Vectorized, ForType::Unrolled, out)};
  }

  /// Others pass through an array in memory that keeps their order, from where they are copied one
  /// by one or in transposed blocks: LLVM would take accumulators apart whose elements are stored
  /// alone. The hidden zero keeps it from doing so through that array.
  static Moves move_elements(const Addressing& a, const std::string& name, const std::string& local,
                             const std::vector<int64_t>& strides,
                             const std::vector<int64_t>& extents,
                             std::vector<std::pair<std::string, ir::Type>>& arrays) {
    std::string bounce = local + ".memory";
    arrays.emplace_back(bounce, a.type);
    Place p = place(a, local, strides);
    auto vectors = [&](const Stmt& inner, const char* what) {
      return nest(a, p, extents, what, ForType::Vectorized, ForType::Unrolled, inner);
    };
    auto copy = [&](const Stmt& inner, const char* what) {
      return make_copy(nest(a, p, extents, what, ForType::Serial, ForType::Serial, inner));
    };
    Stmt gather = copy(ir::make_store(bounce, p.local, load(a, name, p.memory)), ".gather");
    Stmt in =
        vectors(ir::make_store(local, p.local, ir::make_load(a.type, bounce, p.local)), ".in");
    Stmt out =
        vectors(ir::make_store(bounce, p.local, ir::make_load(a.type, local, p.local)), ".out");
    Stmt scatter =
        copy(store(a, name, p.memory, ir::make_load(a.type, bounce, p.local + hidden_zero())),
             ".scatter");
    return {Block::make(gather, in), Block::make(out, scatter)};
  }

  /// Whether some line is stored to that the tile does not fill.
  static bool stores_parts_of_lines(const Addressing& a, const std::vector<int64_t>& extents) {
    const int64_t line = kLineBytes / a.type.bytes();
    return a.steps.at(0) != 1 || extents[0] % line != 0 ||
           std::any_of(a.steps.begin(), a.steps.end(), [&](const auto& step) {
             return step.first != 0 && step.second % line != 0;
           });
  }

  /// Asks for the lines that results will be stored to, some elements to each: the store buffer
  /// would be full of stores that wait for the rest of their lines (measured: 14 x 32 blocks of 16
  /// x 256 x 28 x 28 results, 14 side by side, 1.13 times faster; blocks of 8 rows of 26 in 32 x 32
  /// x 8 x 26 x 26 results 1.06 times; 64 columns of results whose rows begin with a line 0.95 to
  /// 1.02). Nothing where no dimension is contiguous.
  static Stmt ask(const Addressing& a, const std::string& name, const std::string& local,
                  const std::vector<int64_t>& strides, const std::vector<int64_t>& extents) {
    Place p = place(a, local, strides);
    auto run = std::find_if(a.steps.begin(), a.steps.end(),
                            [](const auto& step) { return step.second == 1; });
    if (run == a.steps.end()) return Evaluate::make(0);
    int64_t line = kLineBytes / a.type.bytes(), last = extents[run->first] - 1;
    std::vector<Stmt> lines;
    for (int64_t at = 0; at < last + line; at += line) {
      Expr index = substitute(point_loop(run->first) + p.suffix,
                              Expr(static_cast<int>(std::min(at, last))), p.memory);
      lines.push_back(ir::make_prefetch(a.type, name, index, 2));
    }
    Stmt inner = Block::make(lines);
    for (const auto& [d, step] : a.steps) {
      if (d == run->first) continue;
      std::string loop = point_loop(d) + p.suffix, fresh = loop + ".ask";
      inner = ir::make_for(fresh, 0, static_cast<int>(extents[d]), ForType::Serial,
                           substitute(loop, ir::make_variable(fresh), inner));
    }
    return inner;
  }

  static Expr load(const Addressing& a, const std::string& name, const Expr& index) {
    return Load::make(a.type, name, index, Halide::Buffer<>(), a.parameter, const_true(),
                      ModulusRemainder());
  }
  static Stmt store(const Addressing& a, const std::string& name, const Expr& index,
                    const Expr& value) {
    return Store::make(name, value, index, a.parameter, const_true(), ModulusRemainder());
  }

  const int vector_bits_;
  const std::set<std::string>& large_;
  const std::set<std::string> forgotten_;  ///< behind their tile
  const std::set<std::string> read_;       ///< somewhere, other than to be added to
  int tiles_ = 0;
  int64_t largest_ = 0;  ///< of the arrays so far, in bytes
};

}  // namespace

Stmt make_register_tile(const std::vector<TileDimension>& dimensions, const Stmt& body) {
  std::string name = kMarker;
  for (const TileDimension& d : dimensions) name += concat(" ", d.full, " ", d.rest);
  return ProducerConsumer::make(name, true, body);
}

std::optional<std::vector<TileDimension>> register_tile_of(const ProducerConsumer* op) {
  if (!is_tile(op)) return std::nullopt;
  std::vector<TileDimension> dimensions;
  std::istringstream list(op->name.substr(sizeof kMarker - 1));
  for (TileDimension d; list >> d.full >> d.rest;) dimensions.push_back(d);
  return dimensions;
}

Stmt expand_register_tiles(const Stmt& stmt, int vector_bits, const std::set<std::string>& large,
                           const std::set<std::string>& temporaries) {
  FindReadBuffers read;
  stmt.accept(&read);
  return ExpandTiles(vector_bits, large, FindTileBuffers().find(stmt, temporaries),
                     std::move(read.found))
      .mutate(stmt);
}

}  // namespace tc::codegen
