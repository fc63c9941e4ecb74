#include "runtime/element_range.h"

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <limits>

#include "machine/limits.h"

// One function an instruction set, chosen when the library is loaded.
#if defined(__x86_64__)
#define TC_FOR_VECTORS __attribute__((target_clones("default", "avx2", "avx512f")))
#else
#define TC_FOR_VECTORS
#endif

namespace tc::runtime {
namespace {

/// The largest difference to `least`, as unsigned numbers, among which those of smaller elements
/// are the largest. (A template has no clones.)
#define TC_LARGEST_DIFFERENCE(Unsigned)                                                  \
  TC_FOR_VECTORS Unsigned largest(const Unsigned* data, int64_t count, Unsigned least) { \
    Unsigned largest = 0;                                                                \
    for (int64_t i = 0; i < count; ++i) {                                                \
      Unsigned difference = static_cast<Unsigned>(data[i] - least);                      \
      largest = difference > largest ? difference : largest;                             \
    }                                                                                    \
    return largest;                                                                      \
  }
TC_LARGEST_DIFFERENCE(uint8_t)
TC_LARGEST_DIFFERENCE(uint16_t)
TC_LARGEST_DIFFERENCE(uint32_t)
TC_LARGEST_DIFFERENCE(uint64_t)
#undef TC_LARGEST_DIFFERENCE

template <class Unsigned>
class Walk {
 public:
  Walk(const ElementRange& range, Unsigned least, Unsigned span)
      : sizes_(range.sizes), strides_(range.strides), least_(least), span_(span) {}

  bool is_within(const Unsigned* data, const tc_host& host) const {
    if (sizes_.empty()) return is_inside(*data);
    int64_t total = 1;
    for (int64_t size : sizes_) total *= size;
    struct Task {
      const Walk* walk;
      const Unsigned* data;
      std::atomic<bool> inside{true};
    } task{this, data};
    // The first dimension is what threads share; a single long one is cut where it is.
    if (total < machine::kSharedElements || sizes_[0] < 2) return rows(data, 0, 0, sizes_[0]);
    host.parallel_for(
        host.context, sizes_[0],
        [](void* given, int64_t begin, int64_t end) {
          Task& t = *static_cast<Task*>(given);
          if (!t.walk->rows(t.data, 0, begin, end)) t.inside = false;
        },
        &task);
    return task.inside;
  }

 private:
  bool is_inside(Unsigned element) const {
    return static_cast<Unsigned>(element - least_) <= span_;
  }

  bool rows(const Unsigned* data, size_t dimension, int64_t begin, int64_t end) const {
    const int64_t stride = strides_[dimension];
    data += begin * stride;
    if (dimension + 1 == sizes_.size()) {
      if (stride == 1) return largest(data, end - begin, least_) <= span_;
      bool inside = true;
      for (int64_t i = begin; i < end; ++i, data += stride) inside = inside && is_inside(*data);
      return inside;
    }
    for (int64_t i = begin; i < end; ++i, data += stride)
      if (!rows(data, dimension + 1, 0, sizes_[dimension + 1])) return false;
    return true;
  }

  const std::vector<int64_t>&sizes_, &strides_;
  Unsigned least_, span_;
};

template <class Signed, class Unsigned>
bool is_within_as(const ElementRange& range, const void* data, const tc_host& host) {
  const bool is_unsigned = range.is_unsigned;
  // 64-bit unsigned elements beyond the signed ones are never allowed.
  const int64_t lowest = is_unsigned ? 0 : std::numeric_limits<Signed>::min();
  const int64_t highest = is_unsigned && sizeof(Unsigned) < 8
                              ? static_cast<int64_t>(std::numeric_limits<Unsigned>::max())
                          : is_unsigned ? std::numeric_limits<int64_t>::max()
                                        : static_cast<int64_t>(std::numeric_limits<Signed>::max());
  const int64_t least = std::max(range.least, lowest), most = std::min(range.most, highest);
  if (least > most) return false;
  const Walk<Unsigned> walk(
      range, static_cast<Unsigned>(least),
      static_cast<Unsigned>(static_cast<uint64_t>(most) - static_cast<uint64_t>(least)));
  return walk.is_within(static_cast<const Unsigned*>(data) + range.offset, host);
}

}  // namespace

void join_dimensions(ElementRange& range) {
  std::vector<int64_t>&sizes = range.sizes, &strides = range.strides;
  std::vector<std::pair<int64_t, int64_t>> dimensions;
  for (size_t d = 0; d < sizes.size(); ++d)
    if (sizes[d] != 1) dimensions.emplace_back(strides[d], sizes[d]);
  std::stable_sort(dimensions.begin(), dimensions.end(), [](const auto& a, const auto& b) {
    return std::abs(a.first) > std::abs(b.first);
  });
  sizes.clear();
  strides.clear();
  for (auto [stride, size] : dimensions) {
    // An element that stands for many is looked at once.
    if (stride == 0) continue;
    if (!sizes.empty() && strides.back() == stride * size) {
      sizes.back() *= size;
      strides.back() = stride;
    } else {
      sizes.push_back(size);
      strides.push_back(stride);
    }
  }
}

bool is_within(const ElementRange& range, const void* data, const tc_host& host) {
  for (int64_t size : range.sizes)
    if (size == 0) return true;
  switch (range.bits) {
    case 8: return is_within_as<int8_t, uint8_t>(range, data, host);
    case 16: return is_within_as<int16_t, uint16_t>(range, data, host);
    case 32: return is_within_as<int32_t, uint32_t>(range, data, host);
    default: return is_within_as<int64_t, uint64_t>(range, data, host);
  }
}

}  // namespace tc::runtime
