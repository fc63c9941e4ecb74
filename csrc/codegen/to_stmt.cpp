#include "codegen/to_stmt.h"

#include <functional>
#include <limits>

#include "base/error.h"
#include "codegen/copies.h"
#include "codegen/cuda_printer.h"
#include "codegen/point_vectors.h"
#include "codegen/register_tiles.h"
#include "ir/loops.h"
#include "poly/ast_expr.h"
#include "poly/marks.h"

namespace tc::codegen {
namespace {

using Halide::Internal::as_const_int;
using Halide::Internal::Call;
using ir::Expr;
using ir::ForType;
using ir::Stmt;
using poly::Mapped;
using poly::Mark;
using poly::Promotion;
using poly::Role;
using poly::Scop;
using poly::ScopStatement;

/// The flat buffer behind a tensor.
struct Buffer {
  Layout layout;
  Halide::Type index_type = Halide::Int(32);
  Halide::Parameter parameter;  ///< tells Halide that only elements are aligned
};

Expr to_memory(const Expr& value) {
  return value.type().is_bool()
             ? Halide::select(value, Halide::cast<uint8_t>(1), Halide::cast<uint8_t>(0))
             : value;
}

Expr from_memory(const Expr& loaded, Halide::Type type) {
  return type.is_bool() ? loaded != Halide::cast<uint8_t>(0) : loaded;
}

Buffer make_buffer(const ir::Tensor& tensor, const Layout& layout) {
  Buffer buffer;
  buffer.layout = layout;
  int64_t low = 0, high = 0;
  for (size_t d = 0; d < layout.sizes.size(); ++d) {
    int64_t reach = (layout.sizes[d] - 1) * layout.strides[d];
    (reach < 0 ? low : high) += reach;
  }
  // A margin of one vector keeps the address arithmetic of tails inside the type as well.
  constexpr int64_t kLimit = std::numeric_limits<int32_t>::max() - 4096;
  if (high > kLimit || low < -kLimit) buffer.index_type = Halide::Int(64);
  // Views start anywhere: only single elements are aligned.
  buffer.parameter = Halide::Parameter(memory_type(tensor.type), true, 1, tensor.name);
  buffer.parameter.set_host_alignment(tensor.type.bytes());
  return buffer;
}

/// A promotion in force: the box of this iteration of the loops around it.
struct MadeCopy {
  const Promotion* promotion = nullptr;
  std::vector<Expr> offsets;
};

class Generator {
 public:
  Generator(const Scop& scop, const std::vector<Promotion>& promotions,
            const std::map<std::string, Layout>& layouts)
      : scop_(scop), promotions_(promotions) {
    for (const auto& [name, tensor] : scop.program->tensors)
      buffers_.emplace(name, make_buffer(tensor, layouts.at(name)));
  }

  Stmt generate(const isl::schedule& schedule) {
    isl::ast_build build(scop_.context->get());
    return ir::hoist_conditions(node(build.node_from(schedule)));
  }

 private:
  Stmt node(const isl::ast_node& n) {
    if (n.isa<isl::ast_node_for>()) return loop(n.as<isl::ast_node_for>());
    if (n.isa<isl::ast_node_block>()) {
      isl::ast_node_list children = n.as<isl::ast_node_block>().children();
      std::vector<Stmt> stmts;
      // What a part of the block copies serves the parts behind it.
      size_t outer = copies_.size();
      for (unsigned i = 0; i < children.size(); ++i) stmts.push_back(node(children.at(i)));
      // isl repeats a mark over every part of what it marks.
      Stmt block = Halide::Internal::Block::make(join_register_tiles(stmts));
      for (; copies_.size() > outer; copies_.pop_back()) block = allocate(copies_.back(), block);
      return block;
    }
    if (n.isa<isl::ast_node_if>()) {
      auto branch = n.as<isl::ast_node_if>();
      Expr condition = poly::to_expr(branch.cond(), iterators_);
      Stmt then = node(branch.then_node());
      Stmt otherwise = branch.has_else_node() ? node(branch.else_node()) : Stmt();
      return Halide::Internal::IfThenElse::make(condition, then, otherwise);
    }
    if (n.isa<isl::ast_node_mark>()) {
      auto marked = n.as<isl::ast_node_mark>();
      const Mark& mark = poly::mark_of(marked.id());
      if (mark.role == Role::RegisterTile) return register_tile(mark, marked.node());
      if (mark.role == Role::Copy) return make_copy(node(marked.node()));
      std::map<std::string, Role> outer = roles_;
      for (unsigned m = 0; m < mark.members; ++m) {
        std::string iterator = "c" + std::to_string(mark.depth + m);
        roles_[iterator] = mark.role;
        // The points of a register tile: the unrolled members, then the vector, which is dimension
        // 0.
        points_[iterator] = mark.role == Role::Unrolled ? mark.members - m : 0;
      }
      Stmt body = node(marked.node());
      roles_ = outer;
      return body;
    }
    return instance(n.as<isl::ast_node_user>());
  }

