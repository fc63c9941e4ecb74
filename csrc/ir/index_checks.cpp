#include "ir/index_checks.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

#include "base/error.h"
#include "ir/expressions/choices.h"
#include "ir/expressions/reads.h"
#include "ir/expressions/walk.h"
#include "ir/expressions/wide_integers.h"
#include "ir/expressions/wrap_integers.h"
#include "ir/intervals.h"
#include "ir/visit.h"

namespace tc::ir {
namespace {

// A check that is larger, once the values of temporaries stand in it, is made in the loops: it
// would take long to compile, of which no model of the processor knows.
constexpr int kMostNodes = 200;

/// The value of more than 32 bits that is cut to int32, or nothing.
Expr before_narrowing(const Expr& e) {
  const Cast* cast = e.as<Cast>();
  const bool narrows = cast && !cast->value.type().is_float() && cast->value.type().bits() > 32;
  return narrows ? cast->value : Expr();
}

/// In 64 bits, for an offset of 32 bits: a large uint64 is cut down to what is outside with any. An
/// int64 that overflows has the other sign, and is outside too.
Expr with_room(const Expr& wide) {
  const Expr kept =
      wide.type() == Halide::UInt(64) ? min(wide, make_const(wide.type(), int64_t{1} << 62)) : wide;
  return Halide::cast(Halide::Int(64), kept);
}

/// The index before it became int32, in which a large one could look like a small one: int32(x),
/// or int32(x) + 2 where places count from -2. A uint32 alone does not; in a sum it may be what
/// signed arithmetic has made of a negative number.
Expr whole_index(const Expr& subscript) {
  if (const auto* cast = subscript.as<Cast>(); cast && cast->value.type() == Halide::UInt(32))
    return cast->value;
  if (const Expr wide = before_narrowing(subscript); wide.defined()) return wide;
  if (const auto* sum = subscript.as<Add>(); sum && is_const(sum->b))
    if (const Expr wide = before_narrowing(sum->a); wide.defined())
      return with_room(wide) + Halide::cast(Halide::Int(64), sum->b);
  if (const auto* rest = subscript.as<Sub>(); rest && is_const(rest->b))
    if (const Expr wide = before_narrowing(rest->a); wide.defined())
      return with_room(wide) - Halide::cast(Halide::Int(64), rest->b);
  return subscript;
}

/// The number that an index of 64 bits would be if it did not wrap around, in double.
Expr approximate(const Expr& e) {
  const Type type = Halide::Float(64);
  if (e.type() == Halide::Int(64)) {
    if (const auto* op = e.as<Add>()) return approximate(op->a) + approximate(op->b);
    if (const auto* op = e.as<Sub>()) return approximate(op->a) - approximate(op->b);
    if (const auto* op = e.as<Mul>()) return approximate(op->a) * approximate(op->b);
  }
  return Halide::cast(type, e);
}

/// The index as its check compares it: where the data allows arithmetic on it to wrap around and
/// look good, in 64 bits; where these wrap around, as the largest number of them.
Expr exact_index(const Program& program, const Statement& statement, const Expr& subscript,
                 const Expr& size) {
  const int64_t length = *as_const_int(size);
  Expr index = whole_index(subscript);
  if (index.type() == Halide::Int(32) && may_wrap_inside(index, length, program, statement))
    index = widen(index);
  if (index.type() != Halide::Int(64) || !may_wrap_inside(index, length, program, statement))
    return index;
  // Beyond this rounding does not decide.
  const Expr limit = make_const(Halide::Float(64), std::ldexp(1.0, 62));
  return select(math("fabs", Halide::Float(64), {approximate(index)}) < limit, index,
                make_const(index.type(), std::numeric_limits<int64_t>::max()));
}

/// Of 32 bits or more, so that it can be compared with every size.
Expr wide_index(const Expr& index) {
  const Type type = index.type();
  return type.bits() < 32 ? Halide::cast(type.with_bits(32), index) : index;
}

/// Holds the index once: expressions are walked as trees, and one that has nested reads would
/// double with each of them.
Expr is_inside(const Expr& index, const Expr& size) {
  // Without sign, negative numbers are larger than every size.
  const Type type = wide_index(index).type().with_code(Type::UInt);
  return Halide::cast(type, wide_index(index)) < Halide::cast(type, size);
}

/// The nearest subscript that is inside; 0 where there is none.
Expr move_inside(const Expr& index, const Expr& size) {
  const Expr wide = wide_index(index);
  const Expr last = Halide::cast(wide.type(), max(size - 1, 0));
  Expr moved = min(wide, last);
  if (!wide.type().is_uint()) moved = max(moved, make_zero(wide.type()));
  return Halide::cast<int32_t>(moved);
}

const Expr& subscript_of(const Program& program, const OpenAccess& access) {
  return access.read.defined() ? access.read.as<Call>()->args[access.dimension]
                               : program.statements[access.statement].subscripts[access.dimension];
}

/// What a check compares with its size.
Expr index_of(const Program& program, const IndexCheck& check) {
  return exact_index(program, program.statements[check.access.statement],
                     subscript_of(program, check.access), static_cast<int32_t>(check.size));
}

/// Whether all conditions and e hold; e is not evaluated where one of them does not.
Expr under(const std::vector<Expr>& conditions, Expr e) {
  for (size_t c = conditions.size(); c-- > 0;) e = choose_lazily(conditions[c], e, const_false());
  return e;
}

/// Of a kind that every expression which is no leaf passes often enough for a limit.
int count_nodes(const Expr& e) {
  int count = 0;
  walk(e, [&](const Expr& part) {
    count += part.as<Call>() || part.as<Add>() || part.as<Sub>() || part.as<Mul>() ||
             part.as<Select>() || part.as<Cast>();
    return true;
  });
  return count;
}

/// Moves the subscripts of open reads of one statement inside, so that what holds them can be
/// evaluated whatever the data.
Expr make_safe(const Program& program, size_t statement, const Expr& e) {
  std::map<Expr, std::set<size_t>, IRDeepCompare> open;
  for (const OpenAccess& access : program.open_accesses)
    if (access.statement == statement && access.read.defined())
      open[access.read].insert(access.dimension);
  return mutate(e, [&](const Call* op, Mutator& self) -> Expr {
    auto found = open.find(op);
    Expr safe = self.inside(op);
    if (found == open.end()) return safe;
    const Tensor& tensor = program.tensor(read_name(op));
    std::vector<Expr> subscripts = safe.as<Call>()->args;
    for (size_t d : found->second) {
      if (is_const_zero(tensor.sizes[d])) return make_zero(op->type);
      const Expr index =
          exact_index(program, program.statements[statement], subscripts[d], tensor.sizes[d]);
      subscripts[d] = move_inside(index, tensor.sizes[d]);
    }
    return read(tensor, subscripts);
  });
}

std::vector<Expr> safe_conditions(const Program& program, const OpenAccess& access) {
  std::vector<Expr> conditions;
  for (const Expr& condition : access.conditions)
    conditions.push_back(make_safe(program, access.statement, condition));
  return conditions;
}

/// Whether a definition gives every element of its tensor a value: what others write may be larger.
bool defines_all(const Program& program, const Statement& definition) {
  const Tensor& tensor = program.tensor(definition.tensor);
  for (size_t d = 0; d < definition.domain.size(); ++d) {
    const Iterator& it = definition.domain[d];
    if (!is_const_zero(it.min) || !equal(it.extent, tensor.sizes[d])) return false;
  }
  return true;
}

/// The value of an expression of a statement as it is before the program runs: what statements in
/// front have computed, point by point, stands in it in place of its name.
std::optional<Expr> at_entry(const Program& program, size_t statement, const Expr& e) {
  bool possible = true;
  const Expr result = mutate(e, [&](const Call* op, Mutator& self) -> Expr {
    const std::string name = read_name(op);
    std::optional<size_t> writer;
    for (size_t s = 0; s < statement && possible; ++s) {
      if (name.empty() || program.statements[s].tensor != name) continue;
      possible = !writer && is_definition(program.statements[s]) &&
                 defines_all(program, program.statements[s]) &&
                 program.tensor(name).role != TensorRole::InOut;
      writer = s;
    }
    if (!writer || !possible) return self.inside(op);
    const Statement& source = program.statements[*writer];
    const auto value = at_entry(program, *writer, make_safe(program, *writer, source.value));
    possible = value.has_value();
    if (!possible) return op;
    std::map<std::string, Expr> indices;
    for (size_t d = 0; d < op->args.size(); ++d)
      indices[source.domain[d].name] = self.mutate(op->args[d]);
    return substitute(indices, *value);
  });
  return possible && count_nodes(result) < kMostNodes ? std::optional(result) : std::nullopt;
}

int64_t constant(const Expr& e) { return *as_const_int(e); }

/// `index` as factor * read + rest, where the read is the only one and the rest is a sum of other
/// indices than those that pick its element.
std::optional<ElementRange> find_range(const Program& program, const IndexCheck& check,
                                       const Expr& index) {
  std::vector<const Call*> calls;
  for_each<Call>(index, [&](const Call* op) { calls.push_back(op); });
  if (calls.size() != 1 || read_name(calls[0]).empty()) return std::nullopt;
  const Call* read = calls[0];
  auto tensor = program.tensors.find(read_name(read));
  if (tensor == program.tensors.end() || tensor->second.type.is_bool()) return std::nullopt;

  // The box: every dimension is walked by an index of its own, or stands still.
  ElementRange range{tensor->first, {}, {}, 0, 0};
  std::set<std::string> walked;
  for (const Expr& subscript : read->args) {
    const Iterator* along = nullptr;
    for (const Iterator& it : check.domain)
      if (expr_uses_var(subscript, it.name)) {
        if (along) return std::nullopt;
        along = &it;
      }
    Expr start = along ? substitute(along->name, along->min, subscript) : subscript;
    auto first = as_const_int(simplify(start));
    if (!first) return std::nullopt;
    if (along) {
      Expr step = simplify(subscript - make_variable(along->name) - start + along->min);
      if (!is_const_zero(step) || !walked.insert(along->name).second) return std::nullopt;
    }
    range.first.push_back(*first);
    range.count.push_back(along ? extent_of(*along) : 1);
  }

  // The sum, as a function of the value that is read.
  const Type type = index.type();
  if (type.bits() < 32) return std::nullopt;
  const std::string name = "value read";  // which no index can have
  Expr value = make_variable(name, type);
  Expr sum = index;
  const Expr named = Cast::make(type, Expr(read));
  sum = substitute(read->type == type ? Expr(read) : named, value, sum);
  if (has_data(sum)) return std::nullopt;
  Expr factor = simplify(substitute(name, value + 1, sum) - sum);
  Expr rest = simplify(substitute(name, make_zero(type), sum));
  auto by = as_const_int(factor);
  if (!by || (*by != 1 && *by != -1)) return std::nullopt;
  if (!is_const_zero(simplify(sum - rest - value * factor))) return std::nullopt;
  for (const Iterator& it : check.domain)
    if (walked.count(it.name) && expr_uses_var(rest, it.name)) return std::nullopt;
  const ConstantInterval others = constant_integer_bounds(rest, index_intervals(check.domain));
  if (!others.is_bounded()) return std::nullopt;
  // Both ends are reached where the rest is a sum of single indices; of anything else the interval
  // may be too wide.
  auto reached = [&](int64_t at) {
    for (bool high : {false, true}) {
      std::map<std::string, Expr> ends;
      for (const Iterator& it : check.domain) {
        Expr up =
            simplify(substitute(it.name, it.min + 1, rest) - substitute(it.name, it.min, rest));
        const bool rises = is_const(up) ? constant(up) >= 0 : true;
        ends[it.name] = rises == high ? simplify(it.min + it.extent - 1) : it.min;
      }
      if (auto end = as_const_int(simplify(substitute(ends, rest))); end && *end == at) return true;
    }
    return false;
  };
  if (!reached(others.min) || !reached(others.max)) return std::nullopt;
  const int64_t low = -others.min, high = check.size - 1 - others.max;
  range.least = *by > 0 ? low : -high;
  range.most = *by > 0 ? high : -low;
  return range;
}

/// Adds a result without dimensions and the statement that writes it: the value, or what it is
/// reduced to over the domain of the check. Returns the read of it.
Expr add_result(Program& program, const std::string& name, const Expr& value,
                const IndexCheck& check, Reduction reduction = Reduction::None) {
  Statement statement;
  statement.tensor = name;
  statement.value = value;
  statement.where = check.where;
  statement.reduction = reduction;
  statement.initializes = reduction != Reduction::None;
  if (statement.initializes) statement.domain = check.domain;
  for (Iterator& it : statement.domain) it.reduction = true;
  program.statements.push_back(std::move(statement));
  program.outputs.push_back(name);
  return read(program.tensors[name] = Tensor{name, value.type(), TensorRole::Output, {}, {}}, {});
}

/// The program without statements and results; what results hold at first can be read.
Program only_inputs(const Program& program) {
  Program result = program;
  result.statements.clear();
  result.outputs.clear();
  result.open_accesses.clear();
  for (auto& [name, tensor] : result.tensors) {
    if (tensor.role != TensorRole::InOut) continue;
    tensor.role = TensorRole::Input;
    result.parameters.push_back({name, false});
  }
  return result;
}

/// Leaves out tensors, scalars and parameters that no statement touches.
void drop_unused(Program& program) {
  std::set<std::string> used;
  for (const Statement& statement : program.statements) {
    used.insert(statement.tensor);
    for (const Call* read : reads_of(statement)) used.insert(read_name(read));
  }
  auto drop = [&](auto& named) {
    for (auto entry = named.begin(); entry != named.end();)
      entry = used.count(entry->first) ? std::next(entry) : named.erase(entry);
  };
  drop(program.tensors);
  drop(program.scalars);
  auto unused = [&](const Parameter& parameter) { return used.count(parameter.name) == 0; };
  program.parameters.erase(
      std::remove_if(program.parameters.begin(), program.parameters.end(), unused),
      program.parameters.end());
}

/// The two statements that find a check's first failure.
void add_search(Program& program, const Program& given, const IndexCheck& check, size_t number) {
  const Type wide = Halide::Int(64);
  const Expr none = make_const(wide, std::numeric_limits<int64_t>::max());
  const OpenAccess& access = check.access;
  const Expr index = make_safe(given, access.statement, index_of(given, check));
  const Expr bad = under(safe_conditions(given, access),
                         !is_inside(index, Expr(static_cast<int32_t>(check.size))));
  const std::string name = concat("check.", number);
  const Expr at =
      add_result(program, name + ".at", select(bad, position_in(check.domain, wide), none), check,
                 Reduction::Min);
  std::map<std::string, Expr> values;
  Expr rest = at;
  for (size_t d = check.domain.size(); d-- > 0;) {
    const Iterator& it = check.domain[d];
    Expr extent = Halide::cast(wide, max(it.extent, 1));
    values[it.name] = it.min + Halide::cast<int32_t>(rest % extent);
    rest = rest / extent;
  }
  add_result(
      program, name + ".index",
      choose_lazily(at < none, Halide::cast(wide, substitute(values, index)), make_zero(wide)),
      check);
}

/// Puts checked_index in front of the subscripts of chosen checks of one statement.
class CheckSubscripts : public IRMutator {
 public:
  CheckSubscripts(const Program& program, const std::vector<IndexCheck>& checks,
                  const std::set<size_t>& chosen, size_t statement, bool positions)
      : program_(program), checks_(checks), positions_(positions) {
    const Statement& source = program.statements[statement];
    if (source.guard.defined()) conditions_.push_back(source.guard);
    for (size_t c : chosen)
      if (checks[c].access.statement == statement && checks[c].access.read.defined())
        open_[checks[c].access.read].push_back(c);
  }

