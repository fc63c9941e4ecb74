#include "ir/intervals.h"

#include <algorithm>

namespace tc::ir {

Halide::Internal::Scope<Halide::Internal::ConstantInterval> index_intervals(
    const std::vector<Iterator>& domain) {
  Halide::Internal::Scope<Halide::Internal::ConstantInterval> intervals;
  for (const Iterator& it : domain) {
    const int64_t first = *Halide::Internal::as_const_int(it.min);
    const int64_t extent = std::max<int64_t>(extent_of(it), 1);
    intervals.push(it.name, {first, first + extent - 1});
  }
  return intervals;
}

}  // namespace tc::ir
