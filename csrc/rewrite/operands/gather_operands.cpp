#include "rewrite/operands/gather_operands.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <vector>

#include "base/error.h"
#include "base/memory.h"
#include "ir/accesses.h"
#include "ir/expressions/reads.h"
#include "rewrite/operands/offset_tables.h"

namespace tc::ir {
namespace {

// Uses of each element from which on a statement of its own pays: elements along a row that are
// used one by one, and others. It costs some 1.6 cycles an element, 0.5 where rows are copied; a
// use costs 1/32. Measured on 60 products of 16 to 4096 in every dimension, time in place over time
// in order: 0.65 to 1.7 with 64 uses; 1.04 to 2.5 with 256 in a row; with 128 of the others 1.04 to
// 6.8, but for one at 0.87.
constexpr int64_t kRowUses = 256, kUses = 128;
// What a reduction walks through of a row, for the rows of a block to exceed the first cache
// (measured: 512 x 512 x K in 1.01 of the time at 8 KiB, 0.92 at 12, 0.8 at 16).
constexpr int64_t kRowBytes = 12 << 10;
// Of the cache for copies, what the columns of a block may take (measured: 512 x 512 x K in place
// in as much time at 512, 2.7 times at 1024, where it is half).
constexpr int64_t kBlockLines = 4;
constexpr double kPanelShare = 0.5;

bool moves(const Expr& e, const Iterator& it) {
  return Halide::Internal::expr_uses_var(e, it.name);
}

/// Whether what moves a subscript is inside reads, so that nothing slides along what they say.
bool is_lookup(const Expr& subscript, const std::vector<Iterator>& domain) {
  if (const auto* add = subscript.as<Halide::Internal::Add>())
    return is_lookup(add->a, domain) && is_lookup(add->b, domain);
  if (const auto* sub = subscript.as<Halide::Internal::Sub>())
    return is_lookup(sub->a, domain) && is_lookup(sub->b, domain);
  if (const auto* mul = subscript.as<Halide::Internal::Mul>())
    return is_lookup(mul->a, domain) && is_lookup(mul->b, domain);
  if (const auto* cast = subscript.as<Halide::Internal::Cast>())
    return is_lookup(cast->value, domain);
  if (const auto* call = subscript.as<Halide::Internal::Call>())
    if (!read_name(call).empty()) return true;
  return std::none_of(domain.begin(), domain.end(),
                      [&](const Iterator& it) { return moves(subscript, it); });
}

class GatherOperands {
 public:
  GatherOperands(Program& program, std::map<std::string, Layout>& layouts,
                 const CpuMachine& machine)
      : program_(program), layouts_(layouts), machine_(machine) {}

  void run() {
    put_in_front(program_, [&](Statement& statement) { return rewrite(statement); });
  }

 private:
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
      statement.value = replace_read(statement.value, gather.value, to);
      for (Statement& table : make_offset_tables(program_, layouts_, gather))
        gathers.push_back(std::move(table));
      gathers.push_back(std::move(gather));
    }
    return gathers;
  }

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
    const double panel = static_cast<double>(steps * kLineBytes * kBlockLines);
    if (result_in_row) return uses >= machine_.least(kUses);
    if (reduction_in_row)
      return uses >= machine_.least(kRowUses) && row_bytes >= machine_.least(kRowBytes);
    return reduction_across && rows_of_results && uses >= machine_.least(kUses) &&
           panel >= kPanelShare * static_cast<double>(machine_.cache_bytes);
  }

  Statement make_gather(const Statement& statement, const MemoryAccess& access) {
    const Tensor& source = program_.tensor(access.tensor);
    Statement gather;
    gather.value = read(source, access.subscripts);
    gather.where = statement.where;
    gather.meaning = concat(access.tensor, " in order of use");
    // Dimensions in the order in which the tensor's are moved along, those of one by reductions
    // first.
    std::vector<Expr> sizes;
    auto add = [&](const Expr& subscript, bool reductions) {
      for (Iterator it : statement.domain) {
        bool known = std::any_of(gather.domain.begin(), gather.domain.end(),
                                 [&](const Iterator& other) { return other.name == it.name; });
        if (known || it.reduction != reductions || !moves(subscript, it)) continue;
        it.reduction = false;
        gather.domain.push_back(it);
        gather.subscripts.push_back(make_variable(it.name));
        sizes.push_back(it.extent);
      }
    };
    for (const Expr& subscript : access.subscripts) {
      add(subscript, true);
      add(subscript, false);
    }
    const Tensor& gathered =
        add_temporary(program_, access.tensor + ".gathered", source.type, sizes, statement.where);
    layouts_[gathered.name] = row_major(gathered);
    gather.tensor = gathered.name;
    return gather;
  }

  Program& program_;
  std::map<std::string, Layout>& layouts_;
  const CpuMachine& machine_;
};

}  // namespace

void gather_operands(Program& program, std::map<std::string, Layout>& layouts,
                     const CpuMachine& machine) {
  GatherOperands(program, layouts, machine).run();
}

}  // namespace tc::ir