  /// The mark lists the members outermost first; dimension 0 of a register tile is the innermost.
  Stmt register_tile(const Mark& mark, const isl::ast_node& body) {
    std::vector<TileDimension> dimensions;
    for (size_t m = mark.members; m-- > 0;)
      dimensions.push_back({mark.points[m].full, mark.points[m].rest});
    tile_dimensions_ = mark.members;
    Stmt result = make_register_tile(dimensions, node(body));
    tile_dimensions_ = 0;
    return result;
  }

  Stmt loop(const isl::ast_node_for& f) {
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

    std::string name = concat(isl_name, "_", loops_++);
    Expr variable = ir::make_variable(name);
    Expr extent = Halide::Internal::simplify(last - first + 1);
    Expr value = variable;
    Expr min = first;
    if (*step != 1) {
      extent = Halide::Internal::simplify((extent + (static_cast<int>(*step) - 1)) /
                                          static_cast<int>(*step));
      value = first + variable * static_cast<int>(*step);
      min = Expr(0);
    }
    auto shadowed = iterators_.find(isl_name);
    Expr outer = shadowed == iterators_.end() ? Expr() : shadowed->second;
    iterators_[isl_name] = value;
    ForType type = role_type(isl_name);
    if (tile_dimensions_ && (type == ForType::Unrolled || type == ForType::Vectorized)) {
      name = concat(point_loop(points_.at(isl_name)), "_", name);
      iterators_[isl_name] = first + ir::make_variable(name);
      min = Expr(0);
    }
    // Marks below speak of deeper loops only.
    std::map<std::string, Role> roles = roles_;
    roles_.erase(isl_name);
    Stmt body = node(f.body());
    roles_ = roles;
    if (outer.defined())
      iterators_[isl_name] = outer;
    else
      iterators_.erase(isl_name);
    return ir::make_for(name, min, extent, type, body);
  }

  ForType role_type(const std::string& iterator) const {
    auto found = roles_.find(iterator);
    if (found == roles_.end()) return ForType::Serial;
    switch (found->second) {
      case Role::Parallel: return ForType::Parallel;
      case Role::Vector: return ForType::Vectorized;
      case Role::Unrolled: return ForType::Unrolled;
      case Role::Block: return ForType::GPUBlock;
      case Role::Thread: return ForType::GPUThread;
      case Role::RegisterTile:
      case Role::Copy: break;
    }
    throw InternalError(__FILE__, __LINE__, "a loop without a role");
  }

  Stmt instance(const isl::ast_node_user& user) {
    auto call = user.expr().as<isl::ast_expr_op>();
    std::string id = call.arg(0).as<isl::ast_expr_id>().id().name();
    for (const Promotion& promotion : promotions_)
      if (promotion.id == id) return copy_element(promotion, call);
    const ScopStatement& statement = scop_.statement(id);
    std::map<std::string, Expr> values;
    for (size_t d = 0; d < statement.dimensions; ++d)
      values[statement.source->domain[d].name] =
          Halide::Internal::simplify(poly::to_expr(call.arg(static_cast<int>(d) + 1), iterators_));
    return store(statement, values);
  }

