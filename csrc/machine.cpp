#include "machine.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <thread>

#include "base/error.h"
#include "base/notes.h"
#include "codegen/cpu_jit.h"
#include "codegen/host_target.h"
#include "runtime/libraries.h"

namespace tc {
namespace {

/// 0 where the system does not say. The C library adds up all of an AMD processor's, of which a
/// core has one (320 MiB and 32, measured).
int64_t last_cache_bytes() {
  static const int64_t bytes = [] {
    std::ifstream file("/sys/devices/system/cpu/cpu0/cache/index3/size");
    int64_t kibibytes = 0;
    char unit = 0;
    return file >> kibibytes >> unit && unit == 'K' ? kibibytes << 10 : int64_t{0};
  }();
  return bytes;
}

}  // namespace

poly::CpuMachine this_machine() {
  poly::CpuMachine machine;
  machine.vector_bits = codegen::cpu_vector_bits();
  machine.unit_bits = std::min(machine.vector_bits, codegen::widest_unit_bits());
  // AVX-512 came with twice the registers.
  machine.vector_registers = machine.vector_bits >= 512 ? 32 : 16;
  machine.cores = std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
#ifdef _SC_LEVEL2_CACHE_SIZE
  int64_t second_level = sysconf(_SC_LEVEL2_CACHE_SIZE);
  if (second_level > 0) machine.cache_bytes = second_level / 2;
#endif
  machine.last_cache_bytes = last_cache_bytes();
  machine.threads = std::min(machine.cores, runtime::host_threads());
  const char* given = std::getenv("TC_MACHINE");
  std::istringstream entries(given ? given : "");
  for (std::string entry; std::getline(entries, entry, ',');) {
    size_t equals = entry.find('=');
    std::string key = entry.substr(0, equals);
    int64_t value = equals == std::string::npos ? 0 : std::atoll(entry.c_str() + equals + 1);
    if (value <= 0)
      throw UsageError(concat("TC_MACHINE: '", entry, "' is no name and number, as in cores=2"));
    // Fewer registers hold no block at all.
    constexpr int64_t kFewestRegisters = 8;
    if (key == "vector_bits" && value % 128 == 0)
      machine.unit_bits = machine.vector_bits = static_cast<int>(value);
    else if (key == "unit_bits" && value % 128 == 0)
      machine.unit_bits = static_cast<int>(value);
    else if (key == "vector_registers" && value >= kFewestRegisters)
      machine.vector_registers = static_cast<int>(value);
    else if (key == "cores")
      machine.threads = machine.cores = static_cast<int>(value);
    else if (key == "cache_bytes")
      machine.cache_bytes = value;
    else if (key == "last_cache_bytes")
      machine.last_cache_bytes = value;
    else if (key == "library_rate")
      machine.library_rate = static_cast<double>(value);
    else if (key == "library_call_cycles")
      machine.library_call_cycles = static_cast<double>(value);
    else if (key == "least_percent")
      machine.least_percent = value;
    else
      throw UsageError(
          concat("TC_MACHINE: '", entry,
                 "' is not understood; it takes vector_bits and unit_bits (each a "
                 "multiple of 128), vector_registers (at least ",
                 kFewestRegisters,
                 "), cores, cache_bytes, last_cache_bytes, library_rate, library_call_cycles and "
                 "least_percent"));
  }
  return machine;
}

std::string to_string(const poly::CpuMachine& machine) {
  const std::string units =
      machine.unit_bits < machine.vector_bits ? concat(" in units of ", machine.unit_bits) : "";
  return concat(machine.vector_bits, "-bit vectors", units, ", ", machine.vector_registers,
                " registers, ", plural(machine.cores, "core"), ", ",
                bytes_text(static_cast<double>(machine.cache_bytes)), " of cache for copies");
}

double peak_operations(const poly::CpuMachine& machine, int bits) {
  return 4.0 * machine.step_bits() / bits;
}

}  // namespace tc
