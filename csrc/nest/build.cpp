#include "nest/build.h"

#include <limits>

#include "base/error.h"
#include "ir/expressions/simplify.h"
#include "ir/visit.h"
#include "poly/ast_expr.h"
#include "poly/marks.h"

namespace tc::nest {
namespace {

using Halide::Internal::as_const_int;
using Halide::Internal::Call;
using Halide::Internal::simplify;
using poly::Mapped;
using poly::Mark;
using poly::Promotion;
using poly::Scop;
using poly::ScopStatement;

/// The flat buffer behind a tensor.
struct TensorBuffer {
  Layout layout;
  Halide::Type index_type = Halide::Int(32);
  Halide::Parameter parameter;  ///< tells Halide that only elements are aligned
};

TensorBuffer make_buffer(const ir::Tensor& tensor, const Layout& layout) {
  TensorBuffer buffer;
  buffer.layout = layout;
  int64_t low = 0, high = 0;
  for (size_t d = 0; d < layout.sizes.size(); ++d) {
    int64_t reach = (layout.sizes[d] - 1) * layout.strides[d];
    (reach < 0 ? low : high) += reach;
  }
  // A margin of one vector keeps the address arithmetic of tails inside the type as well.
  constexpr int64_t kLimit = std::numeric_limits<int32_t>::max() - 4096;
  if (high > kLimit || low < -kLimit) buffer.index_type = Halide::Int(64);
  buffer.parameter = alignment_of(tensor.name, tensor.type);
  return buffer;
}

/// A promotion in force: the box of this iteration of the loops around it.
struct MadeCopy {
  const Promotion* promotion = nullptr;
  std::vector<Expr> offsets;
};

/// Makes one tile of neighbouring parts of it, since isl repeats a mark over every part of what it
/// marks.
Nest join_tiles(const std::vector<Nest>& parts) {
  std::vector<Nest> joined;
  for (const Nest& part : parts) {
    const auto* tile = as<Tile>(part);
    const auto* before = joined.empty() ? nullptr : as<Tile>(joined.back());
    if (tile && before && tile->dimensions == before->dimensions)
      joined.back() = make(Tile{tile->dimensions, make_sequence({before->body, tile->body})});
    else
      joined.push_back(part);
  }
  return make_sequence(joined);
}

/// Whether a compute combines its element by this operator with something; then it reduces.
template <class Operator>
bool is_update(Compute& compute, ir::Reduction reduction) {
  const auto* value = compute.value.as<Operator>();
  if (!value || !Halide::Internal::equal(value->a, from_memory(load_of(compute), compute.type)))
    return false;
  compute.reduction = reduction;
  compute.value = Expr(value->b);
  return true;
}

/// An assignment that combines an element with something is the update of a reduction: X(i) = X(i)
/// + v is X(i) += v.
void find_update(Compute& compute) {
  using namespace Halide::Internal;
  is_update<Add>(compute, ir::Reduction::Sum) || is_update<Mul>(compute, ir::Reduction::Product) ||
      is_update<Min>(compute, ir::Reduction::Min) || is_update<Max>(compute, ir::Reduction::Max) ||
      is_update<And>(compute, ir::Reduction::And) || is_update<Or>(compute, ir::Reduction::Or);
}

class Generator {
 public:
  Generator(const Scop& scop, const std::vector<Promotion>& promotions, const Layouts& layouts)
      : scop_(scop), promotions_(promotions) {
    for (const auto& [name, tensor] : scop.program->tensors)
      buffers_.emplace(name, make_buffer(tensor, layouts.at(name)));
  }

  Nest generate(const isl::schedule& schedule) {
    isl::ast_build build(scop_.context->get());
    const Nest nest = node(build.node_from(schedule));
    scop_.context->require_memory();
    return nest;
  }

 private:
  Nest node(const isl::ast_node& n) {
    if (n.isa<isl::ast_node_for>()) return loop(n.as<isl::ast_node_for>());
    if (n.isa<isl::ast_node_block>()) {
      isl::ast_node_list children = n.as<isl::ast_node_block>().children();
      std::vector<Nest> parts;
      // What a part of the block copies serves the parts behind it.
      size_t outer = copies_.size();
      for (unsigned i = 0; i < children.size(); ++i) parts.push_back(node(children.at(i)));
      Nest block = join_tiles(parts);
      for (; copies_.size() > outer; copies_.pop_back()) block = allocate(copies_.back(), block);
      return block;
    }
    if (n.isa<isl::ast_node_if>()) {
      auto branch = n.as<isl::ast_node_if>();
      Expr condition = poly::to_expr(branch.cond(), iterators_);
      Nest then = node(branch.then_node());
      Nest otherwise = branch.has_else_node() ? node(branch.else_node()) : Nest();
      return make(Guard{condition, then, otherwise});
    }
    if (n.isa<isl::ast_node_mark>()) return marked(n.as<isl::ast_node_mark>());
    return instance(n.as<isl::ast_node_user>());
  }