  /// The tuple of a copying statement: the offsets of the box, then the element.
  Stmt copy_element(const Promotion& promotion, const isl::ast_expr_op& call) {
    std::vector<Expr> arguments;
    for (unsigned k = 1; k < call.n_arg(); ++k)
      arguments.push_back(
          Halide::Internal::simplify(poly::to_expr(call.arg(static_cast<int>(k)), iterators_)));
    size_t rank = promotion.sizes.size();
    MadeCopy copy{&promotion, {arguments.begin(), arguments.begin() + static_cast<int>(rank)}};
    std::vector<Expr> element(arguments.begin() + static_cast<int>(rank), arguments.end());
    // Its loops may come in pieces.
    if (copies_.empty() || copies_.back().promotion != &promotion) copies_.push_back(copy);
    return ir::make_store(promotion.buffer, offset_in_copy(copy, element),
                          copied_value(promotion, element));
  }

  Expr copied_value(const Promotion& promotion, const std::vector<Expr>& element) const {
    const std::string& tensor = promotion.read.tensor;
    if (!promotion.computed) {
      Halide::Type type = memory_type(scop_.program->tensor(tensor).type);
      return load_memory(tensor, type, offset(buffers_.at(tensor), element));
    }
    const ir::Statement& source = *promotion.computed->source;
    std::map<std::string, Expr> values;
    for (size_t d = 0; d < element.size(); ++d) values[source.domain[d].name] = element[d];
    return to_memory(lower_reads(Halide::Internal::substitute(values, source.value)));
  }

  Stmt allocate(const MadeCopy& copy, const Stmt& body) const {
    Halide::Type type = memory_type(scop_.program->tensor(copy.promotion->read.tensor).type);
    return Halide::Internal::Allocate::make(copy.promotion->buffer, type, Halide::MemoryType::Heap,
                                            {static_cast<int>(copy.promotion->elements)},
                                            Halide::Internal::const_true(), body);
  }

  Expr offset_in_copy(const MadeCopy& copy, const std::vector<Expr>& subscripts) const {
    Expr index = 0;
    for (size_t d = 0; d < subscripts.size(); ++d)
      index =
          index + (subscripts[d] - copy.offsets[d]) * static_cast<int>(copy.promotion->strides[d]);
    return Halide::Internal::simplify(index);
  }

  Stmt store(const ScopStatement& statement, const std::map<std::string, Expr>& values) {
    const ir::Statement& source = *statement.source;
    const ir::Tensor& tensor = scop_.program->tensor(source.tensor);
    const Buffer& buffer = buffers_.at(source.tensor);
    std::vector<Expr> subscripts;
    for (const Expr& s : source.subscripts)
      subscripts.push_back(lower_reads(Halide::Internal::substitute(values, s)));
    Expr index = offset(buffer, subscripts);
    Expr value;
    if (statement.initialization) {
      value = ir::identity(source.reduction, tensor.type);
    } else {
      value =
          lower_reads(Halide::Internal::substitute(values, use_copies(statement, source.value)));
      if (source.reduction != ir::Reduction::None && !source.atomic)
        value = ir::combine(source.reduction, load(source.tensor, tensor.type, index), value);
    }
    Stmt result =
        source.atomic && !statement.initialization
            ? make_atomic_update(source.reduction, load(source.tensor, tensor.type, index), value)
            : Halide::Internal::Store::make(source.tensor, to_memory(value), index,
                                            buffer.parameter, Halide::Internal::const_true(),
                                            Halide::Internal::ModulusRemainder());
    if (statement.guard.defined())
      result = Halide::Internal::IfThenElse::make(
          lower_reads(Halide::Internal::substitute(values, use_copies(statement, statement.guard))),
          result);
    return result;
  }

  Expr load(const std::string& name, Halide::Type type, const Expr& index) const {
    return from_memory(load_memory(name, memory_type(type), index), type);
  }

