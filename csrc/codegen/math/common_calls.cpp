#include "codegen/math/common_calls.h"

#include <map>
#include <string>
#include <vector>

#include "codegen/math/named.h"
#include "codegen/names.h"
#include "ir/program.h"
#include "ir/visit.h"

namespace tc::codegen {
namespace {

/// Calls of an expression in the order in which they are computed, each once.
struct Region {
  const Region* outer = nullptr;  ///< whose names are in scope
  NamedValues calls;
  std::map<Expr, std::string, IRDeepCompare> names;

  const std::string* find(const Expr& call) const {
    const auto found = names.find(call);
    if (found != names.end()) return &found->second;
    return outer ? outer->find(call) : nullptr;
  }
};

class NameCommonCalls : public IRMutator {
 public:
  using IRMutator::mutate;
  Expr mutate(const Expr& e) override {
    return region_ ? IRMutator::mutate(e) : name_calls(e, nullptr);
  }

 private:
  using IRMutator::visit;

  Expr name_calls(const Expr& e, const Region* outer) {
    Region region;
    region.outer = outer;
    ScopedValue<Region*> inside(region_, &region);
    const Expr named = IRMutator::mutate(e);
    return region.calls.empty() ? named : keep_common(region, named);
  }

  /// Names that are used once give way to their calls.
  static Expr keep_common(const Region& region, const Expr& named) {
    std::map<std::string, int> uses;
    auto count = [&](const Expr& e) {
      ir::visit(e, [&](const Variable* op, ir::Visitor&) { ++uses[op->name]; });
    };
    count(named);
    for (const auto& [name, call] : region.calls) count(call);
    std::map<std::string, Expr> single;
    NamedValues common;
    for (const auto& [name, call] : region.calls) {
      // Arguments have only names that come before.
      const Expr whole = substitute(single, call);
      if (uses[name] < 2)
        single.emplace(name, whole);
      else
        common.emplace_back(name, whole);
    }
    return with_names<Let>(common, substitute(single, named));
  }

  Expr visit(const Call* op) override {
    if (op->is_intrinsic(Call::if_then_else)) {
      std::vector<Expr> parts = {mutate(op->args[0])};
      for (size_t a = 1; a < op->args.size(); ++a)
        parts.push_back(name_calls(op->args[a], region_));
      return Call::make(op->type, op->name, parts, op->call_type);
    }
    const Expr call = IRMutator::visit(op);
    if (ir::math_name(op).empty()) return call;
    const std::string* name = region_->find(call);
    if (!name) {
      name = &region_->names.emplace(call, unique_name('t')).first->second;
      region_->calls.emplace_back(*name, call);
    }
    return Variable::make(op->type, *name);
  }

  /// What a name stands for is another thing outside of its scope.
  Expr visit(const Let* op) override {
    const Expr value = name_calls(op->value, nullptr), body = name_calls(op->body, nullptr);
    return Let::make(op->name, value, body);
  }

  Region* region_ = nullptr;
};

}  // namespace

Stmt name_common_calls(const Stmt& stmt) { return NameCommonCalls().mutate(stmt); }

}  // namespace tc::codegen
