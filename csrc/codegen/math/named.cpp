#include "codegen/math/named.h"

#include <string>

#include "codegen/names.h"

namespace tc::codegen {

Expr named(const Expr& value, const std::function<Expr(const Expr&)>& use) {
  if (value.as<Variable>() || value.as<Load>() || is_const(value)) return use(value);
  std::string name = unique_name("m");
  return Let::make(name, value, use(Variable::make(value.type(), name)));
}

}  // namespace tc::codegen
