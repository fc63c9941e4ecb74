#include "lang/lowering/index_tables.h"

#include <algorithm>
#include <set>
#include <utility>
#include <vector>

#include "ir/expressions/choices.h"
#include "ir/expressions/reads.h"
#include "ir/expressions/wide_integers.h"
#include "ir/intervals.h"
#include "ir/visit.h"
#include "lang/lowering/definition.h"

namespace tc::lang {
namespace {

using namespace ir;

/// A tensor that one statement fills with integers of its indices.
struct Table {
  size_t place = 0;  ///< of the statement
  Expr value;        ///< that reads no table
};

/// What is computed without signs since it might wrap around, with signs; nothing where other
/// operations than sums and products are.
std::optional<Expr> with_signs(const Expr& e) {
  const Type type = e.type().with_code(Halide::Type::Int);
  const auto both = [&](const auto* op) -> std::optional<Expr> {
    const auto a = with_signs(op->a), b = with_signs(op->b);
    return a && b ? std::optional(op->make(*a, *b)) : std::nullopt;
  };
  if (const auto* op = e.as<Add>()) return both(op);
  if (const auto* op = e.as<Sub>()) return both(op);
  if (const auto* op = e.as<Mul>()) return both(op);
  if (const auto* op = e.as<UIntImm>())
    return make_const(type,
                      static_cast<int64_t>(op->value) << (64 - type.bits()) >> (64 - type.bits()));
  const auto* cast = e.as<Cast>();
  return cast && cast->value.type() == type ? std::optional(cast->value) : std::nullopt;
}

/// The same numbers where nothing wraps around, in a form that says what they are.
Expr without_wrapping(const Expr& e) {
  return mutate(e, [](const Cast* op, Mutator& self) {
    const Type from = op->value.type();
    if (!op->type.is_int() || !from.is_uint() || from.bits() != op->type.bits())
      return self.inside(op);
    const std::optional<Expr> value = with_signs(op->value);
    return value ? self.mutate(*value) : self.inside(op);
  });
}

class Tables {
 public:
  Tables(const Program& program, const std::map<std::string, int64_t>& sizes, const Program& sized)
      : program_(program), sized_(sized) {
    for (const std::string& size : program.sizes)
      sizes_[size] = static_cast<int32_t>(sizes.at(size));
    // Of places in a table that data says something has to make sure.
    std::set<std::string> open;
    for (const OpenAccess& access : sized.open_accesses)
      if (const auto* read = access.read.as<Call>()) open.insert(read_name(read));
    std::map<std::string, int> writers;
    for (const Statement& statement : program.statements) ++writers[statement.tensor];
    for (size_t s = 0; s < program.statements.size(); ++s) {
      const Statement& statement = program.statements[s];
      const Tensor& tensor = program.tensor(statement.tensor);
      if (tensor.type.is_float() || tensor.type.is_bool() || tensor.role == TensorRole::InOut ||
          writers[tensor.name] > 1 || open.count(tensor.name) ||
          !is_definition(sized.statements[s]))
        continue;
      const Expr value = without_wrapping(in_place(statement.value, s));
      if (!has_data(value) && is_exact(value, tensor.type, sized.statements[s].domain))
        tables_[tensor.name] = {s, value};
    }
  }

  bool empty() const { return tables_.empty(); }

  /// What statement number `place` computes, with other subscripts, and other conditions, which may
  /// keep them inside.
  Expr in_places(const Expr& e, size_t place) const {
    return mutate(
        e,
        [&](const Select* op, Mutator& self) {
          return Select::make(in_place(self.mutate(op->condition), place),
                              self.mutate(op->true_value), self.mutate(op->false_value));
        },
        [&](const Call* op, Mutator& self) {
          const std::optional<Choice> choice = find_choice(op);
          if (choice)
            return choose_lazily(in_place(self.mutate(choice->condition), place),
                                 self.mutate(choice->yes), self.mutate(choice->no));
          if (read_name(op).empty()) return self.inside(op);
          return map_arguments(op, op->type,
                               [&](const Expr& subscript) { return in_index(subscript, place); });
        });
  }

