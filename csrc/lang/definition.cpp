#include "lang/definition.h"

#include <algorithm>

#include "base/error.h"
#include "lang/calls.h"
#include "lang/parser.h"
#include "lang/printer.h"
#include "lang/sema.h"
#include "lang/to_program.h"

namespace tc::lang {
namespace {

bool has_specialized_scalar(const ir::Program& signature) {
  for (const auto& entry : signature.scalars) {
    if (entry.second.specialized) return true;
  }
  return false;
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
      throw LanguageError(function.name.where, concat(function.name.name,
                                                      " already defined in this text; choose "
                                                      "another name"));
    }
    inline_calls(&function, known);
    known[function.name.name] = clone(function);

    auto tree = std::make_shared<Function>(std::move(function));
    auto definition = std::make_shared<Definition>();
    definition->signature = check(tree.get(), &module.warnings);
    definition->name = tree->name.name;
    definition->text = print(*tree);
    definition->key = print_key(*tree);
    definition->tree = tree;
    // Ranges that cannot be inferred are best reported where the text is; with specialised scalars
    // that takes their values.
    if (!has_specialized_scalar(definition->signature)) infer_ranges(*definition, {});
    module.definitions.push_back(definition);
  }
  return module;
}

ir::Program infer_ranges(const Definition& definition,
                         const std::map<std::string, int64_t>& scalars) {
  return to_program(*definition.tree, definition.signature, scalars);
}

}  // namespace tc::lang
