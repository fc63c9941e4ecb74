#include "rewrite/operands/transpose_tables.h"

#include <algorithm>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "base/error.h"
#include "ir/expressions/reads.h"
#include "ir/expressions/walk.h"
#include "ir/loops.h"
#include "machine/limits.h"
#include "rewrite/canonical/lower_scatters.h"
#include "rewrite/program_pass.h"

namespace tc::rewrite {
namespace {

using ir::Expr;
using ir::Iterator;
using ir::MemoryAccess;
using ir::Statement;

/// A table of which this dimension should be the contiguous one.
struct Turn {
  std::string tensor;
  size_t dimension = 0;
};

/// With one of a list's elements last.
template <class Element>
std::vector<Element> turn(std::vector<Element> list, size_t last) {
  const auto place = list.begin() + static_cast<std::ptrdiff_t>(last);
  std::rotate(place, place + 1, list.end());
  return list;
}

class TransposeTables : public ir::ProgramPass {
 public:
  using ProgramPass::ProgramPass;

  /// In the place of a statement; the one in front of it is `before`, or null.
  std::vector<Statement> rewrite(Statement statement, Statement* before) {
    std::vector<Statement> made;
    while (const std::optional<Turn> found = find_read(statement))
      made.push_back(transpose_read(statement, *found));
    const std::optional<size_t> dimension = find_scattered(statement);
    if (!dimension) {
      made.push_back(std::move(statement));
      return made;
    }
    Statement back = ir::cover_scatter(statement, program_);
    Statement start = back;
    back.meaning.clear();
    turn_write(statement, *dimension);
    // What fills the tensor in front of its scatter fills the temporary.
    if (before && fills(*before, start)) {
      before->tensor = statement.tensor;
      before->subscripts = turn(before->subscripts, *dimension);
      order_kept(*before);
    } else {
      start.value = ir::read(program_.tensor(start.tensor), start.subscripts);
      start.tensor = statement.tensor;
      start.subscripts = turn(start.subscripts, *dimension);
      order_kept(start);
      made.push_back(std::move(start));
    }
    back.value = ir::read(program_.tensor(statement.tensor), turn(back.subscripts, *dimension));
    made.push_back(std::move(statement));
    made.push_back(std::move(back));
    return made;
  }

 private:
  // ---- which tables

  /// The dimension along which a vector of the statement would find neighbours, for an access that
  /// data places in the contiguous one. Nothing where some index walks along that one.
  std::optional<size_t> find_dimension(const Statement& statement,
                                       const MemoryAccess& access) const {
    const Layout& layout = layouts_.at(access.tensor);
    bool looks_up = false;
    for (size_t d = 0; d < access.subscripts.size(); ++d) {
      if (layout.sizes[d] > 1 && layout.strides[d] == 0) return std::nullopt;
      looks_up = looks_up || (std::abs(layout.strides[d]) == 1 && layout.sizes[d] > 1 &&
                              ir::count_reads(access.subscripts[d]) > 0);
    }
    if (!looks_up) return std::nullopt;
    std::optional<size_t> dimension;
    for (const Iterator& it : statement.domain) {
      const std::optional<int64_t> step = stride(access, it);
      if (ir::extent_of(it) == 1 || !step || *step == 0) continue;
      if (std::abs(*step) == 1) return std::nullopt;
      if (!dimension && fills_vectors(statement, it) && suits_rest(statement, access, it))
        dimension = only_moved(access, it);
    }
    return dimension && keeps_places(access, *dimension) ? dimension : std::nullopt;
  }

