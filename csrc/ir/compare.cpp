#include "ir/compare.h"

#include <algorithm>
#include <tuple>
#include <vector>

#include "base/text_stream.h"
#include "ir/visit.h"

namespace tc::ir {
namespace {

bool same(const Expr& a, const Expr& b) { return graph_equal(a, b); }

bool same(const Parameter& a, const Parameter& b) {
  return a.name == b.name && a.scalar == b.scalar;
}

bool same(const Iterator& a, const Iterator& b) {
  return a.name == b.name && a.reduction == b.reduction && same(a.min, b.min) &&
         same(a.extent, b.extent);
}

bool same(const Statement& a, const Statement& b);

/// Of the same length, and element by element the same.
template <class T>
bool same(const std::vector<T>& a, const std::vector<T>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](const T& x, const T& y) { return same(x, y); });
}

bool same(const Statement& a, const Statement& b) {
  const auto plain = [](const Statement& s) {
    return std::tie(s.name, s.tensor, s.scattered, s.reduction, s.initializes, s.atomic, s.counts);
  };
  return plain(a) == plain(b) && same(a.subscripts, b.subscripts) && same(a.value, b.value) &&
         same(a.guard, b.guard) && same(a.domain, b.domain);
}

bool same(const Tensor& a, const Tensor& b) {
  return a.name == b.name && a.type == b.type && a.role == b.role && same(a.sizes, b.sizes);
}

/// Which of the loads bear a parameter, in order.
std::vector<bool> parameters(const Stmt& stmt) {
  std::vector<bool> found;
  for_each<Load>(stmt, [&](const Load* op) { found.push_back(op->param.defined()); });
  return found;
}

}  // namespace

bool same(const Program& a, const Program& b) {
  return a.outputs == b.outputs && same(a.parameters, b.parameters) &&
         same(a.statements, b.statements) &&
         std::equal(a.tensors.begin(), a.tensors.end(), b.tensors.begin(), b.tensors.end(),
                    [](const auto& x, const auto& y) { return same(x.second, y.second); });
}

bool same(const Stmt& a, const Stmt& b) {
  return a.same_as(b) || (graph_equal(a, b) && parameters(a) == parameters(b));
}

std::string to_string(const Stmt& stmt) {
  TextStream text;
  text << stmt;
  return text.str();
}

}  // namespace tc::ir
