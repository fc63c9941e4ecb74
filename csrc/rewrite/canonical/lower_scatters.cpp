#include "rewrite/canonical/lower_scatters.h"

#include <algorithm>

#include "base/error.h"
#include "ir/expressions/reads.h"

namespace tc::ir {
namespace {

/// Bools are 0 or 1 elsewhere.
Expr convert(const Expr& e, Type type) {
  if (e.type() == type) return e;
  return type.is_bool() ? e != make_zero(e.type()) : Halide::cast(type, e);
}

/// The type in which results of a narrow one are combined.
Type working_type(Type type, Reduction reduction, bool atomic) {
  bool adds = reduction == Reduction::Sum || reduction == Reduction::Product;
  if (type.bits() >= 32 || !(atomic || (type.is_float() && adds))) return type;
  return type.is_float()                     ? Halide::Float(32)
         : type.is_uint() && !type.is_bool() ? Halide::UInt(32)
                                             : Halide::Int(32);
}

/// The reduction of bools as one of numbers that are 0 or 1.
Reduction of_numbers(Reduction reduction) {
  bool any =
      reduction == Reduction::Sum || reduction == Reduction::Max || reduction == Reduction::Or;
  return any ? Reduction::Max : Reduction::Min;
}

/// The value in a wider type. Of floats, products and sums on the way are not rounded either.
Expr widened(const Expr& e, Type type) {
  if (type.is_float()) {
    if (const auto* op = e.as<Add>()) return widened(op->a, type) + widened(op->b, type);
    if (const auto* op = e.as<Sub>()) return widened(op->a, type) - widened(op->b, type);
    if (const auto* op = e.as<Mul>()) return widened(op->a, type) * widened(op->b, type);
    const auto* op = e.as<Cast>();
    if (op && op->value.type() == type) return op->value;
  }
  return convert(e, type);
}

/// Replaces the value by a read of a temporary that has it reduced over the indices that say
/// nothing of the place, and returns the statement that writes that; none where all say it.
std::vector<Statement> reduce_first(Statement& update, Program& program) {
  Statement terms = update;
  terms.scattered.clear();
  std::vector<Iterator> inner, outer;
  auto place_of = [&](const Iterator& it) {
    size_t d = 0;
    while (d < update.subscripts.size() && !expr_uses_var(update.subscripts[d], it.name)) ++d;
    return d;
  };
  for (const Iterator& it : update.domain)
    (place_of(it) < update.subscripts.size() ? outer : inner).push_back(it);
  bool many = std::any_of(inner.begin(), inner.end(),
                          [](const Iterator& it) { return !is_const_one(it.extent); });
  const std::vector<Expr>& sizes = program.tensor(update.tensor).sizes;
  // The guard of a scatter into a tensor without elements says that it writes nothing.
  const bool empty = std::any_of(sizes.begin(), sizes.end(), is_const_zero);
  if (!many || empty || reads(update, update.tensor)) return {};
  update.domain = outer;
  // The temporary lies as the result does.
  std::stable_sort(outer.begin(), outer.end(),
                   [&](const Iterator& a, const Iterator& b) { return place_of(a) < place_of(b); });
  terms.domain = outer;
  for (Iterator& it : terms.domain) it.reduction = false;
  terms.domain.insert(terms.domain.end(), inner.begin(), inner.end());
  Type narrow = program.tensor(update.tensor).type;
  Type type = working_type(narrow, update.reduction, false);
  terms.value = widened(update.value, type);
  terms.initializes = true;
  update.value =
      convert(write_temporary(program, terms, update.tensor + ".terms", type, outer), narrow);
  update.guard = Expr();
  return {terms};
}

std::vector<Statement> lower(Statement update, Program& program, bool atomic) {
  if (update.initializes && reads(update, update.tensor))
    throw LanguageError(
        update.where, "this statement starts ", update.tensor,
        " afresh and reads it, so its right-hand side cannot be read before its left-hand "
        "side is written. Write to a tensor of another name and use that one afterwards.");
  std::vector<Statement> made = reduce_first(update, program);
  const Tensor target = program.tensor(update.tensor);
  const Type type = working_type(target.type, update.reduction, atomic);
  Statement first = cover_scatter(update, program), last = first;
  const Expr start = identity(update.reduction, target.type);
  const bool initializes = update.initializes;
  update.initializes = false;
  update.atomic = atomic;
  if (type != target.type) {
    update.tensor = add_temporary(program, target.name + ".wide", type, target.sizes).name;
    update.value = widened(update.value, type);
    if (target.type.is_bool()) update.reduction = of_numbers(update.reduction);
    first.tensor = update.tensor;
    last.value = convert(read(program.tensor(update.tensor), last.subscripts), target.type);
  }
  if (initializes || type != target.type) {
    first.value = convert(initializes ? start : read(target, first.subscripts), type);
    made.push_back(first);
  }
  made.push_back(update);
  if (type != target.type) made.push_back(last);
  return made;
}

}  // namespace

Statement cover_scatter(const Statement& scatter, const Program& program, bool numbered) {
  Statement all = scatter;
  assign(all);
  all.scattered.clear();
  all.domain.clear();
  all.guard = Expr();
  size_t plain = 0;
  const bool many =
      numbered || std::count(scatter.scattered.begin(), scatter.scattered.end(), true) > 1;
  for (size_t d = 0; d < scatter.subscripts.size(); ++d) {
    if (!scatter.scattered[d]) {
      all.domain.push_back(scatter.domain[plain++]);
      continue;
    }
    const Iterator place =
        make_index(scatter, many ? concat("place", d) : "place",
                   program.tensor(scatter.tensor).sizes[d], "places of " + scatter.tensor);
    all.subscripts[d] = make_variable(place.name);
    all.domain.push_back(place);
  }
  return all;
}

void lower_scatters(Program& program, bool atomic) {
  replace_statements(program, [&](const Statement& statement) {
    return is_scatter(statement) ? lower(statement, program, atomic)
                                 : std::vector<Statement>{statement};
  });
}

}  // namespace tc::ir
