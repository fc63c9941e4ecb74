#include "plan/model/shared_windows.h"

#include <algorithm>

namespace tc::plan {

double different_share(const std::vector<Walk>& walks) {
  std::vector<int64_t> places = {0};
  double all = 1;
  for (const Walk& walk : walks) {
    all *= static_cast<double>(walk.count);
    const size_t before = places.size();
    for (int64_t k = 1; k < walk.count; ++k)
      for (size_t p = 0; p < before; ++p) places.push_back(places[p] + k * walk.step);
    std::sort(places.begin(), places.end());
    places.erase(std::unique(places.begin(), places.end()), places.end());
  }
  return static_cast<double>(places.size()) / all;
}

}  // namespace tc::plan
