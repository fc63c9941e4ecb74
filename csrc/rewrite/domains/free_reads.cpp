#include "rewrite/domains/free_reads.h"

#include <algorithm>
#include <vector>

#include "ir/accesses.h"
#include "ir/expressions/reads.h"
#include "rewrite/domains/inside.h"

namespace tc::rewrite {

namespace {

using namespace ir;

class FreeReads : public IRMutator {
 public:
  FreeReads(const Program& program, const Statement& statement,
            const std::map<std::string, Layout>& layouts)
      : program_(program), statement_(statement), layouts_(layouts) {}

 private:
  using IRMutator::visit;
  Expr visit(const Call* op) override {
    if (guard_.defined() && !read_name(op).empty()) {
      if (lies_inside(op, program_, statement_.domain)) return IRMutator::visit(op);
      return Call::make(op->type, Call::if_then_else, {guard_, Expr(op), make_zero(op->type)},
                        Call::PureIntrinsic);
    }
    const bool guards = !guard_.defined() && op->is_intrinsic(Call::if_then_else) &&
                        op->args.size() == 3 && !has_data(op->args[0]) && !has_data(op->args[2]) &&
                        has_free_row(op->args[1]);
    if (!guards) return IRMutator::visit(op);
    guard_ = op->args[0];
    Expr value = mutate(op->args[1]);
    guard_ = Expr();
    return Select::make(op->args[0], value, op->args[2]);
  }

  /// Whether a read without need of a guard would be a vector of elements a little apart.
  bool has_free_row(const Expr& e) const {
    Statement inside = statement_;
    inside.value = e;
    inside.guard = Expr();
    const std::string* lane = contiguous_index();
    if (!lane) return false;
    const std::vector<const Call*> all = reads_of(inside);
    return std::any_of(all.begin(), all.end(), [&](const Call* read) {
      auto layout = layouts_.find(read_name(read));
      if (layout == layouts_.end()) return false;
      const MemoryAccess access{read_name(read), read->args};
      auto stride = stride_along(access, layout->second, *lane);
      return stride && *stride >= 2 && *stride <= 4 &&
             lies_inside(read, program_, statement_.domain);
    });
  }

  /// The index along which results are neighbours.
  const std::string* contiguous_index() const {
    const MemoryAccess written{statement_.tensor, statement_.subscripts, true};
    for (const Iterator& it : statement_.domain)
      if (!it.reduction && stride_along(written, layouts_.at(statement_.tensor), it.name) == 1)
        return &it.name;
    return nullptr;
  }

  const Program& program_;
  const Statement& statement_;
  const std::map<std::string, Layout>& layouts_;
  Expr guard_;
};

}  // namespace

void free_reads(Program& program, const std::map<std::string, Layout>& layouts) {
  for (Statement& statement : program.statements)
    if (!is_scatter(statement))
      statement.value = FreeReads(program, statement, layouts).mutate(statement.value);
}

}  // namespace tc::rewrite
