#include "plan/model/nest_traffic.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "base/memory.h"

namespace tc::plan {
namespace {

// Of a cache, what may be touched so that all of it is still there, and so that nothing is: others
// have lines in it too, and it does not drop the oldest first.
constexpr double kStays = 0.75, kGone = 1.25;

/// Whether lines of so many points have places in the sets of the cache, which it tells apart by
/// the low bits of an address.
bool has_places(const Footprint& footprint, const std::vector<int64_t>& points,
                const CacheSize& cache) {
  if (cache.sets == 0) return true;
  const int64_t period = cache.sets * kLineBytes;
  double lines = 1, apart = 1;
  for (const Footprint::Dimension& dimension : footprint.dimensions) {
    const double places = std::min(dimension.whole, dimension.places_of(points));
    if (places <= 1) continue;
    int64_t step = 0;
    for (size_t m = 0; m < points.size(); ++m)
      if (dimension.steps[m] && *dimension.steps[m] != 0 && points[m] > 1)
        step = std::gcd(step, *dimension.steps[m]);
    const double bytes =
        dimension.stride * footprint.element * static_cast<double>(std::max<int64_t>(1, step));
    if (bytes < kLineBytes) {
      lines *= std::ceil(places * bytes / kLineBytes);
      apart *= std::ceil(places * bytes / kLineBytes);
      continue;
    }
    const int64_t common = std::gcd(static_cast<int64_t>(bytes), period);
    lines *= places;
    apart *= std::min(places, static_cast<double>(period / std::max<int64_t>(kLineBytes, common)));
  }
  return lines <=
         std::min(apart, static_cast<double>(cache.sets)) * static_cast<double>(cache.ways);
}

}  // namespace

double kept_share(double touched) {
  return std::clamp((kGone - touched) / (kGone - kStays), 0.0, 1.0);
}

NestTraffic::NestTraffic(CacheSize cache, std::vector<int64_t> block)
    : cache_(cache), points_(std::move(block)) {}

size_t NestTraffic::add(const Footprint& footprint) {
  const double lines = footprint.lines(points_);
  accesses_.push_back({footprint, lines, lines});
  return accesses_.size() - 1;
}

void NestTraffic::fill(size_t access) {
  Access& buffer = accesses_[access];
  const double stays = kept_share(buffer.lines * kLineBytes / cache_.bytes);
  buffer.filled = true;
  buffer.stayed = stays * buffer.lines;
  buffer.left = (1 - stays) * buffer.lines;
}

void NestTraffic::pass(const NestLoop& loop) {
  double touched = 0;  // lines, by everything inside the loops so far
  for (const Access& access : accesses_) touched += access.lines;
  const double share = kept_share(touched * kLineBytes / cache_.bytes);
  std::vector<double> kept;
  for (const Access& access : accesses_)
    kept.push_back(access.lines > 0 && has_places(access.footprint, points_, cache_) ? share : 0);
  points_[loop.iterator] = loop.extent;
  for (size_t a = 0; a < accesses_.size(); ++a) {
    Access& access = accesses_[a];
    if (access.filled) {
      access.brought *= loop.iterations();
      access.stayed *= loop.iterations();
      access.left *= loop.iterations();
      continue;
    }
    const double whole = std::max(access.lines, access.footprint.lines(points_));
    const double again = std::max(1.0, loop.iterations());
    access.brought *= kept[a] > 0 ? kept[a] * whole / access.lines + (1 - kept[a]) * again : again;
    access.lines = whole;
  }
}

}  // namespace tc::plan