  /// Whether places are the same where all dimensions but `turned` lie one behind the other. Those
  /// of temporaries may count through several (see offset_tables and computed_places).
  bool keeps_places(const MemoryAccess& access, size_t turned) const {
    const bool computed =
        std::any_of(access.subscripts.begin(), access.subscripts.end(), [&](const Expr& subscript) {
          const std::set<std::string> names = ir::names_read(subscript);
          return std::any_of(names.begin(), names.end(), [&](const std::string& name) {
            const auto tensor = program_.tensors.find(name);
            return tensor != program_.tensors.end() &&
                   tensor->second.role == ir::TensorRole::Temporary;
          });
        });
    const Layout& layout = layouts_.at(access.tensor);
    int64_t stride = 1;
    for (size_t d = access.subscripts.size(); computed && d-- > 0;) {
      if (d == turned || layout.sizes[d] == 1) continue;
      if (layout.strides[d] != stride) return false;
      stride *= layout.sizes[d];
    }
    return true;
  }

  int count_lanes(const Statement& statement) const {
    const ir::Type type = program_.tensor(statement.tensor).type;
    return std::clamp(machine_.step_bits() / std::max(8, type.bits()), 1, machine::kMostLanes);
  }

  bool fills_vectors(const Statement& statement, const Iterator& it) const {
    return ir::extent_of(it) >= count_lanes(statement);
  }

  /// The dimension in which an index counts up one by one; nothing where it moves others as well.
  static std::optional<size_t> only_moved(const MemoryAccess& access, const Iterator& it) {
    std::optional<size_t> found;
    for (size_t d = 0; d < access.subscripts.size(); ++d) {
      const std::optional<int64_t> step = ir::step_along(access.subscripts[d], it.name);
      if (step == 0) continue;
      if (step != 1 || found) return std::nullopt;
      found = d;
    }
    return found;
  }

  /// Whether all that a statement touches beside the table lies along an index, or stays the same.
  bool suits_rest(const Statement& statement, const MemoryAccess& access,
                  const Iterator& it) const {
    const std::vector<MemoryAccess> all = accesses(program_, statement);
    return std::all_of(all.begin(), all.end(), [&](const MemoryAccess& other) {
      if (other.tensor == access.tensor && is_gather(other, program_) &&
          only_moved(other, it) == only_moved(access, it))
        return true;
      const std::optional<int64_t> step = stride(other, it);
      // Sums along a vector are added up at its end.
      return step == 1 || (step == 0 && (!other.write || it.reduction));
    });
  }

  double elements_of(const std::string& tensor) const {
    double elements = 1;
    for (int64_t size : layouts_.at(tensor).sizes) elements *= static_cast<double>(size);
    return elements;
  }

  /// Of a transposition: a statement that writes each element, found alone.
  double cycles_of(const std::string& tensor) const {
    return machine_.statement_cycles +
           elements_of(tensor) * (machine_.strided_lane_cycles + machine_.written_element_cycles);
  }

  std::optional<Turn> find_read(const Statement& statement) const {
    for (const MemoryAccess& access : accesses(program_, statement)) {
      if (access.write || access.tensor == statement.tensor || !is_gather(access, program_))
        continue;
      const std::optional<size_t> dimension = find_dimension(statement, access);
      if (!dimension) continue;
      double points = 1;
      for (const Iterator& it : statement.domain)
        if (stride(access, it) != 0) points *= static_cast<double>(ir::extent_of(it));
      if (points * machine_.strided_lane_cycles >= machine_.least_part() * cycles_of(access.tensor))
        return Turn{access.tensor, *dimension};
    }
    return std::nullopt;
  }

  std::optional<size_t> find_scattered(const Statement& statement) const {
    if (!is_scatter(statement) || ir::reads(statement, statement.tensor)) return std::nullopt;
    const MemoryAccess write = accesses(program_, statement).back();
    const std::optional<size_t> dimension = find_dimension(statement, write);
    if (!dimension || statement.scattered[*dimension]) return std::nullopt;
    const Iterator& row =
        *std::find_if(statement.domain.begin(), statement.domain.end(),
                      [&](const Iterator& it) { return only_moved(write, it) == dimension; });
    const double points = static_cast<double>(ir::count_points(statement.domain));
    const double length = static_cast<double>(ir::extent_of(row));
    // See share_scatters: a row is a vector, or its points come one by one.
    const double now = points * machine_.scattered_point_cycles;
    const double then =
        points / length *
        std::max(machine_.scattered_point_cycles, length * machine_.scattered_lane_cycles);
    return now - then >= machine_.least_part() * 2 * cycles_of(statement.tensor) ? dimension
                                                                                 : std::nullopt;
  }

