#include "codegen/joined_lanes.h"

#include <algorithm>
#include <vector>

namespace tc::codegen {
namespace {

using namespace Halide::Internal;
using ir::Expr;
using ir::Stmt;

class JoinLanesAsBits : public IRMutator {
 private:
  using IRMutator::visit;
  Expr visit(const Shuffle* op) override {
    Expr whole = IRMutator::visit(op);
    op = whole.as<Shuffle>();
    bool scalars = op && op->is_concat() && op->vectors.size() > 1 &&
                   std::all_of(op->vectors.begin(), op->vectors.end(),
                               [](const Expr& e) { return e.type().is_scalar(); });
    Halide::Type type = whole.type();
    if (!scalars || type.is_handle() || (type.is_uint() && !type.is_bool())) return whole;
    std::vector<Expr> bits;
    for (const Expr& e : op->vectors)
      bits.push_back(type.is_bool() ? Halide::cast<uint8_t>(e)
                                    : Halide::reinterpret(Halide::UInt(type.bits()), e));
    Expr joined = Shuffle::make_concat(bits);
    return type.is_bool() ? joined != make_zero(joined.type()) : Halide::reinterpret(type, joined);
  }
};

}  // namespace

Stmt join_lanes_as_bits(const Stmt& stmt) { return JoinLanesAsBits().mutate(stmt); }

}  // namespace tc::codegen
