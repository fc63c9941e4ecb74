#include "codegen/lift_lets.h"

#include <map>
#include <string>
#include <utility>
#include <vector>

namespace tc::codegen {
namespace {

using namespace Halide::Internal;
using ir::Expr;
using ir::Stmt;

class LiftLets : public IRMutator {
 private:
  using IRMutator::visit;
  Stmt visit(const LetStmt* op) override { return lift(op); }
  Expr visit(const Let* op) override { return lift(op); }

  template <class Binding>
  decltype(Binding::body) lift(const Binding* op) {
    Expr value = mutate(op->value);
    // What follows may know other values by the same names.
    std::vector<std::pair<std::string, Expr>> names;
    std::map<std::string, Expr> fresh;
    while (const auto* inner = value.as<Let>()) {
      names.emplace_back(unique_name('t'), substitute(fresh, inner->value));
      fresh[inner->name] = Variable::make(inner->value.type(), names.back().first);
      value = inner->body;
    }
    auto result = Binding::make(op->name, substitute(fresh, value), mutate(op->body));
    for (size_t n = names.size(); n-- > 0;)
      result = Binding::make(names[n].first, names[n].second, result);
    return result;
  }
};

}  // namespace

Stmt lift_lets(const Stmt& stmt) { return LiftLets().mutate(stmt); }

}  // namespace tc::codegen