  // ---- what they become

  /// A temporary for the turned table.
  const ir::Tensor& add_turned(const Turn& found) {
    const ir::Tensor table = program_.tensor(found.tensor);
    const ir::Tensor& turned = ir::add_temporary(program_, table.name + ".transposed", table.type,
                                                 turn(table.sizes, found.dimension));
    layouts_[turned.name] = row_major(turned);
    return turned;
  }

  /// Lets a statement read a turned table, and returns what fills that.
  Statement transpose_read(Statement& statement, const Turn& found) {
    const ir::Tensor& table = program_.tensor(found.tensor);
    const ir::Tensor& turned = add_turned(found);
    Statement copy;
    for (size_t d = 0; d < table.sizes.size(); ++d) {
      copy.domain.push_back(ir::make_index(copy, concat("place", d), table.sizes[d],
                                           concat("dimension ", d, " of ", table.name)));
      copy.subscripts.push_back(ir::make_variable(copy.domain.back().name));
    }
    copy.value = ir::read(table, copy.subscripts);
    copy.domain = turn(copy.domain, found.dimension);
    copy.subscripts = turn(copy.subscripts, found.dimension);
    copy.tensor = turned.name;
    copy.where = statement.where;
    copy.meaning = concat(table.name, " with dimension ", found.dimension, " contiguous");
    const auto read_turned = [&](Expr& e) {
      e = ir::rewrite(e, [&](const Expr& part) {
        const auto* call = part.as<ir::Call>();
        if (!call || ir::read_name(call) != table.name) return Expr();
        const MemoryAccess access{table.name, call->args, false, false};
        return is_gather(access, program_) && find_dimension(statement, access) == found.dimension
                   ? ir::read(turned, turn(call->args, found.dimension))
                   : Expr();
      });
    };
    Statement reading = statement;
    for_each_expression(reading, read_turned);
    statement = std::move(reading);
    return copy;
  }

  void turn_write(Statement& scatter, size_t dimension) {
    scatter.tensor = add_turned({scatter.tensor, dimension}).name;
    scatter.subscripts = turn(scatter.subscripts, dimension);
    scatter.scattered = turn(scatter.scattered, dimension);
    order_kept(scatter);
  }

  /// Puts indices of results in the order of the subscripts again.
  static void order_kept(Statement& statement) {
    const auto place = [&](const Iterator& it) {
      size_t d = 0;
      while (d < statement.subscripts.size() && !ir::is_variable(statement.subscripts[d], it.name))
        ++d;
      return d;
    };
    const auto first = statement.domain.begin();
    const auto kept = std::find_if(first, statement.domain.end(),
                                   [](const Iterator& it) { return it.reduction; });
    std::stable_sort(first, kept,
                     [&](const Iterator& a, const Iterator& b) { return place(a) < place(b); });
  }

  /// Whether a statement fills all that one that covers its tensor does, with a constant.
  bool fills(const Statement& statement, const Statement& all) const {
    return statement.tensor == all.tensor && ir::is_definition(statement) &&
           !statement.guard.defined() && !ir::has_data(statement.value) &&
           ir::variables_of(statement.value).empty() &&
           ir::count_points(statement.domain) == static_cast<int64_t>(elements_of(all.tensor));
  }
};

}  // namespace

void transpose_tables(ir::Program& program, Layouts& layouts, const CpuMachine& machine) {
  TransposeTables pass(program, layouts, machine);
  std::vector<Statement> result;
  for (Statement& statement : program.statements) {
    Statement* before = result.empty() ? nullptr : &result.back();
    for (Statement& each : pass.rewrite(std::move(statement), before))
      result.push_back(std::move(each));
  }
  program.statements = std::move(result);
  ir::number_statements(program);
}

}  // namespace tc::rewrite
