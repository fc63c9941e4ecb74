// What the names of a definition stand for, while it is checked.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "lang/syntax/tree.h"

namespace tc::lang {

struct TensorInfo {
  size_t rank = 0;
  bool input = false, returned = false, annotated = false;
  Type type;
  /// False until a statement or annotation decides the type; reads then adapt like literals.
  bool typed = false;
  Type literal_type;  ///< of the literals assigned so far, while not typed
  bool has_literal = false;
  int first_statement = -1;
  SourceRange where;
};

struct Scope {
  std::set<std::string> sizes;
  std::map<std::string, ir::Scalar> scalars;
  std::map<std::string, TensorInfo> tensors;
  /// False while types are still being found, when an unknown one is no error.
  bool all_typed = false;

  // Of the statement being checked.
  int position = 0;
  std::set<std::string> indices, used_lets;
  std::map<std::string, ExpressionPtr> lets;

  /// LanguageError where the name already stands for something else.
  void declare_index(const Identifier& id);
  /// Whether a bare name is none of those declared, so that it stands for an index.
  bool is_new_index(const std::string& name) const;
  std::vector<std::string> visible_names() const;
  /// The LanguageError of a name that is used and stands for nothing.
  [[noreturn]] void undefined(const Identifier& id) const;
};

/// "N", "N0, N1": what a message may write for the sizes of a tensor.
std::string example_sizes(size_t rank);

/// LanguageError for the names of types and builtins, and for words that stand for something.
void expect_free_name(const Identifier& id);
/// The same for what is never applied to arguments, an index, a scalar or a let: it may be called y1
/// although a function is.
void expect_free_value_name(const Identifier& id);
[[noreturn]] void already_defined(const Identifier& id, const std::string& as);

}  // namespace tc::lang
