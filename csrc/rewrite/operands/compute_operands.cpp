#include "rewrite/operands/compute_operands.h"

#include <algorithm>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "ir/expressions/choices.h"
#include "ir/expressions/reads.h"
#include "ir/expressions/simplify.h"
#include "ir/expressions/walk.h"
#include "ir/operations.h"
#include "ir/scan.h"
#include "ir/visit.h"
#include "machine/limits.h"
#include "machine/operation_costs.h"
#include "rewrite/algebra/inner_sums.h"
#include "rewrite/domains/inside.h"
#include "rewrite/operands/computed_places.h"
#include "rewrite/operands/subscript_sums.h"
#include "rewrite/program_pass.h"

namespace tc::ir {
namespace {

/// Indices that a value is made of, beside those that say which elements it reads.
std::set<std::string> find_values(const Expr& e) {
  std::set<std::string> found;
  visit(
      e, [&](const Variable* op, Visitor&) { found.insert(op->name); },
      [](const Call* op, Visitor& self) {
        if (read_name(op).empty()) self.inside(op);
      });
  return found;
}

bool is_choice_by_indices(const Expr& e) {
  const std::optional<Choice> choice = find_choice(e);
  return choice && !has_data(choice->condition);
}

/// Whether a read clamps a sum of indices: x(b, min(max(t + k - 3, 0), T - 1)).
bool is_clamped(const Halide::Internal::BaseExprNode* read) {
  const auto* call = Expr(read).as<Call>();
  if (!call || read_name(call).empty()) return false;
  return std::any_of(call->args.begin(), call->args.end(), [](const Expr& subscript) {
    return (any<Min>(subscript) || any<Max>(subscript)) && !has_data(subscript) &&
           variables_of(subscript).size() > 1;
  });
}

/// Whether indices decide what is read, or whether anything is: what is written out holds that.
bool is_padded(const Expr& e) { return is_choice_by_indices(e) || is_clamped(e.get()); }

class ComputeOperands : public ProgramPass {
 public:
  using ProgramPass::ProgramPass;

  /// Replaces operands that every point of the statement has, the largest first.
  std::vector<Statement> rewrite(Statement& statement) {
    if (is_scatter(statement) || statement.guard.defined()) return {};
    std::vector<Statement> statements;
    if (std::optional<ScanTerm> scan = find_scan(statement.value)) {
      scan->term = replace_operands(statement, scan->term, statements);
      // The first step has no scale.
      if (Expr& scale = scan->scan.scale; scale.defined())
        scale = replace_operands(statement, scale, statements, true);
      statement.value = make_scan(scan->scan, scan->term);
      return statements;
    }
    bring_factors_together(statement);
    statement.value = replace_operands(statement, statement.value, statements);
    // Of a sum that leaves out terms by their indices those that count have operands too.
    const std::optional<Choice> terms = find_choice(statement.value);
    if (!terms || statement.reduction != Reduction::Sum || has_data(terms->condition) ||
        !equal(terms->no, identity(statement.reduction, terms->no.type())))
      return statements;
    const Expr yes = replace_operands(statement, terms->yes, statements, true);
    if (!yes.same_as(terms->yes))
      statement.value = statement.value.as<Select>()
                            ? Select::make(terms->condition, yes, terms->no)
                            : choose_lazily(terms->condition, yes, terms->no);
    return statements;
  }

 private:
  /// `leaves_out`: the value is of some terms only.
  Expr replace_operands(const Statement& statement, const Expr& value,
                        std::vector<Statement>& statements, bool leaves_out = false) {
    std::vector<std::pair<Expr, Expr>> done;
    std::set<const IRNode*> seen;
    return ir::rewrite(value, [&](const Expr& e) {
      if (e.type().is_bool()) return e;  // what && and || guard
      for (const auto& [before, after] : done)
        if (equal(before, e)) return after;
      // Parts that several have in common come again.
      if (seen.insert(e.get()).second) {
        Expr written;
        if (const std::optional<Operand> operand = find(statement, e, leaves_out))
          written = write_out(statement, e, *operand, statements);
        else if (!leaves_out)  // places of other terms may be bad, or made of what is outside
          written = tabulate(statement, e, statements);
        if (written.defined()) {
          done.emplace_back(e, written);
          return written;
        }
      }
      // Sides of a choice, like what subscripts read, are for some points only.
      const auto* call = e.as<Call>();
      return find_choice(e) || (call && !read_name(call).empty()) ? e : Expr();
    });
  }

