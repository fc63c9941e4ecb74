#include "codegen/tiles/forward_values.h"

#include <iterator>
#include <map>
#include <utility>
#include <vector>

#include "base/error.h"
#include "codegen/names.h"
#include "ir/loops.h"
#include "ir/visit.h"

namespace tc::codegen {
namespace {

/// What was last stored to a temporary, and what it is called.
struct Known {
  Expr index, predicate;
  ir::Type type;
  std::string name;
};
using Values = std::map<std::string, Known>;  ///< by temporary

bool is_known(const Values& values, const Load& load) {
  auto found = values.find(load.name);
  return found != values.end() && found->second.type == load.type &&
         equal(found->second.index, load.index) && equal(found->second.predicate, load.predicate);
}

/// What is known whatever a statement stores.
Values without_stored(Values values, const Stmt& stmt) {
  for (const std::string& stored : ir::stored_buffers(stmt)) values.erase(stored);
  return values;
}

/// What is known where a variable has another value.
Values without_uses(Values values, const std::string& variable) {
  for (auto it = values.begin(); it != values.end();) {
    const Known& known = it->second;
    bool uses = expr_uses_var(known.index, variable) || expr_uses_var(known.predicate, variable);
    it = uses ? values.erase(it) : std::next(it);
  }
  return values;
}

/// What is known in a loop's body: nothing that another iteration may change, or thread.
Values in_loop(const Values& values, const For* loop) {
  if (loop->for_type == ForType::Parallel) return {};
  return without_uses(without_stored(values, loop->body), loop->name);
}

/// The statements of a block in order.
void flatten(const Stmt& stmt, std::vector<Stmt>& all) {
  if (const auto* block = stmt.as<Block>()) {
    flatten(block->first, all);
    flatten(block->rest, all);
  } else {
    all.push_back(stmt);
  }
}

/// Names what is stored to these temporaries.
class Forward : public IRMutator {
 public:
  explicit Forward(const std::set<std::string>& temporaries) : temporaries_(temporaries) {}
  std::set<std::string> unknown;  ///< those with a load of which it is not known what it gives

 private:
  using IRMutator::visit;
  Stmt visit(const Allocate* op) override {
    return temporaries_.count(op->name) ? mutate(op->body) : IRMutator::visit(op);
  }
  Stmt visit(const For* op) override {
    Expr min = mutate(op->min), extent = mutate(op->extent);
    values_ = in_loop(values_, op);
    return ir::make_for(op->name, min, extent, op->for_type, mutate(op->body));
  }
  Stmt visit(const LetStmt* op) override {
    Expr value = mutate(op->value);
    values_ = without_uses(values_, op->name);
    return LetStmt::make(op->name, value, mutate(op->body));
  }
  Stmt visit(const IfThenElse* op) override {
    Expr condition = mutate(op->condition);
    Values before = values_;
    Stmt yes = mutate(op->then_case), no;
    values_ = before;
    if (op->else_case.defined()) no = mutate(op->else_case);
    return IfThenElse::make(condition, yes, no);
  }
  Stmt visit(const Block* op) override {
    std::vector<Stmt> all;
    flatten(op, all);
    return sequence(all, 0);
  }
  Stmt visit(const Store* op) override { return sequence({Stmt(op)}, 0); }

  /// The statements from one on. What one of them stores is known to those behind it, unless it is
  /// stored below a loop or a name.
  Stmt sequence(const std::vector<Stmt>& all, size_t from) {
    std::vector<Stmt> result;
    for (size_t k = from; k < all.size(); ++k) {
      const auto* store = all[k].as<Store>();
      if (!store) {
        Values after = without_stored(values_, all[k]);
        result.push_back(mutate(all[k]));
        values_ = std::move(after);
      } else if (!temporaries_.count(store->name)) {
        result.push_back(IRMutator::visit(store));
      } else {
        Expr value = mutate(store->value);
        // Nothing is left of these, but what they load must be known.
        mutate(store->predicate);
        mutate(store->index);
        std::string name = concat(store->name, ".value", count_++);
        values_[store->name] = {store->index, store->predicate, value.type(), name};
        if (k + 1 < all.size()) result.push_back(LetStmt::make(name, value, sequence(all, k + 1)));
        break;
      }
    }
    return result.empty() ? Evaluate::make(0) : Block::make(result);
  }
  Expr visit(const Load* op) override {
    const Expr load = IRMutator::visit(op);
    if (!temporaries_.count(op->name)) return load;
    if (is_known(values_, *op)) return Variable::make(op->type, values_.at(op->name).name);
    unknown.insert(op->name);
    return load;
  }
  Expr visit(const Variable* op) override {
    // Where it lies is prefetched, as by a prefetch.
    if (temporaries_.count(op->name)) unknown.insert(op->name);
    return op;
  }

  const std::set<std::string>& temporaries_;
  Values values_;
  int count_ = 0;
};

}  // namespace

Stmt forward_values(const Stmt& stmt, const std::set<std::string>& temporaries) {
  std::set<std::string> own = temporaries, passed;
  ir::for_each<Allocate>(stmt, [&](const Allocate* op) { own.insert(op->name); });
  for (const std::string& name : ir::stored_buffers(stmt))
    if (own.count(name)) passed.insert(name);
  // Once to find what is not known, and again without that.
  Forward all(passed);
  if (!passed.empty()) all.mutate(stmt);
  for (const std::string& name : all.unknown) passed.erase(name);
  if (passed.empty()) return stmt;
  Forward known(passed);
  const Stmt result = known.mutate(stmt);
  TC_INTERNAL_CHECK(known.unknown.empty(), "a value of ", *known.unknown.begin(),
                    " is not known any more");
  return result;
}

}  // namespace tc::codegen
