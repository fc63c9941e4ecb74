// The one include of Halide (design decision 8). Version guards, helpers and pitfalls live here.
//
// Pitfalls:
//  - For::make takes (min, extent) in Halide 21 and (min, max) in 22, with the same C++ types;
//  loops
//    are only built through `make_for` below, and the static_assert stops a silent upgrade.
//  - Halide's Div and Mod on integers round down. C's truncation is `ir::c_div` and `ir::c_mod`.
//  - get_host_target() tells AMD's processors by family and model, whatever a hypervisor shows:
//    `codegen/cpu/host_target` asks the processor.
//  - simplify fails ("Concat of zero vectors") at a named slice of two vectors that runs backwards,
//    and the lets that rewrite_interleavings makes take every second lane: of four shuffled lanes
//    these are always a slice. Lanes are moved as a slice of two vectors.
//  - Halide throws Halide::Error; `api/error.cpp` turns it into an InternalError, since no user text
//    should reach one of Halide's own checks.
#pragma once

#include <Halide.h>

#include <string>

static_assert(HALIDE_VERSION_MAJOR == 21,
              "Halide 22 changed For::make to (min, max): review ir/halide.h before upgrading");

namespace tc::ir {

using Halide::Expr;
using Halide::Type;
// What works on expressions and statements is written in Halide's terms.
using namespace Halide::Internal;

/// for (name = min; name < min + extent; ++name) body
inline Stmt make_for(const std::string& name, const Expr& min, const Expr& extent, ForType type,
                     Stmt body) {
  return For::make(name, min, extent, type, Halide::Partition::Never, Halide::DeviceAPI::None,
                   std::move(body));
}

/// An integer variable; loop iterators, indices and sizes are Int(32) unless said otherwise.
inline Expr make_variable(const std::string& name, Type type = Halide::Int(32)) {
  return Variable::make(type, name);
}

/// buffer[index], unpredicated. `index` counts elements.
inline Expr make_load(Type type, const std::string& buffer, const Expr& index,
                      const Halide::Parameter& parameter = {}) {
  return Load::make(type, buffer, index, Halide::Buffer<>(), parameter, const_true(type.lanes()),
                    ModulusRemainder());
}

/// buffer[index] = value, unpredicated.
inline Stmt make_store(const std::string& buffer, const Expr& index, const Expr& value,
                       const Halide::Parameter& parameter = {}) {
  return Store::make(buffer, value, index, parameter, const_true(value.type().lanes()),
                     ModulusRemainder());
}

}  // namespace tc::ir