 private:
  /// Whether the type holds the value, and 32 bits each step on the way to it, so that nothing
  /// wraps around.
  bool is_exact(const Expr& value, const Type& type, const std::vector<Iterator>& domain) const {
    const auto limits = index_intervals(domain);
    Bounds bounds;
    for (const Iterator& it : domain)
      bounds.push(it.name, Interval(widen(it.min), widen(it.min + it.extent - 1)));
    const auto fits = [&](const Expr& e, const Type& into) {
      // Of choices intervals know nothing.
      const auto values =
          Halide::Internal::constant_integer_bounds(simplify(e, true, bounds), limits);
      return values.is_bounded() && into.can_represent(values.min) &&
             into.can_represent(values.max);
    };
    const auto leaves = [&](const auto* op) {
      return op->type.is_int() && !fits(Expr(op), Halide::Int(32));
    };
    const Expr wide = widen(substitute(sizes_, value), /*retyped=*/true);
    return !any<Add>(wide, leaves) && !any<Sub>(wide, leaves) && !any<Mul>(wide, leaves) &&
           fits(wide, type);
  }

  /// A subscript, in 32 bits like any of indices alone; as it is where these do not hold it:
  /// numbers of tables wrap around in a text, those of indices do not.
  Expr in_index(const Expr& subscript, size_t place) const {
    const Expr changed = in_place(subscript, place);
    if (changed.same_as(subscript) || has_data(changed)) return changed;
    const std::optional<Expr> index = narrow(widen(without_wrapping(changed), /*retyped=*/true));
    const bool exact = index && is_exact(*index, Halide::Int(32), sized_.statements[place].domain);
    return exact ? *index : subscript;
  }

  /// With what tables hold that earlier statements fill.
  Expr in_place(const Expr& e, size_t place) const {
    return mutate(e, [&](const Call* op, Mutator& self) {
      const auto table = tables_.find(read_name(op));
      if (table == tables_.end() || table->second.place >= place) return self.inside(op);
      const std::vector<Iterator>& domain = program_.statements[table->second.place].domain;
      std::map<std::string, Expr> values;
      for (size_t d = 0; d < op->args.size(); ++d)
        values[domain[d].name] = self.mutate(op->args[d]);
      return substitute(values, table->second.value);
    });
  }

  const Program& program_;
  const Program& sized_;
  std::map<std::string, Expr> sizes_;
  std::map<std::string, Table> tables_;
};

/// Tables that nobody reads any more.
void drop_unread(Program& program, const Program& before) {
  const auto is_read = [](const Program& in, const std::string& name) {
    return std::any_of(in.statements.begin(), in.statements.end(),
                       [&](const Statement& statement) { return reads(statement, name); });
  };
  const auto is_unread = [&](const Statement& statement) {
    return program.tensor(statement.tensor).role == TensorRole::Temporary &&
           is_read(before, statement.tensor) && !is_read(program, statement.tensor);
  };
  // One may be read by another one alone.
  for (bool changed = true; changed;) {
    const auto found =
        std::find_if(program.statements.begin(), program.statements.end(), is_unread);
    changed = found != program.statements.end();
    if (!changed) break;
    program.tensors.erase(found->tensor);
    program.statements.erase(found);
  }
}

}  // namespace

std::optional<Program> with_index_tables_in_place(const Program& program,
                                                  const std::map<std::string, int64_t>& sizes,
                                                  const Program& sized) {
  if (sized.open_accesses.empty()) return std::nullopt;
  const Tables tables(program, sizes, sized);
  if (tables.empty()) return std::nullopt;
  Program changed = program;
  for (size_t s = 0; s < changed.statements.size(); ++s)
    changed.statements[s].value = tables.in_places(program.statements[s].value, s);
  drop_unread(changed, program);
  number_statements(changed);
  changed = specialize(changed, sizes);
  AccessCheck check = check_accesses(changed);
  if (!check.outside.empty() || check.open.size() >= sized.open_accesses.size())
    return std::nullopt;
  changed.open_accesses = std::move(check.open);
  return changed;
}

}  // namespace tc::lang