  Nest marked(const isl::ast_node_mark& n) {
    const Mark& mark = poly::mark_of(n.id());
    if (mark.role == poly::Role::RegisterTile) return register_tile(mark, n.node());
    if (mark.role == poly::Role::Copy) return make(Copy{node(n.node())});
    if (mark.role == poly::Role::Intrinsic)
      return make(Intrinsic{mark.instruction, node(n.node())});
    std::map<std::string, MarkedLoop> outer = marked_;
    for (unsigned m = 0; m < mark.members; ++m) {
      // The points of a register tile: the unrolled members, then the vector, which is dimension 0.
      const bool unrolled = mark.role == poly::Role::Unrolled;
      marked_["c" + std::to_string(mark.depth + m)] = {
          role_of(mark.role), unrolled ? mark.members - m : 0, mark.role == poly::Role::Terms};
    }
    Nest body = node(n.node());
    marked_ = outer;
    return body;
  }

  /// The mark lists the members outermost first; dimension 0 of a register tile is the innermost.
  Nest register_tile(const Mark& mark, const isl::ast_node& body) {
    Tile tile;
    for (size_t m = mark.members; m-- > 0;)
      tile.dimensions.push_back({mark.points[m].full, mark.points[m].rest});
    in_tile_ = true;
    tile.body = node(body);
    in_tile_ = false;
    return make(std::move(tile));
  }

  Nest loop(const isl::ast_node_for& f) {
    std::string isl_name = f.iterator().as<isl::ast_expr_id>().id().name();
    Expr first = poly::to_expr(f.init(), iterators_);
    auto step = as_const_int(poly::to_expr(f.inc(), iterators_));
    TC_INTERNAL_CHECK(step && *step > 0, "a loop step is not a positive constant");
    // The condition is `iterator <= last` or `iterator < end`.
    auto condition = f.cond().as<isl::ast_expr_op>();
    Expr last = poly::to_expr(condition.arg(1), iterators_);
    auto kind = isl_ast_expr_get_op_type(f.cond().get());
    TC_INTERNAL_CHECK(kind == isl_ast_op_le || kind == isl_ast_op_lt, "a loop condition of isl is ",
                      f.cond().to_C_str());
    if (kind == isl_ast_op_lt) last = last - 1;

    Loop made;
    made.name = concat(isl_name, "_", loops_++);
    made.extent = simplify(last - first + 1);
    made.min = first;
    const auto found = marked_.find(isl_name);
    if (found != marked_.end()) made.role = found->second.role;
    const bool term = found != marked_.end() && found->second.term;
    // A vector along a loop of one iteration is none, and rows below it are loops like others.
    if (made.role == Role::Unrolled && !in_tile_ && !in_vector_ && !as_const_int(made.extent))
      made.role = Role::Serial;
    if (in_tile_ && !term && (made.role == Role::Unrolled || made.role == Role::Vector))
      made.point = found->second.point;
    if (made.point) made.name = concat("point", *made.point, "_", made.name);
    Expr value = ir::make_variable(made.name);
    if (*step != 1) {
      made.extent =
          simplify((made.extent + (static_cast<int>(*step) - 1)) / static_cast<int>(*step));
      value = first + value * static_cast<int>(*step);
      made.min = Expr(0);
    } else if (made.point || term) {
      value = first + value;
      made.min = Expr(0);
    }
    if (as_const_int(made.min) && as_const_int(made.extent))
      ranges_.push(made.name, {made.min, simplify(made.min + made.extent - 1)});
    const std::map<std::string, Expr> outer_iterators = iterators_;
    iterators_[isl_name] = value;
    // Marks below speak of deeper loops only.
    const std::map<std::string, MarkedLoop> outer_marks = marked_;
    marked_.erase(isl_name);
    const bool outside = in_vector_;
    in_vector_ = outside || made.role == Role::Vector;
    made.body = node(f.body());
    in_vector_ = outside;
    marked_ = outer_marks;
    iterators_ = outer_iterators;
    return make(std::move(made));
  }

