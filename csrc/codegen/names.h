// What code generation takes from Halide, from programs and from nests, by the names it has there.
#pragma once

#include "ir/halide.h"
#include "nest/nest.h"

namespace tc::codegen {

using namespace Halide::Internal;

using ir::Expr;
using ir::Type;

using nest::as;
using nest::Compute;
using nest::Loop;
using nest::Nest;
using nest::Role;

}  // namespace tc::codegen
