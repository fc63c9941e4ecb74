#include "codegen/cuda/block_threads.h"

#include <algorithm>

#include "base/error.h"
#include "codegen/names.h"

namespace tc::codegen {

int64_t count_threads(const ThreadLoops& loops) {
  int64_t count = 1;
  for (const Loop* loop : loops) {
    const auto extent = as_const_int(loop->extent);
    TC_INTERNAL_CHECK(extent, "the number of threads of ", loop->name, " varies");
    count *= *extent;
  }
  return count;
}

Expr thread_number(const ThreadLoops& loops) {
  Expr number = 0;
  for (const Loop* loop : loops)
    number = number * loop->extent + (ir::make_variable(loop->name) - loop->min);
  return simplify(number);
}

bool uses_threads(const Expr& e, const ThreadLoops& loops) {
  return std::any_of(loops.begin(), loops.end(),
                     [&](const Loop* loop) { return expr_uses_var(e, loop->name); });
}

}  // namespace tc::codegen