  static Role role_of(poly::Role role) {
    switch (role) {
      case poly::Role::Parallel: return Role::Parallel;
      case poly::Role::Vector: return Role::Vector;
      case poly::Role::Unrolled:
      case poly::Role::Terms: return Role::Unrolled;
      case poly::Role::Block: return Role::Block;
      case poly::Role::Thread: return Role::Thread;
      case poly::Role::RegisterTile:
      case poly::Role::Intrinsic:
      case poly::Role::Copy: break;
    }
    throw InternalError(__FILE__, __LINE__, "a loop without a role");
  }

  Nest instance(const isl::ast_node_user& user) {
    auto call = user.expr().as<isl::ast_expr_op>();
    std::string id = call.arg(0).as<isl::ast_expr_id>().id().name();
    for (const Promotion& promotion : promotions_)
      if (promotion.id == id) return copy_element(promotion, call);
    const ScopStatement& statement = scop_.statement(id);
    std::map<std::string, Expr> values;
    for (size_t d = 0; d < statement.dimensions; ++d)
      values[statement.source->domain[d].name] =
          simplify(poly::to_expr(call.arg(static_cast<int>(d) + 1), iterators_));
    return compute(statement, values);
  }

  /// The tuple of a copying statement: the offsets of the box, then the element.
  Nest copy_element(const Promotion& promotion, const isl::ast_expr_op& call) {
    MadeCopy copy{&promotion, {}};
    std::vector<Expr> element;
    for (unsigned k = 1; k < call.n_arg(); ++k)
      (k <= promotion.sizes.size() ? copy.offsets : element)
          .push_back(simplify(poly::to_expr(call.arg(static_cast<int>(k)), iterators_)));
    // Its loops may come in pieces.
    if (copies_.empty() || copies_.back().promotion != &promotion) copies_.push_back(copy);
    Compute made;
    made.buffer = promotion.buffer;
    made.index = offset_in_copy(copy, element);
    made.value = copied_value(promotion, element);
    made.type = made.value.type();
    return make(std::move(made));
  }

  Expr copied_value(const Promotion& promotion, const std::vector<Expr>& element) const {
    const std::string& tensor = promotion.tensor();
    if (!promotion.computed) {
      Halide::Type type = memory_type(scop_.program->tensor(tensor).type);
      return load_memory(tensor, type, offset(buffers_.at(tensor), element));
    }
    const ir::Statement& source = *promotion.computed->source;
    std::map<std::string, Expr> values;
    for (size_t d = 0; d < element.size(); ++d) values[source.domain[d].name] = element[d];
    return to_memory(lower_reads(Halide::Internal::substitute(values, source.value)));
  }

  Nest allocate(const MadeCopy& copy, const Nest& body) const {
    Type type = memory_type(scop_.program->tensor(copy.promotion->tensor()).type);
    return make(Buffer{copy.promotion->buffer, type, copy.promotion->elements, Memory::Heap, body});
  }

  Expr offset_in_copy(const MadeCopy& copy, const std::vector<Expr>& subscripts) const {
    using Part = poly::CopyDimension::Part;
    const Promotion& promotion = *copy.promotion;
    Expr index = 0;
    for (size_t d = 0; d < subscripts.size(); ++d) {
      const Expr place = subscripts[d] - copy.offsets[d];
      for (size_t k = 0; k < promotion.layout.size(); ++k) {
        const poly::CopyDimension& each = promotion.layout[k];
        if (each.dimension != d) continue;
        const int stride = static_cast<int>(promotion.strides[k]),
                  block = static_cast<int>(each.block);
        Expr part = place;
        if (each.part != Part::Whole) {
          // Terms of a register tile, and loops of a copy, go through a block from its beginning.
          part = ir::simplify_index(place % block, ranges_);
          if (each.part == Part::Block) part = ir::simplify_index((place - part) / block);
        }
        index = index + part * stride;
      }
    }
    return ir::simplify_index(index);
  }