  /// What reads a value through tables of its computed places; undefined where these do not pay.
  Expr tabulate(const Statement& statement, const Expr& e, std::vector<Statement>& statements) {
    const std::optional<ComputedPlace> found =
        find_computed_place(e, program_, layouts_, statement.domain);
    if (!found) return Expr();
    const std::optional<Operand> place = find(statement, found->place, false, true);
    if (!place) return Expr();
    const std::string name = read_name(found->read);
    const auto write = [&](const std::string& suffix, const Expr& value, const char* meaning) {
      Operand operand{name, place->sums, {}, value};
      make_value(statement, operand);
      return write_out(statement, suffix, concat(meaning, name), operand, statements);
    };
    const Expr places = write(".places", found->place, "places in ");
    return found->read_through(program_.tensor(name), places,
                               found->inside.defined()
                                   ? write(".inside", found->inside, "which places are inside of ")
                                   : Expr());
  }

  /// Whether neighbours along a reduction are read apart from each other, as scale(k / 32) is by
  /// the vectors that w(k) is read in.
  bool is_uneven(const Halide::Internal::BaseExprNode* read, const Statement& statement) const {
    std::set<std::string> divided;
    for (const Expr& subscript : Expr(read).as<Call>()->args)
      if ((any<Div>(subscript) || any<Mod>(subscript)) && !has_data(subscript))
        divided.merge(variables_of(subscript));
    if (divided.empty()) return false;
    const std::vector<MemoryAccess> all = accesses(program_, statement);
    return std::any_of(statement.domain.begin(), statement.domain.end(), [&](const Iterator& it) {
      return it.reduction && divided.count(it.name) &&
             std::any_of(all.begin(), all.end(),
                         [&](const auto& access) { return stride(access, it) == 1; });
    });
  }

  /// Cycles, a vector, that a value shows beyond the one read that would stand for it.
  double count_cycles(const Expr& value, const Statement& statement) const {
    const auto shown = [](const std::string& name) {
      return machine::shown_cycles(machine::operation_cost(name));
    };
    bool uneven = false;
    double cycles = -shown("+"), converted = 0;
    for_each_operation(value, [&](const Operation& operation) {
      if (operation.kind == OperationKind::Read) {
        cycles += shown("+") + (is_clamped(operation.node) ? shown("clamp") : 0);
        uneven = uneven || is_uneven(operation.node, statement);
      } else if (operation.kind == OperationKind::Conversion && !operation.of_indices) {
        cycles += shown(operation.name);
        converted += machine::operation_cost(operation.name).cycles;
      } else if (!operation.of_indices) {
        // What conditions of indices cost is in the choice.
        cycles += shown(operation.name);
      }
    });
    // Vectors are those of other indices then, so that numbers are converted one by one.
    return uneven ? cycles + machine::kCostedLanes * converted : cycles;
  }

  /// Whether what is computed once for each element, of so many cycles a vector, costs less than at
  /// each of the points.
  bool pays(int64_t points, int64_t elements, double cycles) const {
    const double once = static_cast<double>(elements) * machine_.written_element_cycles +
                        machine_.task_cycles + machine_.loop_cycles;
    return static_cast<double>(points) * cycles / machine::kCostedLanes >=
           machine_.least_part() * once;
  }

  /// The temporary of an operand: an index for every sum, of which it is a function.
  struct Operand {
    std::string first;  ///< tensor that it reads
    std::vector<Sum> sums;
    std::vector<Iterator> domain;
    Expr value;
  };