  /// The subscript, and in `inside` whether it is.
  Expr check(const Expr& subscript, size_t number, Expr& inside) {
    const IndexCheck& check = checks_[number];
    const Expr size = static_cast<int32_t>(check.size);
    const Expr index =
        exact_index(program_, program_.statements[check.access.statement], subscript, size);
    inside = is_inside(index, size);
    return checked_index(
        index, size, static_cast<int>(number),
        positions_ ? position_in(check.domain, Halide::Int(64)) : make_zero(Halide::Int(64)));
  }

 private:
  using IRMutator::visit;

  Expr visit(const Call* op) override {
    if (find_choice(op)) return choose(op, choose_lazily);
    auto found = open_.find(op);
    Expr result = IRMutator::visit(op);
    if (found == open_.end()) return result;
    std::vector<Expr> subscripts = result.as<Call>()->args;
    const Tensor& tensor = program_.tensor(read_name(op));
    for (size_t number : found->second) {
      if (!is_reached(checks_[number].access)) continue;
      Expr inside, &subscript = subscripts[checks_[number].access.dimension];
      subscript = check(subscript, number, inside);
      // There is nothing that could be read instead; what the call returns is not known to
      // simplifiers, so that it stays.
      if (checks_[number].size == 0)
        return choose_lazily(subscript >= 0, make_zero(op->type), make_one(op->type));
    }
    return read(tensor, subscripts);
  }

