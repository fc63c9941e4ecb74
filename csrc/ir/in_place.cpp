#include "ir/in_place.h"

#include <optional>

#include "base/error.h"
#include "base/notes.h"
#include "ir/expressions/reads.h"

namespace tc::ir {

namespace {

/// A dimension in which a read lies at a constant distance from where it is used.
struct Neighbour {
  size_t dimension;
  int sign;    ///< of the distance
  bool alone;  ///< whether it lies at the same place in the others
};

std::optional<Neighbour> find_neighbour(const Statement& statement) {
  std::optional<Neighbour> best;
  if (is_scatter(statement)) return best;
  for (const Call* read : reads_of(statement)) {
    if (read_name(read) != statement.tensor) continue;
    std::optional<Neighbour> found;
    size_t equal = 0;
    for (size_t d = 0; d < read->args.size(); ++d) {
      Expr distance = simplify(read->args[d] - statement.subscripts[d]);
      auto value = as_const_int(distance);
      equal += value && *value == 0;
      if (value && *value != 0 && !found) found = Neighbour{d, *value < 0 ? -1 : 1, false};
    }
    if (!found) continue;
    found->alone = equal + 1 == read->args.size();
    if (!best || (found->alone && !best->alone)) best = found;
  }
  return best;
}

/// What a dimension of the left-hand side is counted by; null where it is one place.
const Iterator* index_of(const Statement& statement, size_t dimension) {
  for (const Iterator& iterator : statement.domain)
    if (expr_uses_var(statement.subscripts[dimension], iterator.name)) return &iterator;
  return nullptr;
}

/// S(n, i) +=! j <= i ? A(n, j) : 0 where i in 0:N
std::string scan_of(const Statement& statement, const Neighbour& neighbour) {
  const Iterator& along = *index_of(statement, neighbour.dimension);
  const std::string term = unused_index(statement, along.name == "j" ? "k" : "j");
  std::vector<std::string> left, right;
  for (size_t d = 0; d < statement.subscripts.size(); ++d) {
    const Iterator* index = index_of(statement, d);
    left.push_back(index ? index->name : "0");
    right.push_back(d == neighbour.dimension ? term : left.back());
  }
  return concat(statement.tensor, "(", join(left), ") +=! ", term,
                neighbour.sign < 0 ? " <= " : " >= ", along.name, " ? A(", join(right),
                ") : 0 where ", along.name,
                " in 0:", plain_text(simplify(along.min + along.extent)));
}

}  // namespace

std::string in_place_message(const Statement& statement) {
  const bool reduces = statement.reduction != Reduction::None;
  const std::string message = concat(
      "this statement reads ", statement.tensor,
      " in place, at elements that other iterations of it write, so its right-hand side cannot be "
      "read before its left-hand side is written",
      reduces ? " (the accumulation changes what later terms would read)" : "", ". ");
  const std::optional<Neighbour> neighbour = find_neighbour(statement);
  if (!neighbour || !index_of(statement, neighbour->dimension))
    return message + "Write to a tensor of another name and use that one afterwards.";
  std::string instead;
  if (neighbour->alone)
    instead = concat(
        "Where each result is its neighbour and a term more, sum all terms up to it, "
        "which is compiled to one step a result: ",
        scan_of(statement, *neighbour), ". Otherwise define");
  return concat(message, instead.empty() ? "Define" : instead,
                " one step of the recurrence and call it in a loop on the host. To read what was "
                "there before, write to a tensor of another name.");
}

}  // namespace tc::ir
