#include "runtime/overlap.h"

#include <algorithm>
#include <cstdlib>
#include <vector>

#include "base/error.h"
#include "poly/isl.h"

namespace tc::runtime {
namespace {

bool is_empty(const Layout& layout) {
  return std::any_of(layout.sizes.begin(), layout.sizes.end(), [](int64_t s) { return s == 0; });
}

/// First byte and the byte after the last.
std::pair<int64_t, int64_t> span(const MemoryRegion& region) {
  const auto [low, high] = reach(region.layout);
  int64_t base = static_cast<int64_t>(reinterpret_cast<intptr_t>(region.data));
  return {base + low * region.bytes, base + (high + 1) * region.bytes};
}

/// offset + sum of bytes * stride * prefix_d, with its bounds, in isl's syntax.
struct Address {
  std::string indices, bounds, sum;
};

Address address(const Layout& layout, int64_t bytes, const std::string& prefix) {
  Address a{"", "", "0"};
  for (size_t d = 0; d < layout.sizes.size(); ++d) {
    std::string name = concat(prefix, d);
    a.indices += (a.indices.empty() ? "" : ", ") + name;
    a.bounds += concat(" and 0 <= ", name, " < ", layout.sizes[d]);
    a.sum += concat(" + ", bytes * layout.strides[d], " * ", name);
  }
  return a;
}

std::string join(const std::string& a, const std::string& b) {
  return a.empty() || b.empty() ? a + b : a + ", " + b;
}

bool is_satisfiable(const std::string& set) {
  poly::Context context;
  const bool found = !isl::set(context.get(), set).is_empty();
  context.require_memory();
  return found;
}

}  // namespace

std::pair<int64_t, int64_t> reach(const Layout& layout) {
  int64_t low = 0, high = 0;
  for (size_t d = 0; d < layout.sizes.size(); ++d) {
    const int64_t distance = std::max<int64_t>(0, layout.sizes[d] - 1) * layout.strides[d];
    (distance < 0 ? low : high) += distance;
  }
  return {low, high};
}

bool overlap(const MemoryRegion& a, const MemoryRegion& b) {
  if (!a.data || !b.data || is_empty(a.layout) || is_empty(b.layout)) return false;
  auto [a_low, a_high] = span(a);
  auto [b_low, b_high] = span(b);
  if (a_high <= b_low || b_high <= a_low) return false;
  int64_t distance = static_cast<int64_t>(reinterpret_cast<intptr_t>(b.data)) -
                     static_cast<int64_t>(reinterpret_cast<intptr_t>(a.data));
  Address x = address(a.layout, a.bytes, "a"), y = address(b.layout, b.bytes, "b");
  // The first bytes of two elements are closer than one of them is long.
  return is_satisfiable(concat("{ [", join(join(x.indices, y.indices), "d"), "] : d = ", distance,
                               " + ", y.sum, " - (", x.sum, ") and ", -b.bytes, " < d < ", a.bytes,
                               x.bounds, y.bounds, " }"));
}

bool overlaps_itself(const Layout& layout) {
  if (is_empty(layout)) return false;
  // The common case: sorted by stride, every step clears what the smaller ones cover.
  std::vector<std::pair<int64_t, int64_t>> steps;
  for (size_t d = 0; d < layout.sizes.size(); ++d)
    if (layout.sizes[d] > 1) steps.push_back({std::abs(layout.strides[d]), layout.sizes[d]});
  std::sort(steps.begin(), steps.end());
  int64_t covered = 0;
  bool nested = true;
  for (auto [stride, size] : steps) {
    if (stride == 0) return true;
    nested = nested && stride > covered;
    covered += stride * (size - 1);
  }
  if (nested) return false;
  Address x = address(layout, 1, "a"), y = address(layout, 1, "b");
  std::string different;
  for (size_t d = 0; d < layout.sizes.size(); ++d)
    different += concat(d ? " or " : "", "a", d, " != b", d);
  return is_satisfiable(concat("{ [", join(x.indices, y.indices), "] : ", x.sum, " = ", y.sum,
                               x.bounds, y.bounds, " and (", different, ") }"));
}

}  // namespace tc::runtime