  /// Nothing where a temporary is not possible or does not pay. `is_place`: it is where something
  /// is read.
  std::optional<Operand> find(const Statement& statement, const Expr& e, bool leaves_out = false,
                              bool is_place = false) const {
    const bool padded = !is_place && is_padded(e);
    const bool reduces = statement.reduction != Reduction::None;
    if (padded ? !reduces : !is_place && !e.type().is_float()) return std::nullopt;
    const auto* call = e.as<Call>();
    if (!padded && call && !read_name(call).empty()) return std::nullopt;
    const double cycles = count_cycles(e, statement);
    if (cycles <= 0) return std::nullopt;
    const bool has_functions = count_functions(e) > 0;
    // Elements of terms that do not count are computed as well, and half of all uses are none.
    if (leaves_out &&
        (padded || !has_functions || rewrite::reads_outside(e, program_, statement.domain)))
      return std::nullopt;
    SubscriptSums found = find_sums(e, statement.domain);
    if (!reduces || has_functions) add_values(e, statement, found);
    if (!found.known || found.sums.empty() || found.tensors.count(statement.tensor) ||
        (!reduces && !moves_along_rows(found, statement)))
      return std::nullopt;
    int64_t points = 1, elements = 1;
    for (const Sum& sum : found.sums) elements *= sum.count;
    for (const Iterator& it : statement.domain) {
      points *= extent_of(it);
      if (std::count_if(found.sums.begin(), found.sums.end(),
                        [&](const Sum& sum) { return sum.moved_by(it); }) > 1)
        return std::nullopt;
    }
    const bool rows = lies_along_results(statement, found.tensors) || is_clamped(e.get());
    const int64_t uses = rows ? machine::kComputedRowUses : machine::kComputedUses;
    if (elements == 0 || points / elements < machine_.least(uses) ||
        !pays(points, elements, cycles) ||
        elements * e.type().bytes() > most_bytes(statement, e.type()))
      return std::nullopt;
    Operand operand{found.first.empty() ? statement.tensor : found.first, found.sums, {}, e};
    make_value(statement, operand);
    // What is left are indices of conditions and values that no subscript has.
    std::set<std::string> names = variables_of(operand.value);
    for (const Iterator& it : operand.domain) names.erase(it.name);
    if (!names.empty()) return std::nullopt;
    return operand;
  }

  /// Indices that count as values, as s of cos(s * f(d)). The uses that pay are those of
  /// reductions.
  static void add_values(const Expr& e, const Statement& statement, SubscriptSums& found) {
    const std::set<std::string> values = find_values(e);
    const size_t read = found.sums.size();
    for (const Iterator& it : statement.domain) {
      const bool known = std::any_of(found.sums.begin(), found.sums.end(),
                                     [&](const Sum& sum) { return sum.moved_by(it); });
      if (!values.count(it.name) || known || extent_of(it) == 1) continue;
      found.sums.push_back({{{it, 1}}, 0, extent_of(it)});
    }
    // Neighbours in what is read stay neighbours; else those in the result are, in the temporary.
    if (statement.reduction != Reduction::None && found.sums.size() == read) return;
    auto place = [&](const Sum& sum) {
      return std::find_if(statement.domain.begin(), statement.domain.end(),
                          [&](const Iterator& it) { return sum.moved_by(it); });
    };
    std::stable_sort(found.sums.begin(), found.sums.end(),
                     [&](const Sum& x, const Sum& y) { return place(x) < place(y); });
  }

  /// Whether an operand differs from one element of a result to its neighbour: other ones are
  /// computed outside of the loop over a row anyway.
  bool moves_along_rows(const SubscriptSums& found, const Statement& statement) const {
    const MemoryAccess write = accesses(program_, statement).back();
    return std::any_of(statement.domain.begin(), statement.domain.end(), [&](const Iterator& it) {
      return stride(write, it) == 1 &&
             std::any_of(found.sums.begin(), found.sums.end(),
                         [&](const Sum& sum) { return sum.moved_by(it); });
    });
  }

  bool lies_along_results(const Statement& statement, const std::set<std::string>& tensors) const {
    for (const MemoryAccess& access : accesses(program_, statement))
      for (const Iterator& it : statement.domain)
        if (!access.write && !it.reduction && extent_of(it) > 1 && tensors.count(access.tensor) &&
            stride(access, it) == 1)
          return true;
    return false;
  }

