#include "plan/model/line_cycles.h"

#include <algorithm>

namespace tc::plan {

double second_cache_bytes(const CpuMachine& machine) {
  return 2 * static_cast<double>(machine.cache_bytes);
}

Lines cycles_of_bytes(const Brought& bytes, double touched, const LineCosts& costs,
                      const CpuMachine& machine) {
  Lines result;
  result.second = bytes[0] / machine.second_cache_rate() * costs.second / 100;
  if (touched <= second_cache_bytes(machine)) return result;
  const bool kept = touched <= static_cast<double>(machine.last_cache_share);
  const double from_memory = kept ? 0 : std::min(bytes[1], bytes[2]);
  result.last = (bytes[1] - from_memory) * costs.last / machine.last_cache_rate / 100;
  result.memory = from_memory * costs.memory / machine.memory_rate / 100;
  return result;
}

double cycles_of_lines(double bytes, const CpuMachine& machine) {
  const Lines lines = cycles_of_bytes({bytes, bytes, bytes}, bytes, walked_lines(machine), machine);
  return lines.second + lines.last + lines.memory;
}

}  // namespace tc::plan
