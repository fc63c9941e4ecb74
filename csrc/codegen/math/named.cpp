#include "codegen/math/named.h"

#include "codegen/names.h"

namespace tc::codegen {

Expr Names::operator()(const Expr& value) {
  if (value.as<Variable>() || value.as<Load>() || is_const(value)) return value;
  values_.emplace_back(unique_name("m"), value);
  return Variable::make(value.type(), values_.back().first);
}

Expr Names::around(Expr e) const { return with_names<Let>(values_, std::move(e)); }

Expr named(const Expr& value, const std::function<Expr(const Expr&)>& use) {
  Names names;
  const Expr name = names(value);
  return names.around(use(name));
}

}  // namespace tc::codegen
