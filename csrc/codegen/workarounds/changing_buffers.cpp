#include "codegen/workarounds/changing_buffers.h"

#include <map>
#include <string>

#include "codegen/names.h"
#include "ir/visit.h"

namespace tc::codegen {
namespace {

using Parameters = std::map<std::string, Halide::Parameter>;

Parameters stored(const Stmt& stmt) {
  Parameters parameters;
  ir::for_each<Store>(stmt, [&](const Store* op) { parameters[op->name] = op->param; });
  return parameters;
}

Stmt set_parameters(const Stmt& stmt, const Parameters& parameters) {
  return ir::mutate(stmt, [&](const Load* op, ir::Mutator& self) {
    auto found = parameters.find(op->name);
    if (found == parameters.end()) return self.inside(op);
    return Load::make(op->type, op->name, self.mutate(op->index), op->image, found->second,
                      self.mutate(op->predicate), op->alignment);
  });
}

}  // namespace

Stmt forget_parameters(const Stmt& stmt) {
  Parameters parameters = stored(stmt);
  for (auto& [name, parameter] : parameters) parameter = Halide::Parameter();
  return set_parameters(stmt, parameters);
}

Stmt recall_parameters(const Stmt& stmt) { return set_parameters(stmt, stored(stmt)); }

}  // namespace tc::codegen
