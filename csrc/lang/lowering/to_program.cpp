// `infer_ranges` of definition.h: lowers every statement, infers ranges and gives tensors their
// sizes.

#include "base/error.h"
#include "ir/expressions/wide_integers.h"
#include "ir/visit.h"
#include "lang/lowering/definition.h"
#include "lang/lowering/lowering.h"
#include "lang/lowering/ranges.h"
#include "lang/sema/call_conditions.h"

namespace tc::lang {

using namespace Halide::Internal;

namespace {

/// How far a place lies behind the first.
Expr from_first(const Expr& place, const Range& range) {
  return is_const_zero(range.first) ? place : place - range.first;
}

class ProgramBuilder {
 public:
  ProgramBuilder(const Function& function, const ir::Program& signature,
                 const std::map<std::string, int64_t>& scalars)
      : function_(function),
        signature_(signature),
        lowered_(lower(function, signature, scalars)),
        ranges_(infer(function, signature, lowered_)),
        program_(signature) {}

  ir::Program run() {
    for (const auto& [name, shape] : ranges_.shapes) {
      for (size_t d = 0; d < shape.size(); ++d) {
        Expr size = extent(shape[d]);
        program_.tensors.at(name).sizes[d] = size;
        dimensions_[dimension_variable(name, static_cast<int>(d))] = size;
      }
    }
    program_.declared_sizes = ranges_.declared;
    for (ir::DeclaredSize& open : open_conditions(function_, program_))
      program_.declared_sizes.push_back(std::move(open));
    for (size_t i = 0; i < function_.statements.size(); ++i)
      program_.statements.push_back(build(i));
    return std::move(program_);
  }

 private:
  Expr extent(const Range& range) const {
    return simplify_size(range.last - range.first + 1, signature_);
  }

  ir::Iterator make_iterator(const Identifier& index, const Range& range, bool reduction) const {
    ir::Iterator iterator{index.name, range.first, extent(range), reduction};
    std::optional<int64_t> count = as_const_int(iterator.extent);
    if (count && *count < 0) {
      throw LanguageError(index.where, "Inferred an empty range for variable ", index.name,
                          ": it would run from ", range.first, " to ", range.last);
    }
    return iterator;
  }

  ir::Statement build(size_t i) {
    const TreeStatement& tree = function_.statements[i];
    ir::Statement statement;
    statement.name = concat("S", i);
    statement.tensor = tree.target.name;
    statement.where = tree.where;
    ir::Bounds bounds;
    for (const std::string& size : signature_.sizes)
      bounds.push(size, Interval(Expr(0), Interval::pos_inf()));
    for (const auto* list : {&tree.indices, &tree.reduction_indices}) {
      for (const Identifier& index : *list) {
        if (index.name.empty()) continue;
        const Range& range = ranges_.statements[i].at(index.name);
        ir::Iterator iterator = make_iterator(index, range, list == &tree.reduction_indices);
        // Iterators of extent 1 stay in the subscripts: how an access looks must not depend on
        // sizes.
        if (!is_const_one(iterator.extent))
          bounds.push(index.name, Interval(range.first, range.last));
        statement.domain.push_back(iterator);
      }
    }
    for (size_t d = 0; d < tree.indices.size(); ++d) {
      const Range& range = ranges_.shapes.at(tree.target.name)[d];
      if (tree.scatters()) statement.scattered.push_back(tree.scattered(d) != nullptr);
      if (tree.scattered(d)) {
        statement.subscripts.push_back(from_first(stored(lowered_[i].subscripts[d]), range));
        continue;
      }
      Expr subscript = ir::make_variable(tree.indices[d].name) - range.first;
      Expr simple = simplify(subscript, true, bounds);
      statement.subscripts.push_back(ir::overflows(simple) ? subscript : simple);
    }
    // A reduction that starts afresh and has nothing to reduce over is an assignment.
    if (!tree.initializes || !tree.reduction_indices.empty() || tree.scatters()) {
      statement.reduction = tree.reduction;
      statement.initializes = tree.initializes;
    }
    statement.value = stored(lowered_[i].value);
    return statement;
  }

  /// An expression over sizes, with reads at their places in storage. Not simplified: whether its
  /// integers wrap around is only known when sizes are.
  Expr stored(const Expr& e) const {
    Expr sized = substitute(dimensions_, e);
    // From index coordinates to storage: element 0 belongs to the lower bound of its index.
    return ir::mutate(sized, [&](const Call* op, ir::Mutator& self) {
      auto shape = ranges_.shapes.find(ir::read_name(op));
      if (shape == ranges_.shapes.end() || op->args.empty()) return self.inside(op);
      std::vector<Expr> subscripts;
      for (size_t d = 0; d < op->args.size(); ++d)
        subscripts.push_back(from_first(self.mutate(op->args[d]), shape->second[d]));
      return ir::read(signature_.tensor(shape->first), subscripts);
    });
  }

  const Function& function_;
  const ir::Program& signature_;
  const std::vector<LoweredStatement> lowered_;
  InferredRanges ranges_;
  ir::Program program_;
  std::map<std::string, Expr> dimensions_;  ///< T.1 to its size
};

}  // namespace

ir::Program infer_ranges(const Definition& definition,
                         const std::map<std::string, int64_t>& scalars) {
  return ProgramBuilder(*definition.tree, definition.signature, scalars).run();
}

}  // namespace tc::lang
