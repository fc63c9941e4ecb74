#include "lang/sema/call_conditions.h"

#include "base/error.h"
#include "base/notes.h"
#include "lang/lowering/ranges.h"
#include "lang/sema/types.h"
#include "lang/syntax/expressions.h"

namespace tc::lang {

using namespace Halide::Internal;

namespace {

/// What is known of a dimension of a tensor; undefined where that is nothing.
Expr size_of(const ir::Program& program, const std::string& tensor, size_t dimension) {
  auto found = program.tensors.find(tensor);
  if (found == program.tensors.end() || dimension >= found->second.sizes.size()) return Expr();
  return found->second.sizes[dimension];
}

Expr wanted_size(const ir::Program& program, const SameSize& same) {
  if (same.other.empty()) return make_const(Halide::Int(32), same.constant);
  return size_of(program, same.other, same.other_dimension);
}

using Sizes = std::map<std::string, Expr>;

/// Replaces sizes of the inputs everywhere by others or by numbers.
void rename_sizes(Function* function, const Sizes& renamed) {
  for (auto* list : {&function->parameters, &function->returns})
    for (Declaration& declaration : *list)
      for (DimensionSize& size : declaration.dimensions) {
        const auto to = renamed.find(size.name);
        if (to == renamed.end()) continue;
        const auto* variable = to->second.as<Variable>();
        size.name = variable ? variable->name : "";
        size.constant = variable ? 0 : *as_const_int(to->second);
      }
  for (TreeStatement& statement : function->statements)
    rewrite(statement, [&](const Expression& node) -> ExpressionPtr {
      if (node.kind != ExpressionKind::Name) return nullptr;
      const auto to = renamed.find(node.name);
      if (to == renamed.end()) return nullptr;
      const auto* variable = to->second.as<Variable>();
      // A size is an int32, whatever stands beside it.
      ExpressionPtr other = variable ? name(variable->name)
                                     : cast(Halide::Int(32), integer(*as_const_int(to->second)));
      other->where = node.where;
      return other;
    });
}

/// Of the names of two sizes the one that stands first.
bool stands_before(const ir::Program& program, const std::string& a, const std::string& b) {
  for (const std::string& size : program.sizes)
    if (size == a || size == b) return size == a;
  return true;
}

}  // namespace

void check_wanted_types(const Function& function, const ir::Program& signature) {
  for (const WantedType& wanted : function.wanted_types) {
    auto found = signature.tensors.find(wanted.tensor);
    if (found == signature.tensors.end() || found->second.type == wanted.type) continue;
    std::vector<std::string> indices;
    for (size_t d = 0; d < found->second.sizes.size(); ++d)
      indices.push_back(std::string(1, static_cast<char>('i' + d % 8)));  // for an example
    const std::string place = concat("(", join(indices), ")"), type = type_name(wanted.type);
    throw LanguageError(wanted.where, wanted.callee, " takes a tensor of ", type, " for ",
                        wanted.parameter, ", but ", wanted.tensor, " is of ",
                        type_name(found->second.type),
                        "; convert it in a statement of its own, as in ", wanted.tensor, "_", place,
                        " = ", type, "(", wanted.tensor, place, ")");
  }
}

bool unify_sizes(Function* function, const ir::Program& program) {
  // All at once: what is computed from tensors whose sizes have become one has that size too.
  Sizes renamed;
  const auto now = [&](const Expr& size) {
    return size.defined() && !renamed.empty() ? simplify_size(substitute(renamed, size), program)
                                              : size;
  };
  for (const SameSize& same : function->same_sizes) {
    const Expr size = now(size_of(program, same.tensor, same.dimension));
    const Expr wanted = now(wanted_size(program, same));
    if (!size.defined() || !wanted.defined()) continue;
    Expr difference = simplify_size(size - wanted, program);
    if (is_const_zero(difference)) continue;
    if (is_const(difference)) {
      std::string value = ir::plain_text(wanted);
      throw LanguageError(same.where, same.callee, " takes ", same.size,
                          value == same.size ? "" : " = " + value, " for dimension ",
                          same.dimension, " of ", same.parameter, ", but that of ", same.tensor,
                          " is ", ir::plain_text(size));
    }
    const auto *a = wanted.as<Variable>(), *b = size.as<Variable>();
    Sizes one;
    if (b && (a ? stands_before(program, a->name, b->name) : as_const_int(wanted).has_value()))
      one[b->name] = wanted;
    else if (a && (b || as_const_int(size)))
      one[a->name] = size;
    else
      continue;
    for (auto& [from, to] : renamed) to = substitute(one, to);
    renamed.insert(one.begin(), one.end());
  }
  if (!renamed.empty()) rename_sizes(function, renamed);
  return !renamed.empty();
}

std::vector<ir::DeclaredSize> open_conditions(const Function& function,
                                              const ir::Program& program) {
  std::vector<ir::DeclaredSize> open;
  for (const SameSize& same : function.same_sizes) {
    const Expr size = size_of(program, same.tensor, same.dimension);
    const Expr wanted = wanted_size(program, same);
    if (!size.defined() || !wanted.defined() || always_equal(size, wanted, program)) continue;
    open.push_back({same.tensor, same.dimension, same.size, wanted,
                    concat(same.parameter, " of ", same.callee)});
  }
  return open;
}

}  // namespace tc::lang
