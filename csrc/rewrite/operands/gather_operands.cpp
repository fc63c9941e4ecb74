#include "rewrite/operands/gather_operands.h"

#include <algorithm>
#include <optional>
#include <vector>

#include "base/memory.h"
#include "ir/expressions/reads.h"
#include "machine/limits.h"
#include "rewrite/operands/offset_tables.h"
#include "rewrite/program_pass.h"

namespace tc::ir {

namespace {

bool moves(const Expr& e, const Iterator& it) { return expr_uses_var(e, it.name); }

/// Whether what moves a subscript is inside reads, so that nothing slides along what they say.
bool is_lookup(const Expr& subscript, const std::vector<Iterator>& domain) {
  if (const auto* add = subscript.as<Add>())
    return is_lookup(add->a, domain) && is_lookup(add->b, domain);
  if (const auto* sub = subscript.as<Sub>())
    return is_lookup(sub->a, domain) && is_lookup(sub->b, domain);
  if (const auto* mul = subscript.as<Mul>())
    return is_lookup(mul->a, domain) && is_lookup(mul->b, domain);
  if (const auto* cast = subscript.as<Cast>()) return is_lookup(cast->value, domain);
  if (const auto* call = subscript.as<Call>())
    if (!read_name(call).empty()) return true;
  return std::none_of(domain.begin(), domain.end(),
                      [&](const Iterator& it) { return moves(subscript, it); });
}

class GatherOperands : public ProgramPass {
 public:
  using ProgramPass::ProgramPass;

  /// Makes the statement read operands in order, and returns the statements that put them so.
  std::vector<Statement> rewrite(Statement& statement) {
    if (statement.reduction == Reduction::None || is_scatter(statement) ||
        statement.guard.defined())
      return {};
    std::vector<Statement> gathers;
    // What is read in order is no candidate any more, nor are equal reads.
    while (std::optional<MemoryAccess> access = find(statement)) {
      Statement gather = make_gather(statement, *access);
      Expr to = read(program_.tensor(gather.tensor), gather.subscripts);
      statement.value = substitute(gather.value, to, statement.value);
      for (Statement& table : make_offset_tables(program_, layouts_, machine_, gather))
        gathers.push_back(std::move(table));
      gathers.push_back(std::move(gather));
    }
    return gathers;
  }

 private:
  std::optional<MemoryAccess> find(const Statement& statement) const {
    for (const MemoryAccess& access : accesses(program_, statement))
      if (!access.write && !access.conditional && access.tensor != statement.tensor &&
          is_gather(access, program_) && pays(statement, access))
        return access;
    return std::nullopt;
  }

  bool pays(const Statement& statement, const MemoryAccess& access) const {
    const Layout& layout = layouts_.at(access.tensor);
    // Who looks up places: in the contiguous dimension or across it.
    bool result_in_row = false, reduction_in_row = false, reduction_across = false;
    bool rows_of_results = false;
    int64_t whole = 1;
    for (size_t d = 0; d < access.subscripts.size(); ++d) {
      const Expr& subscript = access.subscripts[d];
      const bool row = std::abs(layout.strides[d]) == 1, looks_up = count_reads(subscript) > 0;
      if (layout.strides[d] != 0) whole *= layout.sizes[d];
      if (looks_up && !is_lookup(subscript, statement.domain)) return false;
      for (const Iterator& it : statement.domain) {
        if (!moves(subscript, it)) continue;
        result_in_row = result_in_row || (looks_up && row && !it.reduction);
        reduction_in_row = reduction_in_row || (looks_up && row && it.reduction);
        reduction_across = reduction_across || (looks_up && !row && it.reduction);
        rows_of_results = rows_of_results || (!looks_up && row && !it.reduction);
      }
    }
    int64_t uses = 1, elements = 1, steps = 1;
    for (const Iterator& it : statement.domain) {
      bool moved = std::any_of(access.subscripts.begin(), access.subscripts.end(),
                               [&](const Expr& subscript) { return moves(subscript, it); });
      (moved ? elements : uses) *= extent_of(it);
      if (moved && it.reduction) steps *= extent_of(it);
    }
    if (elements > whole) return false;
    const int64_t row_bytes = steps * program_.tensor(access.tensor).type.bytes();
    const bool is_used = uses >= machine_.least(machine::kGatheredUses);
    if (result_in_row) return is_used;
    if (reduction_in_row)
      return uses >= machine_.least(machine::kGatheredRowUses) &&
             row_bytes >= machine_.least(machine::kGatheredRowBytes);
    // The columns of a block fill half of the cache for copies.
    return is_used && reduction_across && rows_of_results &&
           2 * steps * kLineBytes * machine::kBlockLines >= machine_.cache_bytes;
  }

  Statement make_gather(const Statement& statement, const MemoryAccess& access) {
    // Dimensions in the order in which the tensor's are moved along, those of one by reductions
    // first.
    std::vector<Iterator> over;
    auto add = [&](const Expr& subscript, bool reductions) {
      for (const Iterator& it : statement.domain)
        if (it.reduction == reductions && moves(subscript, it) && !find_index(over, it.name))
          over.push_back(it);
    };
    for (const Expr& subscript : access.subscripts) {
      add(subscript, true);
      add(subscript, false);
    }
    return make_temporary(access.tensor + ".gathered",
                          read(program_.tensor(access.tensor), access.subscripts), over,
                          statement.where, access.tensor + " in order of use");
  }
};

}  // namespace

void gather_operands(Program& program, Layouts& layouts, const CpuMachine& machine) {
  GatherOperands pass(program, layouts, machine);
  put_in_front(program, [&](Statement& statement) { return pass.rewrite(statement); });
}

}  // namespace tc::ir
