#include "plan/options/segments.h"

#include <utility>

#include "base/error.h"

namespace tc::plan {

std::string name_in_segment(const std::string& name, size_t segment) {
  return segment > 0 ? concat(segment, kOfSegment, name) : name;
}

MappingOptions options_of_segment(const MappingOptions& options, size_t segment) {
  if (segment == 0) return options;
  MappingOptions own = options;
  own.clusters.clear();
  for (ClusterOptions cluster : options.clusters) {
    bool other = false;
    for (std::string& name : cluster.statements) {
      const size_t mark = name.find(kOfSegment);
      if (mark == std::string::npos) continue;
      other = other || name.substr(0, mark) != std::to_string(segment);
      name.erase(0, mark + 1);
    }
    if (!other) own.clusters.push_back(std::move(cluster));
  }
  return own;
}

}  // namespace tc::plan
