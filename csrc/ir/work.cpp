#include "ir/work.h"

#include <algorithm>
#include <cstdio>

#include "base/error.h"
#include "ir/operations.h"

namespace tc::ir {

namespace {

/// Points of the iterators that any of these expressions uses.
double count_values(const Statement& statement, const std::vector<Expr>& expressions) {
  double values = 1;
  for (const Iterator& iterator : statement.domain) {
    bool used = std::any_of(expressions.begin(), expressions.end(),
                            [&](const Expr& e) { return expr_uses_var(e, iterator.name); });
    if (used) values *= static_cast<double>(*as_const_int(iterator.extent));
  }
  return values;
}

/// Operations of a statement, and what it reads, each access once.
class Count {
 public:
  explicit Count(const Statement& statement) : statement_(statement) {}

  double floating_point = 0, integer = 0;
  std::map<std::string, double> functions;
  std::vector<const Call*> reads;

  /// Arithmetic of subscripts does not count, the tensors that they read do.
  void add(const Expr& e, bool subscript) {
    for_each_operation(e, [&](const Operation& operation) {
      const bool function = operation.kind == OperationKind::Function;
      if (operation.kind == OperationKind::Read) {
        add_read(static_cast<const Call*>(operation.node));
      } else if (!subscript && (function || operation.kind == OperationKind::Arithmetic)) {
        const double values = count_values(statement_, {Expr(operation.node)});
        add(operation.type, values);
        if (function && !is_cheap(operation.name)) functions[operation.name] += values;
      }
    });
  }

  void add(const Type& type, double times) {
    if (type.is_bool()) return;
    (type.is_float() ? floating_point : integer) += times;
  }

 private:
  void add_read(const Call* op) {
    if (std::none_of(reads.begin(), reads.end(),
                     [&](const Call* known) { return equal(Expr(known), Expr(op)); }))
      reads.push_back(op);
    for (const Expr& subscript : op->args) add(subscript, true);
  }

  const Statement& statement_;
};

/// At most so many different elements are accessed: no more than the iterators of an access have
/// points, and no more in a dimension than that has elements of its own.
double count_elements(const Statement& statement, const std::vector<Expr>& subscripts,
                      const Layout& layout) {
  double elements = 1;
  for (size_t d = 0; d < subscripts.size(); ++d)
    if (layout.strides[d] != 0)
      elements *=
          std::min(static_cast<double>(layout.sizes[d]), count_values(statement, {subscripts[d]}));
  return std::min(elements, count_values(statement, subscripts));
}

/// The same of what a statement writes: a scatter that starts afresh fills its scattered
/// dimensions.
double count_writes(const Statement& statement, const Layout& layout) {
  if (!is_scatter(statement) || !statement.initializes)
    return count_elements(statement, statement.subscripts, layout);
  std::vector<Expr> plain;
  double filled = 1;
  for (size_t d = 0; d < statement.subscripts.size(); ++d) {
    if (!statement.scattered[d])
      plain.push_back(statement.subscripts[d]);
    else if (layout.strides[d] != 0)
      filled *= static_cast<double>(layout.sizes[d]);
  }
  return filled * count_values(statement, plain);
}

double elements_in_memory(const Layout& layout) {
  double elements = 1;
  for (size_t d = 0; d < layout.sizes.size(); ++d)
    if (layout.strides[d] != 0) elements *= static_cast<double>(layout.sizes[d]);
  return elements;
}

using Figures = std::vector<std::pair<std::string, double>>;

std::string list(const Figures& figures, std::string (*text)(double)) {
  std::vector<std::string> parts;
  for (const auto& [name, figure] : figures) parts.push_back(name + " " + text(figure));
  return parts.empty() ? "nothing" : join(parts);
}

}  // namespace

double Work::bytes() const {
  double sum = 0;
  for (const auto* tensors : {&reads, &writes})
    for (const auto& [name, bytes] : *tensors) sum += bytes;
  return sum;
}

Work count_work(const Program& program, const Layouts& layouts) {
  Work work;
  std::map<std::string, double> reads, writes;
  for (const Statement& statement : program.statements) {
    double points = 1;
    for (const Iterator& iterator : statement.domain)
      points *= static_cast<double>(*as_const_int(iterator.extent));
    if (points == 0) continue;
    Count count(statement);
    count.add(statement.value, false);
    for (const Expr& subscript : statement.subscripts) count.add(subscript, true);
    if (statement.guard.defined()) count.add(statement.guard, false);
    if (statement.reduction != Reduction::None)
      count.add(program.tensor(statement.tensor).type, points);
    work.floating_point += count.floating_point;
    work.integer += count.integer;
    for (const auto& [name, calls] : count.functions) work.functions[name] += calls;
    for (const Call* read : count.reads) {
      const std::string name = read_name(read);
      if (layouts.count(name))
        reads[name] += count_elements(statement, read->args, layouts.at(name));
    }
    if (layouts.count(statement.tensor))
      writes[statement.tensor] += count_writes(statement, layouts.at(statement.tensor));
  }
  auto add = [&](const std::string& name, double accessed, Figures& tensors) {
    double elements = std::min(accessed, elements_in_memory(layouts.at(name)));
    tensors.emplace_back(name, elements * program.tensor(name).type.bytes());
  };
  for (const Parameter& parameter : program.parameters)
    if (!parameter.scalar && reads.count(parameter.name))
      add(parameter.name, reads[parameter.name], work.reads);
  for (const std::string& name : program.outputs) {
    if (program.tensor(name).role == TensorRole::InOut) add(name, writes[name], work.reads);
    add(name, writes[name], work.writes);
  }
  return work;
}

Notes describe(const Work& work) {
  std::vector<std::string> operations;
  if (work.floating_point > 0)
    operations.push_back(count_text(work.floating_point) + " floating-point operations");
  if (work.integer > 0) operations.push_back(count_text(work.integer) + " integer operations");
  Notes notes = {{"work", operations.empty() ? "no arithmetic" : join(operations, " and ")}};
  Figures functions(work.functions.begin(), work.functions.end());
  // Most calls first.
  std::stable_sort(functions.begin(), functions.end(),
                   [](const auto& a, const auto& b) { return a.second > b.second; });
  if (!functions.empty()) notes.push_back({"functions", "calls of " + list(functions, count_text)});
  notes.push_back(
      {"traffic",
       concat(bytes_text(work.bytes()), " if every element travels once: reads ",
              list(work.reads, bytes_text), "; writes ", list(work.writes, bytes_text))});
  if (work.bytes() > 0 && !operations.empty()) {
    char ratio[64];
    std::snprintf(ratio, sizeof ratio, "%.3g operations a byte",
                  (work.floating_point + work.integer) / work.bytes());
    notes.push_back({"balance", ratio});
  }
  return notes;
}

}  // namespace tc::ir
