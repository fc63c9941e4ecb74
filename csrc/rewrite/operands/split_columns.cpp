#include "rewrite/operands/split_columns.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>
#include <vector>

#include "base/numbers.h"
#include "ir/expressions/simplify.h"
#include "machine/limits.h"
#include "rewrite/program_pass.h"

namespace tc::ir {

namespace {

/// A sum and the columns at the end.
struct Split {
  size_t columns = 0;  ///< iterator along which the results and some operands lie
  size_t along = 0;    ///< iterator along which the other operands lie
  int64_t rest = 0;    ///< columns at the end
  std::vector<MemoryAccess> moved, still;  ///< reads along the columns, and the others
};

class SplitColumns : public ProgramPass {
 public:
  using ProgramPass::ProgramPass;

  void run() {
    std::map<std::string, Split> splits;  // by the name of the statement
    for (const Statement& statement : program_.statements) {
      std::optional<Split> found = find(statement);
      if (found && pays(statement, *found)) splits.emplace(statement.name, std::move(*found));
    }
    put_in_front(program_, [&](Statement& statement) {
      auto found = splits.find(statement.name);
      return found == splits.end() ? std::vector<Statement>() : split(statement, found->second);
    });
  }

 private:
  int64_t lanes_of(const Statement& statement) const {
    return machine_.vector_bits / program_.tensor(statement.tensor).type.bits();
  }

  /// Whether no other statement touches the result or makes an operand.
  bool stands_alone(const Statement& statement, const std::vector<MemoryAccess>& reads) const {
    auto is_operand = [&](const std::string& tensor) {
      return std::any_of(reads.begin(), reads.end(),
                         [&](const MemoryAccess& read) { return read.tensor == tensor; });
    };
    for (const Statement& other : program_.statements) {
      if (other.name == statement.name) continue;
      for (const MemoryAccess& access : accesses(program_, other))
        if (access.tensor == statement.tensor || (access.write && is_operand(access.tensor)))
          return false;
    }
    return true;
  }

  /// Nothing where the columns are whole vectors, or the other operands lie along nothing that
  /// makes a vector.
  std::optional<Split> find(const Statement& statement) const {
    if (statement.reduction != Reduction::Sum || is_scatter(statement) || statement.guard.defined())
      return std::nullopt;
    std::vector<MemoryAccess> reads = accesses(program_, statement);
    const MemoryAccess write = reads.back();
    reads.pop_back();
    const std::vector<Iterator>& domain = statement.domain;
    const int64_t lanes = lanes_of(statement);
    auto columns = std::find_if(domain.begin(), domain.end(), [&](const Iterator& it) {
      return !it.reduction && extent_of(it) > lanes && stride(write, it) == 1;
    });
    if (columns == domain.end() || extent_of(*columns) % lanes == 0) return std::nullopt;
    Split split;
    split.columns = static_cast<size_t>(columns - domain.begin());
    split.rest = extent_of(*columns) % lanes;
    for (const MemoryAccess& read : reads) {
      auto step = stride(read, *columns);
      if (read.conditional || read.tensor == statement.tensor || !step || is_gather(read, program_))
        return std::nullopt;
      (*step == 0 ? split.still : split.moved).push_back(read);
    }
    auto idle = [&](const Iterator& it) {
      const int64_t extent = extent_of(it), vectors = divide_up(extent, lanes);
      return static_cast<double>(vectors * lanes) / static_cast<double>(extent);
    };
    // Vectors along another index of the results may serve all columns.
    auto along = std::find_if(domain.begin(), domain.end(), [&](const Iterator& it) {
      return extent_of(it) >= lanes && (it.reduction || idle(it) >= idle(*columns)) &&
             std::all_of(split.still.begin(), split.still.end(),
                         [&](const MemoryAccess& read) { return stride(read, it) == 1; });
    });
    if (split.still.empty() || split.moved.empty() || along == domain.end() ||
        !stands_alone(statement, reads))
      return std::nullopt;
    split.along = static_cast<size_t>(along - domain.begin());
    return split;
  }

  /// Elements that a read touches for the columns at the end.
  double elements(const Statement& statement, const Split& split, const MemoryAccess& read) const {
    double result = 1;
    for (size_t i = 0; i < statement.domain.size(); ++i)
      if (stride(read, statement.domain[i]) != 0)
        result *=
            static_cast<double>(i == split.columns ? split.rest : extent_of(statement.domain[i]));
    return result;
  }