  /// Each side is under its condition.
  template <class Make>
  Expr choose(const Expr& choice, Make make) {
    const auto [condition, yes, no] = *find_choice(choice);
    const Expr decides = mutate(condition);
    conditions_.push_back(condition);
    const Expr first = mutate(yes);
    conditions_.back() = !condition;
    const Expr second = mutate(no);
    conditions_.pop_back();
    return make(decides, first, second);
  }
  Expr visit(const Select* op) override { return choose(op, Select::make); }

  /// Whether the access that is listed is the visited one, or one under weaker conditions: of an
  /// access there is no second one that is both (see lang::check_accesses).
  bool is_reached(const OpenAccess& access) const {
    return access.conditions.size() <= conditions_.size() &&
           std::equal(access.conditions.begin(), access.conditions.end(), conditions_.begin(),
                      [](const Expr& a, const Expr& b) { return equal(a, b); });
  }

  const Program& program_;
  const std::vector<IndexCheck>& checks_;
  const bool positions_;
  std::map<Expr, std::vector<size_t>, IRDeepCompare> open_;
  std::vector<Expr> conditions_;  ///< as the text has them
};

}  // namespace

std::vector<IndexCheck> list_index_checks(const Program& program) {
  std::vector<IndexCheck> checks;
  for (const OpenAccess& access : program.open_accesses) {
    const Statement& statement = program.statements[access.statement];
    const Expr& subscript = subscript_of(program, access);
    IndexCheck check;
    check.access = access;
    check.tensor = access.read.defined() ? read_name(access.read.as<Call>()) : statement.tensor;
    const Tensor& tensor = program.tensor(check.tensor);
    std::vector<Expr> subscripts =
        access.read.defined() ? access.read.as<Call>()->args : statement.subscripts;
    for (Expr& each : subscripts) each = whole_index(each);
    check.text = plain_text(read(tensor, subscripts));
    check.size = constant(tensor.sizes[access.dimension]);
    check.is_unsigned = index_of(program, check).type().is_uint();
    check.by_data = has_data(subscript) ||
                    std::any_of(access.conditions.begin(), access.conditions.end(), has_data);
    check.where = statement.where;
    for (const Iterator& it : statement.domain) {
      auto uses = [&](const Expr& e) { return expr_uses_var(e, it.name); };
      if (uses(subscript) || std::any_of(access.conditions.begin(), access.conditions.end(), uses))
        check.domain.push_back(it);
    }
    checks.push_back(check);
  }
  return checks;
}

std::optional<EntryCheck> check_at_entry(const Program& program,
                                         const std::vector<IndexCheck>& checks, size_t number) {
  const IndexCheck& check = checks[number];
  const size_t statement = check.access.statement;
  auto index =
      at_entry(program, statement, make_safe(program, statement, index_of(program, check)));
  if (!index) return std::nullopt;
  std::vector<Expr> conditions;
  for (const Expr& condition : safe_conditions(program, check.access)) {
    auto known = at_entry(program, statement, condition);
    if (!known) return std::nullopt;
    conditions.push_back(*known);
  }
  EntryCheck entry;
  entry.check = number;
  const Expr size = static_cast<int32_t>(check.size);
  entry.bad = under(conditions, !is_inside(*index, size));
  if (conditions.empty()) entry.range = find_range(program, check, *index);
  return entry;
}

Program detect_bad_indices(const Program& program, const std::vector<IndexCheck>& checks,
                           const std::vector<EntryCheck>& entries) {
  Program result = only_inputs(program);
  for (const EntryCheck& entry : entries) {
    add_result(result, concat("bad.", entry.check), select(entry.bad, 1, 0), checks[entry.check],
               Reduction::Max);
  }
  drop_unused(result);
  number_statements(result);
  return result;
}

LocateProgram locate_bad_indices(const Program& program, const std::vector<IndexCheck>& checks) {
  // Backwards: which statements compute what the checks read.
  std::vector<bool> needed(program.statements.size());
  std::set<std::string> tensors;
  auto need = [&](const Expr& e) {
    for (const std::string& name : names_read(e)) tensors.insert(name);
  };
  for (size_t s = program.statements.size(); s-- > 0;) {
    const Statement& statement = program.statements[s];
    needed[s] = tensors.count(statement.tensor) > 0;
    if (needed[s]) for_each_expression(statement, need);
    for (size_t c = 0; c < checks.size(); ++c) {
      const OpenAccess& access = checks[c].access;
      if (access.statement != s) continue;
      need(subscript_of(program, access));
      for (const Expr& condition : access.conditions) need(condition);
    }
  }
  // From the front: what results held at first is gone, and so is what was made of it.
  std::set<std::string> gone;
  for (const auto& [name, tensor] : program.tensors)
    if (tensor.role == TensorRole::InOut) gone.insert(name);
  auto is_known = [&](const Expr& e) {
    const std::set<std::string> names = names_read(e);
    return std::none_of(names.begin(), names.end(),
                        [&](const std::string& name) { return gone.count(name) > 0; });
  };
  LocateProgram located{only_inputs(program), {}};
  Program& result = located.program;
  for (auto& [name, tensor] : result.tensors)
    if (tensor.role == TensorRole::Output) tensor.role = TensorRole::Temporary;
  for (size_t s = 0; s < program.statements.size(); ++s) {
    for (size_t c = 0; c < checks.size(); ++c) {
      const OpenAccess& access = checks[c].access;
      if (access.statement == s && is_known(subscript_of(program, access)) &&
          std::all_of(access.conditions.begin(), access.conditions.end(), is_known)) {
        add_search(result, program, checks[c], c);
        located.checks.push_back(c);
      }
    }
    if (!needed[s]) continue;
    Statement safe = program.statements[s];
    bool known = gone.count(safe.tensor) == 0;
    for_each_expression(safe, [&](const Expr& e) { known = known && is_known(e); });
    if (!known) {
      gone.insert(safe.tensor);
      continue;
    }
    safe.value = make_safe(program, s, safe.value);
    if (is_scatter(safe)) {
      // Updates outside are left out.
      Expr inside = const_true();
      for (size_t d = 0; d < safe.subscripts.size(); ++d) {
        const Expr size = program.tensor(safe.tensor).sizes[d];
        safe.subscripts[d] = make_safe(program, s, safe.subscripts[d]);
        if (!safe.scattered[d]) continue;
        const Expr index = exact_index(program, safe, safe.subscripts[d], size);
        inside = inside && is_inside(index, size);
        safe.subscripts[d] = move_inside(index, size);
      }
      safe.value = select(inside, safe.value, identity(safe.reduction, safe.value.type()));
    }
    result.statements.push_back(safe);
  }
  drop_unused(result);
  number_statements(result);
  return located;
}

Program check_in_loops(const Program& program, const std::vector<IndexCheck>& checks,
                       const std::set<size_t>& chosen, bool positions) {
  Program result = program;
  result.open_accesses.clear();
  for (size_t s = 0; s < program.statements.size(); ++s) {
    CheckSubscripts mutator(program, checks, chosen, s, positions);
    Statement& statement = result.statements[s];
    statement.value = mutator.mutate(statement.value);
    for (Expr& subscript : statement.subscripts) subscript = mutator.mutate(subscript);
    for (size_t c : chosen) {
      const OpenAccess& access = checks[c].access;
      if (access.statement != s || access.read.defined()) continue;
      Expr inside, &place = statement.subscripts[access.dimension];
      place = mutator.check(place, c, inside);
      statement.value =
          select(inside, statement.value, identity(statement.reduction, statement.value.type()));
      if (checks[c].size == 0) {
        Expr never = place < 0;
        statement.guard = statement.guard.defined() ? statement.guard && never : never;
        place = 0;
      }
    }
  }
  return result;
}

}  // namespace tc::ir
