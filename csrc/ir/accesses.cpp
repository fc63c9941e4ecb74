#include "ir/accesses.h"

#include <algorithm>
#include <cstdlib>
#include <map>
#include <set>

#include "base/memory.h"
#include "ir/expressions/choices.h"
#include "ir/expressions/integer_value.h"
#include "ir/expressions/reads.h"
#include "ir/loops.h"
#include "ir/scan.h"
#include "ir/visit.h"

namespace tc::ir {

namespace {

// Of a choice, pairs of a read of one side and one of the other that are compared, whenever
// accesses are asked for.
constexpr size_t kMostCompared = 256;

/// Adds the reads of tensors in an expression.
void add_reads(const Expr& e, const Program& program, bool conditional,
               std::vector<MemoryAccess>& found) {
  const auto choose = [&](const Choice& choice) {
    add_reads(choice.condition, program, conditional, found);
    std::vector<MemoryAccess> yes, no;
    add_reads(choice.yes, program, conditional, yes);
    add_reads(choice.no, program, conditional, no);
    // What both sides read is read in any case. In long choices that is not looked for.
    const bool compares = yes.size() * no.size() <= kMostCompared;
    const auto add = [&](const std::vector<MemoryAccess>& side,
                         const std::vector<MemoryAccess>& other) {
      for (MemoryAccess read : side) {
        read.conditional |=
            !compares || std::none_of(other.begin(), other.end(), [&](const MemoryAccess& each) {
              return !each.conditional && same_element(each, read);
            });
        found.push_back(std::move(read));
      }
    };
    add(yes, no);
    add(no, yes);
  };
  visit(
      e, [&](const Select* op, Visitor&) { choose(*find_choice(op)); },
      [&](const Call* op, Visitor& self) {
        if (const auto scan = find_scan(op))
          return add_reads(scan_value(scan->scan, scan->term), program, conditional, found);
        if (const auto choice = find_choice(op)) return choose(*choice);
        self.inside(op);
        const std::string name = read_name(op);
        if (program.tensors.count(name)) found.push_back({name, op->args, false, conditional});
      });
}

}  // namespace

std::vector<MemoryAccess> accesses(const Program& program, const Statement& statement) {
  const bool guarded = statement.guard.defined();
  std::vector<MemoryAccess> found;
  add_reads(statement.value, program, guarded, found);
  if (guarded) add_reads(statement.guard, program, false, found);
  for (const Expr& subscript : statement.subscripts) add_reads(subscript, program, guarded, found);
  found.push_back({statement.tensor, statement.subscripts, true, false});
  return found;
}

bool same_element(const MemoryAccess& a, const MemoryAccess& b) {
  return a.tensor == b.tensor &&
         std::equal(a.subscripts.begin(), a.subscripts.end(), b.subscripts.begin(),
                    b.subscripts.end(), [](const Expr& x, const Expr& y) { return equal(x, y); });
}

bool in_one_window(const MemoryAccess& a, const MemoryAccess& b, const Layout& layout,
                   const std::vector<Iterator>& domain, int64_t window) {
  if (a.tensor != b.tensor) return false;
  std::map<std::string, int64_t> origin;
  for (const Iterator& iterator : domain) origin[iterator.name] = 0;
  int64_t place_a = 0, place_b = 0;
  for (size_t d = 0; d < a.subscripts.size(); ++d) {
    for (const auto& [name, zero] : origin) {
      const auto step = step_along(a.subscripts[d], name);
      if (!step || step != step_along(b.subscripts[d], name)) return false;
    }
    const auto at_a = integer_value(a.subscripts[d], origin);
    const auto at_b = integer_value(b.subscripts[d], origin);
    if (!at_a || !at_b) return false;
    place_a += *at_a * layout.strides[d];
    place_b += *at_b * layout.strides[d];
  }
  return Halide::Internal::div_imp(place_a, window) == Halide::Internal::div_imp(place_b, window);
}

std::string access_text(const MemoryAccess& access) {
  return access.tensor + list_text(access.subscripts);
}

bool is_gather(const MemoryAccess& access, const Program& program) {
  std::vector<MemoryAccess> places;
  for (const Expr& subscript : access.subscripts) add_reads(subscript, program, false, places);
  return !places.empty();
}

bool reaches_far(const std::string& tensor, const Program& program, const Layouts& layouts,
                 int64_t near_bytes) {
  const Layout& layout = layouts.at(tensor);
  const int64_t bytes = program.tensor(tensor).type.bytes();
  const auto is_far = [&](const MemoryAccess& access, const Statement& statement) {
    int64_t span = bytes;
    std::set<std::string> moving;
    for (size_t d = 0; d < access.subscripts.size(); ++d) {
      const std::set<std::string> variables = variables_of(access.subscripts[d]);
      const bool by_data = has_data(access.subscripts[d]);
      if (by_data) moving.insert(variables.begin(), variables.end());
      // At a constant begins what a place in another dimension counts through.
      if (by_data || variables.empty())
        span += std::abs(layout.strides[d]) * (layout.sizes[d] - 1) * bytes;
    }
    int64_t points = 1;
    for (const Iterator& it : statement.domain)
      if (moving.count(it.name)) points *= extent_of(it);
    return span > near_bytes || points * kLineBytes < span;
  };
  return std::any_of(
      program.statements.begin(), program.statements.end(), [&](const Statement& statement) {
        const std::vector<MemoryAccess> all = accesses(program, statement);
        return std::any_of(all.begin(), all.end(), [&](const MemoryAccess& access) {
          return access.tensor == tensor && is_gather(access, program) && is_far(access, statement);
        });
      });
}

std::optional<int64_t> stride_along(const MemoryAccess& access, const Layout& layout,
                                    const std::string& iterator) {
  int64_t stride = 0;
  for (size_t d = 0; d < access.subscripts.size(); ++d) {
    auto step = step_along(access.subscripts[d], iterator);
    if (!step) return std::nullopt;
    stride += *step * layout.strides[d];
  }
  return stride;
}

}  // namespace tc::ir
