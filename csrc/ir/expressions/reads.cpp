#include "ir/expressions/reads.h"

#include <algorithm>

#include "ir/expressions/simplify.h"
#include "ir/visit.h"

namespace tc::ir {

namespace {

/// Calls `found` with every read in an expression.
template <class Found>
void for_each_read(const Expr& e, const Found& found) {
  for_each<Call>(e, [&](const Call* op) {
    if (!read_name(op).empty()) found(op);
  });
}

}  // namespace

bool has_data(const Expr& e) {
  return any<Call>(e, [](const Call* op) { return !read_name(op).empty(); });
}

int count_reads(const Expr& e) {
  int count = 0;
  for_each_read(e, [&](const Call*) { ++count; });
  return count;
}

std::set<std::string> variables_of(const Expr& e) {
  std::set<std::string> names;
  for_each<Variable>(e, [&](const Variable* op) { names.insert(op->name); });
  return names;
}

std::set<std::string> names_read(const Expr& e) {
  std::set<std::string> names;
  for_each_read(e, [&](const Call* op) { names.insert(read_name(op)); });
  return names;
}

std::vector<const Call*> reads_of(const Statement& statement) {
  std::vector<const Call*> reads;
  for_each_expression(statement, [&](const Expr& e) {
    for_each_read(e, [&](const Call* op) { reads.push_back(op); });
  });
  return reads;
}

bool reads(const Statement& statement, const std::string& name) {
  const std::vector<const Call*> all = reads_of(statement);
  return std::any_of(all.begin(), all.end(),
                     [&](const Call* read) { return read_name(read) == name; });
}

bool reads(const Expr& e, const std::string& name) { return names_read(e).count(name) > 0; }

bool add_up_together(const Statement& a, const Statement& b) {
  const auto adds = [](const Statement& s) {
    return is_scatter(s) && s.reduction == Reduction::Sum && !s.initializes && !s.atomic &&
           !reads(s, s.tensor);
  };
  return a.tensor == b.tensor && adds(a) && adds(b);
}

std::optional<CopiedRead> find_copied(const Statement& statement) {
  const auto* read = statement.value.as<Call>();
  if (!read || read_name(read).empty() || statement.reduction != Reduction::None ||
      statement.guard.defined() || is_scatter(statement) ||
      statement.domain.size() != statement.subscripts.size() ||
      read->args.size() != statement.subscripts.size())
    return std::nullopt;
  CopiedRead copied{read_name(read), {}};
  for (size_t d = 0; d < read->args.size(); ++d) {
    auto offset = as_const_int(simplify_integers(read->args[d] - statement.subscripts[d], {}));
    if (!offset) return std::nullopt;
    copied.offsets.push_back(*offset);
  }
  return copied;
}

}  // namespace tc::ir
