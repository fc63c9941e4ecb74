// Structural equality of trees, as they are or up to names.
#pragma once

#include <map>
#include <string>

#include "lang/syntax/tree.h"

namespace tc_test {

using namespace tc::lang;

/// Compares what the grammar says; positions and what sema fills are not looked at, except that
/// trees compared up to names must be checked ones. Names correspond one to one: sizes, tensors
/// (and scalars), and, within a statement, indices and lets.
class TreeComparison {
 public:
  explicit TreeComparison(bool up_to_names) : up_to_names_(up_to_names) {}

  bool equal(const Function& a, const Function& b) {
    bool same = up_to_names_ || a.name.name == b.name.name;
    same = same && equal(a.parameters, b.parameters) && equal(a.returns, b.returns);
    same = same && a.statements.size() == b.statements.size();
    for (size_t i = 0; same && i < a.statements.size(); ++i) {
      same = equal(a.statements[i], b.statements[i]);
    }
    return same;
  }

 private:
  struct Names {
    std::map<std::string, std::string> forth, back;
  };

  bool same_name(Names* names, const std::string& a, const std::string& b) {
    if (!up_to_names_) return a == b;
    return names->forth.emplace(a, b).first->second == b &&
           names->back.emplace(b, a).first->second == a;
  }

  bool equal(const std::vector<Declaration>& a, const std::vector<Declaration>& b) {
    bool same = a.size() == b.size();
    for (size_t i = 0; same && i < a.size(); ++i) {
      same = a[i].typed == b[i].typed && (!a[i].typed || a[i].type == b[i].type) &&
             a[i].dimensions.size() == b[i].dimensions.size() &&
             same_name(&tensors_, a[i].name, b[i].name);
      for (size_t d = 0; same && d < a[i].dimensions.size(); ++d) {
        const DimensionSize &x = a[i].dimensions[d], &y = b[i].dimensions[d];
        same = x.name.empty() == y.name.empty() &&
               (x.name.empty() ? x.constant == y.constant : same_name(&sizes_, x.name, y.name));
      }
    }
    return same;
  }

  bool equal(const TreeStatement& a, const TreeStatement& b) {
    locals_ = {};
    bool same = a.is_call == b.is_call && a.indices.size() == b.indices.size() &&
                a.clauses.size() == b.clauses.size() && a.arguments.size() == b.arguments.size() &&
                (!a.is_call || a.targets.size() == b.targets.size());
    same = same && same_name(&tensors_, a.target.name, b.target.name);
    same = same && a.reduction == b.reduction && a.initializes == b.initializes;
    for (size_t i = 0; same && i < a.indices.size(); ++i) {
      same = same_name(&locals_, a.indices[i].name, b.indices[i].name);
    }
    for (size_t i = 0; same && a.is_call && i < a.targets.size(); ++i) {
      same = same_name(&tensors_, a.targets[i].name, b.targets[i].name);
    }
    same = same && a.callee.name == b.callee.name && equal(a.value, b.value);
    for (size_t i = 0; same && i < a.arguments.size(); ++i) {
      same = equal(a.arguments[i], b.arguments[i]);
    }
    for (size_t i = 0; same && i < a.clauses.size(); ++i) {
      const WhereClause &x = a.clauses[i], &y = b.clauses[i];
      same = x.kind == y.kind &&
             (x.kind == ClauseKind::Exists || same_name(&locals_, x.name.name, y.name.name)) &&
             equal(x.first, y.first) && equal(x.last, y.last);
    }
    return same;
  }

  bool same_use(const Expression& a, const Expression& b) {
    if (!up_to_names_) return a.name == b.name;
    auto is_local = [](Binding x) { return x == Binding::Index || x == Binding::Let; };
    if (is_local(a.binding) && is_local(b.binding)) return same_name(&locals_, a.name, b.name);
    if (a.binding != b.binding) return false;
    if (a.binding == Binding::Size) return same_name(&sizes_, a.name, b.name);
    if (a.binding == Binding::Tensor || a.binding == Binding::Scalar) {
      return same_name(&tensors_, a.name, b.name);
    }
    return a.name == b.name;
  }

  bool equal(const ExpressionPtr& a, const ExpressionPtr& b) {
    if (!a || !b) return !a && !b;
    bool same = a->kind == b->kind && a->operands.size() == b->operands.size();
    switch (same ? a->kind : ExpressionKind::Ternary) {
      case ExpressionKind::Number: same = a->name == b->name; break;
      case ExpressionKind::Name:
      case ExpressionKind::Apply: same = same_use(*a, *b); break;
      case ExpressionKind::Dimension:
        same = same_use(*a, *b) && a->dimension == b->dimension;
        break;
      case ExpressionKind::Cast: same = a->cast_type == b->cast_type; break;
      case ExpressionKind::Unary:
      case ExpressionKind::Binary: same = a->op == b->op; break;
      case ExpressionKind::Ternary: break;
    }
    for (size_t i = 0; same && i < a->operands.size(); ++i) {
      same = equal(a->operands[i], b->operands[i]);
    }
    return same;
  }

  bool up_to_names_;
  Names sizes_, tensors_, locals_;
};

inline bool equal_trees(const Function& a, const Function& b) {
  return TreeComparison(false).equal(a, b);
}
inline bool equal_up_to_names(const Function& a, const Function& b) {
  return TreeComparison(true).equal(a, b);
}

}  // namespace tc_test
