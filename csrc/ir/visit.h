// Visitors and mutators of Halide's expressions and statements, made of functions of the kinds of
// nodes that they are about.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "ir/halide.h"

namespace tc::ir {

/// What a function of a node goes on with.
class Visitor : public Halide::Internal::IRGraphVisitor {
 public:
  void include(const Expr& e) override { shares ? IRGraphVisitor::include(e) : e.accept(this); }
  void include(const Stmt& stmt) override {
    shares ? IRGraphVisitor::include(stmt) : stmt.accept(this);
  }
  bool shares = false;  ///< parts that are shared are visited once
  /// Visits the node's parts.
  template <class Node>
  void inside(const Node* op) {
    IRGraphVisitor::visit(op);
  }
};
class Mutator : public Halide::Internal::IRGraphMutator {
 public:
  using IRGraphMutator::mutate;
  Expr mutate(const Expr& e) override {
    return shares ? IRGraphMutator::mutate(e) : IRMutator::mutate(e);
  }
  Stmt mutate(const Stmt& stmt) override {
    return shares ? IRGraphMutator::mutate(stmt) : IRMutator::mutate(stmt);
  }
  bool shares = false;  ///< parts that are shared are changed once
  /// The node with its parts changed.
  template <class Node>
  auto inside(const Node* op) {
    return IRMutator::visit(op);
  }
};

namespace visit_detail {

template <class Function>
struct Signature : Signature<decltype(&Function::operator())> {};
template <class Function, class Result_, class Node_, class Self>
struct Signature<Result_ (Function::*)(const Node_*, Self&) const> {
  using Result = Result_;
  using Node = Node_;
};

template <class Result_, class Node_, class Self>
struct Signature<Result_(const Node_*, Self&)> {
  using Result = Result_;
  using Node = Node_;
};

/// A visitor or mutator that hands nodes of some kinds to functions.
template <class Base, class... Functions>
class With : public Base {};
template <class Base, class First, class... Rest>
class With<Base, First, Rest...> : public With<Base, Rest...> {
 public:
  With(const First& first, const Rest&... rest) : With<Base, Rest...>(rest...), first_(first) {}

 protected:
  using Super = With<Base, Rest...>;
  using Super::visit;
  typename Signature<First>::Result visit(const typename Signature<First>::Node* op) override {
    return first_(op, *this);
  }

 private:
  const First& first_;
};

}  // namespace visit_detail

/// Visits an expression or a statement: `functions` are void(const Node* op, Visitor& self), each
/// of which hides what is inside of its nodes unless it calls self.inside(op). Shared parts are
/// visited once for every use.
template <class Root, class... Functions>
void visit(const Root& root, const Functions&... functions) {
  visit_detail::With<Visitor, Functions...> visitor(functions...);
  root.accept(&visitor);
}
/// The same with shared parts visited once.
template <class Root, class... Functions>
void visit_graph(const Root& root, const Functions&... functions) {
  visit_detail::With<Visitor, Functions...> visitor(functions...);
  visitor.shares = true;
  root.accept(&visitor);
}

/// An expression or a statement with nodes replaced: `functions` are Expr(const Node* op, Mutator&
/// self), or Stmt, each of which gets nodes as they were, and goes on into their parts by
/// self.inside(op) or self.mutate(part).
template <class Root, class... Functions>
Root mutate(const Root& root, const Functions&... functions) {
  return visit_detail::With<Mutator, Functions...>(functions...).mutate(root);
}

/// The same, with shared parts changed once, so that they stay shared.
template <class Root, class... Functions>
Root mutate_graph(const Root& root, const Functions&... functions) {
  visit_detail::With<Mutator, Functions...> mutator(functions...);
  mutator.shares = true;
  return mutator.mutate(root);
}

/// The call with each of its arguments replaced by what the function makes of it.
template <class Change>
Expr map_arguments(const Halide::Internal::Call* call, Type type, const Change& change) {
  std::vector<Expr> arguments;
  for (const Expr& argument : call->args) arguments.push_back(change(argument));
  return Halide::Internal::Call::make(type, call->name, arguments, call->call_type);
}

/// Halide's graph_substitute for several variables at once.
template <class Root>
Root graph_substitute(const std::map<std::string, Expr>& values, const Root& root) {
  return mutate_graph(root, [&](const Halide::Internal::Variable* op, Mutator&) {
    const auto found = values.find(op->name);
    return found == values.end() ? Expr(op) : found->second;
  });
}

/// Calls `found` with every node of a kind, those around others first.
template <class Node, class Root, class Visit>
void for_each(const Root& root, const Visit& found) {
  visit(root, [&](const Node* op, Visitor& self) {
    found(op);
    self.inside(op);
  });
}

/// Whether `holds` for some node of a kind.
template <class Node, class Root, class Holds>
bool any(const Root& root, const Holds& holds) {
  bool found = false;
  visit_graph(root, [&](const Node* op, Visitor& self) {
    found = found || holds(op);
    if (!found) self.inside(op);
  });
  return found;
}
template <class Node, class Root>
bool any(const Root& root) {
  return any<Node>(root, [](const Node*) { return true; });
}

}  // namespace tc::ir