  Nest compute(const ScopStatement& statement, const std::map<std::string, Expr>& values) {
    const ir::Statement& source = *statement.source;
    const TensorBuffer& buffer = buffers_.at(source.tensor);
    std::vector<Expr> subscripts;
    for (const Expr& s : source.subscripts)
      subscripts.push_back(lower_reads(Halide::Internal::substitute(values, s)));
    Compute made;
    made.buffer = source.tensor;
    made.type = scop_.program->tensor(source.tensor).type;
    made.index = offset(buffer, subscripts);
    made.parameter = buffer.parameter;
    if (statement.initialization) {
      made.value = ir::identity(source.reduction, made.type);
      return make(std::move(made));
    }
    auto lowered = [&](const Expr& e) {
      return lower_reads(Halide::Internal::substitute(values, use_copies(statement, e)));
    };
    if (std::optional<ir::ScanTerm> split = ir::find_scan(source.value)) {
      made.scan = split->scan;
      for (Expr* e :
           {&made.scan->position, &made.scan->neighbour, &made.scan->goes_on, &made.scan->scale})
        if (e->defined()) *e = lowered(*e);
      made.value = lowered(split->term);
    } else {
      made.value = lowered(source.value);
    }
    made.reduction = source.reduction;
    made.atomic = source.atomic;
    if (!made.scan && source.reduction == ir::Reduction::None) find_update(made);
    Nest result = make(std::move(made));
    if (!statement.guard.defined()) return result;
    return make(Guard{lowered(statement.guard), result, nullptr});
  }

  Expr load_memory(const std::string& name, Halide::Type type, const Expr& index) const {
    return ir::make_load(type, name, index, buffers_.at(name).parameter);
  }

  /// Whether the copy is made for this read.
  static bool serves(const Promotion& promotion, const ScopStatement& statement, const Call& read) {
    const ir::MemoryAccess access{promotion.tensor(), read.args};
    return std::any_of(promotion.reads.begin(), promotion.reads.end(),
                       [&](const poly::StatementRead& other) {
                         return other.statement == &statement && same_element(other.access, access);
                       });
  }

  /// Renames the promoted reads of a statement after their copies.
  Expr use_copies(const ScopStatement& statement, const Expr& e) const {
    return ir::mutate(e, [&](const Call* op, ir::Mutator& self) -> Expr {
      std::string name = ir::read_name(op);
      // The last one: nests of one statement have their own.
      for (auto copy = copies_.rbegin(); copy != copies_.rend(); ++copy) {
        const Promotion& promotion = *copy->promotion;
        if (promotion.tensor() != name || !serves(promotion, statement, *op)) continue;
        ir::Tensor copied;
        copied.name = promotion.buffer;
        copied.type = op->type;
        return ir::read(copied, op->args);
      }
      return self.inside(op);
    });
  }

  /// sum of subscript * stride.
  Expr offset(const TensorBuffer& buffer, const std::vector<Expr>& subscripts) const {
    Expr index = Halide::Internal::make_zero(buffer.index_type);
    for (size_t d = 0; d < subscripts.size(); ++d) {
      Expr stride = Halide::Internal::make_const(buffer.index_type, buffer.layout.strides[d]);
      index = index + Halide::cast(buffer.index_type, subscripts[d]) * stride;
    }
    return ir::simplify_index(index);
  }

  /// Replaces reads of tensors and scalars by loads.
  Expr lower_reads(const Expr& e) const {
    return ir::mutate(e, [&](const Call* op, ir::Mutator& self) -> Expr {
      std::string name = ir::read_name(op);
      if (name.empty()) return self.inside(op);
      std::vector<Expr> arguments;
      for (const Expr& argument : op->args) arguments.push_back(self.mutate(argument));
      const Type type = memory_type(op->type);
      if (buffers_.count(name))
        return from_memory(load_memory(name, type, offset(buffers_.at(name), arguments)), op->type);
      for (const MadeCopy& copy : copies_)
        if (copy.promotion->buffer == name)
          return from_memory(ir::make_load(type, name, offset_in_copy(copy, arguments)), op->type);
      return from_memory(ir::make_load(type, name, Expr(0)), op->type);
    });
  }

  const Scop& scop_;
  const std::vector<Promotion>& promotions_;
  std::vector<MadeCopy> copies_;  ///< in force
  std::map<std::string, TensorBuffer> buffers_;
  std::map<std::string, Expr> iterators_;  ///< isl's loop names -> values
  struct MarkedLoop {
    Role role = Role::Serial;
    size_t point = 0;   ///< the dimension, where a register tile is around
    bool term = false;  ///< of a reduction, in one
  };
  std::map<std::string, MarkedLoop> marked_;  ///< isl's loop names -> marks in force
  Halide::Internal::Scope<Halide::Internal::Interval>
      ranges_;  ///< of loops that have constant ones
  bool in_tile_ = false, in_vector_ = false;
  int loops_ = 0;
};

}  // namespace

Nest build(const Scop& scop, const Mapped& mapped, const Layouts& layouts) {
  return Generator(scop, mapped.promotions, layouts).generate(mapped.schedule);
}

}  // namespace tc::nest
