#include "ir/check_gathers.h"

#include <algorithm>
#include <limits>

#include "base/error.h"
#include "ir/choices.h"
#include "ir/reads.h"
#include "ir/simplify.h"

namespace tc::ir {
namespace {

using namespace Halide::Internal;

/// The index before it became int32, in which a large one could look like a small one.
Expr whole_index(const Expr& subscript) {
  const Cast* cast = subscript.as<Cast>();
  bool narrows = cast && !cast->value.type().is_float() &&
                 (cast->value.type().bits() > 32 || cast->value.type() == Halide::UInt(32));
  return narrows ? cast->value : subscript;
}

/// A read, the conditions it stands under, and the dimensions to look at.
struct Gather {
  const Call* read = nullptr;
  std::vector<Expr> conditions;
  std::vector<size_t> dimensions;
  std::vector<Expr> indices;  ///< of these, safe to evaluate
};

/// Makes the reads of one statement safe and lists those to look at, inner ones first.
class GuardReads : public IRMutator {
 public:
  GuardReads(const Program& program, const Statement& statement) : program_(program) {
    for (const Iterator& it : statement.domain)
      bounds_.push(it.name, Interval(it.min, simplify(it.min + it.extent - 1)));
    if (statement.guard.defined()) conditions_.push_back(statement.guard);
  }
  std::vector<Gather> gathers;

 private:
  using IRMutator::visit;

  Expr visit(const Call* op) override {
    if (op->is_intrinsic(Call::if_then_else) && op->args.size() == 3) {
      auto [condition, yes, no] = branches(op->args[0], op->args[1], op->args[2]);
      return choose_lazily(condition, yes, no);
    }
    auto tensor = program_.tensors.find(read_name(op));
    if (tensor == program_.tensors.end()) return IRMutator::visit(op);
    Expr safe = IRMutator::visit(op);
    const Call* read = safe.as<Call>();
    Gather gather{op, conditions_, {}, {}};
    Expr inside = const_true();
    for (size_t d = 0; d < read->args.size(); ++d) {
      if (!is_open(op->args[d], tensor->second.sizes[d])) continue;
      Expr index = whole_index(read->args[d]);
      gather.dimensions.push_back(d);
      gather.indices.push_back(index);
      inside = inside && is_inside(index, tensor->second.sizes[d]);
    }
    if (gather.dimensions.empty()) return safe;
    gathers.push_back(gather);
    return choose_lazily(simplify(inside), safe, make_zero(op->type));
  }

  Expr visit(const Select* op) override {
    auto [condition, yes, no] = branches(op->condition, op->true_value, op->false_value);
    return Select::make(condition, yes, no);
  }

  std::tuple<Expr, Expr, Expr> branches(const Expr& condition, const Expr& yes, const Expr& no) {
    Expr safe = mutate(condition);
    conditions_.push_back(safe);
    Expr first = mutate(yes);
    conditions_.back() = !safe;
    Expr second = mutate(no);
    conditions_.pop_back();
    return {safe, first, second};
  }

  /// Whether the check of a call's sizes says nothing of it.
  bool is_open(const Expr& subscript, const Expr& size) const {
    if (has_data(subscript)) return true;
    if (std::none_of(conditions_.begin(), conditions_.end(), has_data)) return false;
    Expr inside = and_condition_over_domain(subscript >= 0 && subscript < size, bounds_);
    return !is_const_one(simplify(inside));
  }

 public:
  static Expr is_inside(const Expr& index, const Expr& size) {
    Type type = index.type();
    Expr below = index < Halide::cast(type, size);
    return type.is_uint() ? below : below && index >= make_zero(type);
  }

 private:
  const Program& program_;
  Bounds bounds_;
  std::vector<Expr> conditions_;
};

class Checker {
 public:
  explicit Checker(const Program& program) : given_(program), result_{program, {}} {}

  CheckedProgram run() {
    result_.program.statements.clear();
    for (const Statement& statement : given_.statements) {
      GuardReads guard(given_, statement);
      Statement safe = statement;
      safe.value = guard.mutate(statement.value);
      for (const Gather& gather : guard.gathers)
        for (size_t k = 0; k < gather.dimensions.size(); ++k) add(statement, gather, k);
      result_.program.statements.push_back(safe);
    }
    number_statements(result_.program);
    return std::move(result_);
  }

 private:
  static constexpr int64_t kNone = std::numeric_limits<int64_t>::max();

  void add(const Statement& source, const Gather& gather, size_t k) {
    const Type wide = Halide::Int(64);
    const Tensor& tensor = given_.tensor(read_name(gather.read));
    size_t dimension = gather.dimensions[k];
    const Expr& index = gather.indices[k];
    GatherCheck check{plain_text(Expr(gather.read)),
                      tensor.name,
                      dimension,
                      *as_const_int(tensor.sizes[dimension]),
                      index.type().is_uint(),
                      source.where,
                      source.domain};
    std::string name = concat("check.", result_.checks.size());
    result_.checks.push_back(check);

    Expr bad = !GuardReads::is_inside(index, tensor.sizes[dimension]);
    for (size_t c = gather.conditions.size(); c-- > 0;)
      bad = choose_lazily(gather.conditions[c], bad, const_false());
    Expr position = make_zero(wide);
    for (const Iterator& it : source.domain)
      position = position * Halide::cast(wide, it.extent) +
                 Halide::cast(wide, make_variable(it.name) - it.min);
    Statement where;
    where.tensor = name + ".at";
    where.reduction = Reduction::Min;
    where.initializes = true;
    where.domain = source.domain;
    for (Iterator& it : where.domain) it.reduction = true;
    where.value = select(bad, simplify(position), make_const(wide, kNone));
    where.where = source.where;
    where.meaning = concat("where dimension ", dimension, " of ", check.access, " leaves it");
    add_result(where);

    // The values of the indices at that position.
    Expr at = read(result_.program.tensor(where.tensor), {});
    std::map<std::string, Expr> values;
    Expr rest = at;
    for (size_t d = source.domain.size(); d-- > 0;) {
      const Iterator& it = source.domain[d];
      Expr extent = Halide::cast(wide, max(it.extent, 1));
      values[it.name] = it.min + Halide::cast<int32_t>(rest % extent);
      rest = rest / extent;
    }
    Statement what;
    what.tensor = name + ".index";
    what.value = choose_lazily(at < make_const(wide, kNone),
                               Halide::cast(wide, substitute(values, index)), make_zero(wide));
    what.where = source.where;
    what.meaning = concat("its index there");
    add_result(what);
  }

  void add_result(const Statement& statement) {
    Tensor tensor{statement.tensor, Halide::Int(64), TensorRole::Output, {}, statement.where};
    result_.program.tensors[tensor.name] = tensor;
    result_.program.outputs.push_back(tensor.name);
    result_.program.statements.push_back(statement);
  }

  const Program& given_;
  CheckedProgram result_;
};

}  // namespace

CheckedProgram check_gathers(const Program& program) { return Checker(program).run(); }

}  // namespace tc::ir