  Expr load_memory(const std::string& name, Halide::Type type, const Expr& index) const {
    return Halide::Internal::Load::make(type, name, index, Halide::Buffer<>(),
                                        buffers_.at(name).parameter, Halide::Internal::const_true(),
                                        Halide::Internal::ModulusRemainder());
  }

  /// Renames the promoted reads of a statement after their copies.
  Expr use_copies(const ScopStatement& statement, const Expr& e) const {
    class Rename : public Halide::Internal::IRMutator {
     public:
      Rename(const std::vector<MadeCopy>& copies, const ScopStatement& statement)
          : copies_(copies), statement_(statement) {}

     private:
      using IRMutator::visit;
      Expr visit(const Call* op) override {
        std::string name = ir::read_name(op);
        for (const MadeCopy& copy : copies_) {
          const Promotion& promotion = *copy.promotion;
          if (promotion.statement != &statement_ || promotion.read.tensor != name) continue;
          bool same = true;
          for (size_t d = 0; d < op->args.size(); ++d)
            same = same && Halide::Internal::equal(op->args[d], promotion.read.subscripts[d]);
          ir::Tensor copied;
          copied.name = promotion.buffer;
          copied.type = op->type;
          if (same) return ir::read(copied, op->args);
        }
        return IRMutator::visit(op);
      }
      const std::vector<MadeCopy>& copies_;
      const ScopStatement& statement_;
    };
    return copies_.empty() ? e : Rename(copies_, statement).mutate(e);
  }

  /// sum of subscript * stride.
  Expr offset(const Buffer& buffer, const std::vector<Expr>& subscripts) const {
    Expr index = Halide::Internal::make_zero(buffer.index_type);
    for (size_t d = 0; d < subscripts.size(); ++d) {
      Expr stride = Halide::Internal::make_const(buffer.index_type, buffer.layout.strides[d]);
      index = index + Halide::cast(buffer.index_type, subscripts[d]) * stride;
    }
    return Halide::Internal::simplify(index);
  }

  /// Replaces reads of tensors and scalars by loads.
  Expr lower_reads(const Expr& e) const {
    class Lower : public Halide::Internal::IRMutator {
     public:
      explicit Lower(const Generator& generator) : generator_(generator) {}

     private:
      using IRMutator::visit;
      Expr visit(const Call* op) override {
        std::string name = ir::read_name(op);
        if (name.empty()) return IRMutator::visit(op);
        std::vector<Expr> arguments;
        for (const Expr& argument : op->args) arguments.push_back(mutate(argument));
        if (generator_.buffers_.count(name))
          return generator_.load(name, op->type,
                                 generator_.offset(generator_.buffers_.at(name), arguments));
        for (const MadeCopy& copy : generator_.copies_)
          if (copy.promotion->buffer == name)
            return from_memory(ir::make_load(memory_type(op->type), name,
                                             generator_.offset_in_copy(copy, arguments)),
                               op->type);
        return from_memory(ir::make_load(memory_type(op->type), name, Expr(0)), op->type);
      }
      const Generator& generator_;
    };
    return Lower(*this).mutate(e);
  }

  const Scop& scop_;
  const std::vector<Promotion>& promotions_;
  std::vector<MadeCopy> copies_;  ///< in force
  std::map<std::string, Buffer> buffers_;
  std::map<std::string, Expr> iterators_;  ///< isl's loop names -> values
  std::map<std::string, Role> roles_;      ///< isl's loop names -> roles in force
  std::map<std::string, size_t> points_;   ///< isl's loop names -> register tile dimensions
  size_t tile_dimensions_ = 0;             ///< of the register tile around; 0 outside
  int loops_ = 0;
};

}  // namespace

Stmt to_stmt(const Scop& scop, const Mapped& mapped, const std::map<std::string, Layout>& layouts) {
  return Generator(scop, mapped.promotions, layouts).generate(mapped.schedule);
}

}  // namespace tc::codegen
