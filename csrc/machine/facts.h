// The facts of the processor at hand, each with its source, and TC_MACHINE, which replaces them.
#pragma once

#include <string>
#include <vector>

#include "machine/cpu.h"

namespace tc::machine {

/// A number of `CpuMachine`, by the name that TC_MACHINE gives it.
struct Fact {
  double (*get)(const CpuMachine&);
  void (*set)(CpuMachine&, double);
  double most;  ///< that its field holds
  const char* name;
  const char* unit;
  const char* meaning;
  int64_t least = 1;     ///< that makes sense
  int64_t multiple = 1;  ///< of what it has to be; 0: any number, with decimals too
};
const std::vector<Fact>& facts();

/// The processor, and where each of its facts comes from, in their order.
struct Known {
  CpuMachine cpu;
  std::vector<std::string> sources;
};

/// This processor, or what TC_MACHINE says instead, so that decisions can be compared between
/// machines: "vector_bits=512,vector_registers=32,cores=2". `vector_bits` begins the description of
/// another processor: what was measured of this one (machine/processors.h) is as if unknown. That
/// changes decisions only; code is made for the processor at hand. `host_threads` is how many the
/// host has for us. UsageError for any other text.
Known look_up(int host_threads);

/// All facts, for a key: "vector_bits=512,unit_bits=512,...", as TC_MACHINE takes them.
std::string values(const CpuMachine& cpu);

/// Those that decide whether a Plan which was tuned on one machine is for another: vectors, units
/// and the caches of a core.
std::string likeness(const CpuMachine& cpu);

/// One line a fact: name, value, unit, source, meaning and, where `measure` says so and there is a
/// way to, what was measured, between tabs. Measuring takes some seconds.
std::string describe(const Known& known, bool measure);

}  // namespace tc::machine