  bool needs_copy(const Statement& statement, const Split& split, const MemoryAccess& read) const {
    const Iterator& along = statement.domain[split.along];
    const std::optional<int64_t> step = stride(read, along);
    return along.reduction && step != 0 && step != 1;
  }

  bool pays(const Statement& statement, const Split& split) const {
    const auto lanes = static_cast<double>(lanes_of(statement));
    double rows = 1, terms = 1;
    for (size_t i = 0; i < statement.domain.size(); ++i) {
      const Iterator& it = statement.domain[i];
      if (i != split.columns) (it.reduction ? terms : rows) *= static_cast<double>(extent_of(it));
    }
    const Iterator& along = statement.domain[split.along];
    const auto length = static_cast<double>(extent_of(along));
    const auto columns = static_cast<double>(extent_of(statement.domain[split.columns]));
    const double steps = rows * terms / length * std::ceil(length / lanes);
    double spent =
        (steps * machine_.row_sum_cycles +
         rows * (along.reduction ? machine_.row_end_cycles : machine_.scattered_store_cycles)) *
            static_cast<double>(split.rest) +
        machine_.statement_cycles;
    for (const MemoryAccess& read : split.still) {
      const double bytes =
          elements(statement, split, read) * program_.tensor(read.tensor).type.bytes();
      // Half of the second cache is for copies.
      const bool near = bytes < 1.5 * static_cast<double>(machine_.cache_bytes);
      spent += bytes / (near ? machine_.second_cache_rate()
                             : machine::kSplitRate * machine_.last_cache_rate);
    }
    // Elements of a column are loaded and stored alone.
    for (const MemoryAccess& read : split.moved)
      if (needs_copy(statement, split, read))
        spent += elements(statement, split, read) * machine_.scattered_store_cycles;
    const double saved = rows * terms / machine_.multiply_adds,
                 whole = saved * std::ceil(columns / lanes);
    return machine_.least_percent < 100 || saved - spent > machine::kColumnsGain * whole;
  }

  std::vector<Statement> split(Statement& statement, const Split& split) {
    Iterator& columns = statement.domain[split.columns];
    Statement rest = statement;
    columns.extent = static_cast<int>(extent_of(columns) - split.rest);
    Iterator& last = rest.domain[split.columns];
    last = make_index(statement, columns.name + "_rest", static_cast<int>(split.rest),
                      "the last of " + columns.name);
    const Expr place = columns.min + columns.extent + make_variable(last.name);
    auto move = [&](Expr& e) { e = simplify_integers(substitute(columns.name, place, e), {}); };
    for_each_expression(rest, move);

    std::vector<Statement> result;
    for (MemoryAccess read : split.moved) {
      if (!needs_copy(statement, split, read)) continue;
      for (Expr& subscript : read.subscripts) move(subscript);
      Statement copy = make_copy(rest, read, rest.domain[split.along]);
      rest.value = substitute(copy.value, ir::read(program_.tensor(copy.tensor), copy.subscripts),
                              rest.value);
      result.push_back(std::move(copy));
    }
    result.push_back(std::move(rest));
    return result;
  }

  /// Copies what a read of the statement touches, in the order of its indices but `along` last.
  Statement make_copy(const Statement& statement, const MemoryAccess& access,
                      const Iterator& along) {
    // A dimension of an expanded tensor has no stride, but a subscript.
    const auto is_mentioned = [&](const Iterator& it) {
      return std::any_of(access.subscripts.begin(), access.subscripts.end(),
                         [&](const Expr& e) { return expr_uses_var(e, it.name); });
    };
    std::vector<Iterator> over;
    for (const Iterator& it : statement.domain)
      if (it.name != along.name && is_mentioned(it)) over.push_back(it);
    if (is_mentioned(along)) over.push_back(along);
    return make_temporary(access.tensor + ".columns",
                          ir::read(program_.tensor(access.tensor), access.subscripts), over,
                          statement.where, "the last columns of " + access.tensor);
  }
};

}  // namespace

void split_columns(Program& program, Layouts& layouts, const CpuMachine& machine) {
  SplitColumns(program, layouts, machine).run();
}

}  // namespace tc::ir