  /// As long as caches keep it, narrow numbers count like those that are computed of them.
  int64_t most_bytes(const Statement& statement, Type type) const {
    int64_t bytes = 0, elements = 0;
    for (const MemoryAccess& access : accesses(program_, statement)) {
      const Layout& layout = layouts_.at(access.tensor);
      bytes = std::max(bytes, dense_bytes(program_.tensor(access.tensor), layout));
      elements = std::max(elements, count_allocated(layout));
    }
    const int64_t kept =
        std::min(elements * type.bytes(), machine_.last_cache_share / machine::kTemporaryGrowth);
    return std::max(machine::kTemporaryGrowth * std::max(bytes, kept), 2 * machine_.cache_bytes);
  }

  /// The indices of the temporary, and the value over them.
  static void make_value(const Statement& statement, Operand& operand) {
    for (const Sum& sum : operand.sums) {
      Iterator it = sum.terms[0].first;
      const std::string pivot = it.name;
      it.name = sum.index_name(statement);
      it.min = 0;
      it.extent = static_cast<int>(sum.count);
      it.reduction = false;
      if (sum.terms.size() > 1) it.meaning = plain_text(sum.value());
      operand.value = substitute(pivot, sum.first_index(it.name), operand.value);
      operand.domain.push_back(it);
    }
    for (const Iterator& it : statement.domain)
      if (extent_of(it) == 1) operand.value = substitute(it.name, it.min, operand.value);
    operand.value = simplify_integers(operand.value, {});
  }

  /// Adds the statement that writes an operand, and returns what reads it.
  Expr write_out(const Statement& statement, const Expr& e, const Operand& operand,
                 std::vector<Statement>& statements) {
    std::string meaning;
    if (is_choice_by_indices(e)) meaning = operand.first + " with what its conditions say";
    if (is_clamped(e.get())) meaning = operand.first + " with its edges repeated";
    return write_out(statement, is_padded(e) ? ".padded" : ".computed", meaning, operand,
                     statements);
  }

  Expr write_out(const Statement& statement, const std::string& suffix, const std::string& meaning,
                 const Operand& operand, std::vector<Statement>& statements) {
    std::vector<Expr> subscripts;
    for (const Sum& sum : operand.sums)
      subscripts.push_back(simplify(sum.value() - static_cast<int>(sum.first)));
    for (const Written& other : written_)
      if (other.has(operand)) return read(program_.tensor(other.tensor), subscripts);
    Statement made = make_temporary(operand.first + suffix, operand.value, operand.domain,
                                    statement.where, meaning);
    if (is_of_inputs(operand.value)) written_.push_back({made.tensor, made.domain, made.value});
    const Tensor& written = program_.tensor(made.tensor);
    statements.push_back(std::move(made));
    return read(written, subscripts);
  }

  /// A temporary that holds the same for all statements behind the one it was made for.
  struct Written {
    std::string tensor;
    std::vector<Iterator> domain;
    Expr value;

    bool has(const Operand& operand) const {
      return equal(value, operand.value) &&
             std::equal(domain.begin(), domain.end(), operand.domain.begin(), operand.domain.end(),
                        [](const Iterator& a, const Iterator& b) {
                          return a.name == b.name && have_same_range(a, b);
                        });
    }
  };

  bool is_of_inputs(const Expr& value) const {
    const std::set<std::string> names = names_read(value);
    return std::all_of(names.begin(), names.end(), [&](const std::string& name) {
      const auto tensor = program_.tensors.find(name);
      return tensor == program_.tensors.end() || tensor->second.role == TensorRole::Input;
    });
  }

  /// Multiplies a factor with one that has all its indices and more, where the product is an
  /// operand to be written out.
  void bring_factors_together(Statement& statement) const {
    if (!is_plain_sum(statement, program_)) return;
    std::vector<Factor> factors = factors_of(statement);
    const auto cost = [&](const Factor& factor, const Factor& into) {
      const bool writes = factors.size() > 2 && find(statement, multiply(into.value, factor));
      return writes ? points_of(statement.domain, into.indices) : -1.0;
    };
    if (join_factors(factors, cost)) statement.value = product_of(factors);
  }

  std::vector<Written> written_;
};

}  // namespace

void compute_operands(Program& program, Layouts& layouts, const CpuMachine& machine) {
  ComputeOperands pass(program, layouts, machine);
  put_in_front(program, [&](Statement& statement) { return pass.rewrite(statement); });
}

}  // namespace tc::ir
