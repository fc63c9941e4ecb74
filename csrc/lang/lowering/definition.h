// A checked definition, and the program that range inference makes of it: the whole promise of the
// TC frontend to the rest of the compiler.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "ir/program.h"

namespace tc::lang {

struct Function;  // the checked tree; see tree.h

struct Definition {
  std::string name;
  std::string text;  ///< canonical text; parses to the same tree
  std::string key;   ///< canonical text with every name replaced
  /// The signature: parameters, sizes, scalars and tensors are filled, `statements` is empty, and
  /// output tensors have a type and a rank (their sizes are undefined expressions until inferred).
  ir::Program signature;
  std::shared_ptr<const Function> tree;

  /// Whether some left-hand side is scattered.
  bool scatters() const;
};

struct Module {
  std::vector<std::shared_ptr<const Definition>> definitions;
  std::vector<std::string> warnings;  ///< messages with carets
};

/// Parses and checks a text. LanguageError with line, column and caret.
Module parse(const std::string& text);

/// Range inference in rounds (see docs/language.md): every iterator gets a min and an extent, every
/// output its sizes, as expressions over the definition's sizes. `scalars` gives a value to each
/// specialised scalar. LanguageError where a range cannot be inferred.
ir::Program infer_ranges(const Definition& definition,
                         const std::map<std::string, int64_t>& scalars);

/// What sizes alone say of a specialised program's accesses.
struct AccessCheck {
  /// The first read or write that leaves its tensor, as a sentence naming the access, the values of
  /// its indices, the offending index and the size; empty where none does.
  std::string outside;
  /// What only data can decide, in the order of evaluation.
  std::vector<ir::OpenAccess> open;
};
AccessCheck check_accesses(const ir::Program& program);

}  // namespace tc::lang
