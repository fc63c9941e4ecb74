#include "lang/lowering/definition.h"

#include <algorithm>

#include "base/error.h"
#include "lang/sema/call_conditions.h"
#include "lang/sema/calls.h"
#include "lang/sema/expansion.h"
#include "lang/sema/sema.h"
#include "lang/syntax/parser.h"
#include "lang/syntax/printer.h"

namespace tc::lang {
namespace {

bool has_specialized_scalar(const ir::Program& signature) {
  for (const auto& entry : signature.scalars) {
    if (entry.second.specialized) return true;
  }
  return false;
}

/// Gives a definition its tree and signature: checks a function whose calls are inlined, and has
/// sizes that these want equal take one name.
void check_calls(Function* function, Definition* definition, std::vector<std::string>* warnings) {
  for (;;) {
    auto tree = std::make_shared<Function>(clone(*function));
    std::vector<std::string> found;
    definition->signature = check(tree.get(), &found);
    definition->tree = tree;
    check_wanted_types(*tree, definition->signature);
    bool renamed = unify_sizes(function, definition->signature);
    if (!renamed && !function->same_sizes.empty() && !has_specialized_scalar(definition->signature))
      renamed = unify_sizes(function, infer_ranges(*definition, {}));
    if (renamed) continue;
    warnings->insert(warnings->end(), found.begin(), found.end());
    return;
  }
}

void check_length(const Function& function) {
  if (function.statements.size() <= kMaximumStatements) return;
  throw LanguageError(function.statements[kMaximumStatements].where, function.name.name, " has ",
                      function.statements.size(), " statements, but may have ", kMaximumStatements,
                      "; split it into definitions that are run one after the other");
}

}  // namespace

bool Definition::scatters() const {
  return std::any_of(tree->statements.begin(), tree->statements.end(),
                     [](const TreeStatement& statement) { return statement.scatters(); });
}

Module parse(const std::string& text) {
  Module module;
  std::map<std::string, Function> known;
  for (Function& function : parse_text(text)) {
    if (known.count(function.name.name)) {
      throw LanguageError(function.name.where, function.name.name,
                          " already defined in this text; choose another name");
    }
    inline_calls(&function, known);
    check_length(function);
    auto definition = std::make_shared<Definition>();
    check_calls(&function, definition.get(), &module.warnings);
    known[function.name.name] = std::move(function);
    const Function& tree = *definition->tree;
    definition->name = tree.name.name;
    definition->text = print(tree);
    definition->key = print_key(tree);
    // Ranges that cannot be inferred are best reported where the text is; with specialised scalars
    // that takes their values.
    if (!has_specialized_scalar(definition->signature)) infer_ranges(*definition, {});
    module.definitions.push_back(definition);
  }
  return module;
}

}  // namespace tc::lang
