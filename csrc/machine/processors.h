// What was measured of kinds of processors, beside what they and the system say of themselves.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace tc::machine {

/// A kind of processor, and values of facts (machine/facts.h) by their names.
struct Processor {
  std::string name;
  std::vector<std::pair<std::string, double>> facts;
};

/// The kind at hand; null where nothing was measured of it, and the defaults of `CpuMachine` stand,
/// which are those of a Granite Rapids.
const Processor* find_processor();

}  // namespace tc::machine
