#include "machine/facts.h"

#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <limits>
#include <map>
#include <sstream>
#include <thread>
#include <type_traits>

#include "base/error.h"
#include "base/notes.h"
#include "base/suggest.h"
#include "base/text_stream.h"
#include "base/threads/leaf_mutex.h"
#include "machine/instruction_sets.h"
#include "machine/measure.h"
#include "machine/processors.h"

namespace tc::machine {
namespace {

// Fewer registers hold no block at all.
constexpr int64_t kFewestRegisters = 8;

// The name of a fact is that of its field.
#define TC_FACT(field)                                                                            \
  [](const CpuMachine& cpu) { return static_cast<double>(cpu.field); },                           \
      [](CpuMachine& cpu, double value) { cpu.field = static_cast<decltype(cpu.field)>(value); }, \
      most_of<decltype(CpuMachine::field)>(), #field

/// The largest number that a field holds exactly.
template <class Field>
constexpr double most_of() {
  constexpr int kDigits =
      std::min(std::numeric_limits<Field>::digits, std::numeric_limits<double>::digits);
  return std::is_floating_point_v<Field> ? std::numeric_limits<double>::max()
                                         : static_cast<double>((int64_t{1} << kDigits) - 1);
}

const char* const kLastCache = "/sys/devices/system/cpu/cpu0/cache/index3/size";

/// 0 where the system does not say. The C library adds up all of an AMD processor's, of which a
/// core has one (320 MiB and 32, measured).
int64_t read_last_cache() {
  std::ifstream file(kLastCache);
  int64_t kibibytes = 0;
  char unit = 0;
  return file >> kibibytes >> unit && unit == 'K' ? kibibytes << 10 : 0;
}

const Fact& find_fact(const std::string& name) {
  auto found = std::find_if(facts().begin(), facts().end(),
                            [&](const Fact& fact) { return name == fact.name; });
  TC_INTERNAL_CHECK(found != facts().end(), "no fact of a machine is named ", name);
  return *found;
}

/// Facts that are looked up, by name, with their sources.
class LookUp {
 public:
  LookUp() {
    if (const Processor* processor = find_processor())
      for (const auto& [name, value] : processor->facts) {
        find_fact(name).set(cpu, value);
        sources[name] = "measured with a " + processor->name;
      }
    const InstructionSets usable = usable_instruction_sets();
    cpu.vector_bits = vector_bits(usable);
    sources["vector_bits"] = "the processor's list of instructions";
    cpu.unit_bits = std::min(cpu.vector_bits, widest_unit_bits());
    sources["unit_bits"] =
        cpu.unit_bits < cpu.vector_bits ? "the processor's family" : "vector_bits";
    // AVX-512 came with twice the registers.
    cpu.vector_registers = cpu.vector_bits >= 512 ? 32 : 16;
    sources["vector_registers"] = "vector_bits";
    if (has_dot_products(usable)) {
      cpu.dot_products = cpu.multiply_adds;
      sources["dot_products"] = "the processor's list of instructions, multiply_adds";
    }
    cpu.lines_of_a_request = machine::lines_of_a_request();
    sources["lines_of_a_request"] = "the processor's maker";
    cpu.cores = std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
    sources["cores"] = "the system";
    sources["threads"] = "the host, at most cores";
#ifdef _SC_LEVEL2_CACHE_SIZE
    const int64_t second_level = sysconf(_SC_LEVEL2_CACHE_SIZE);
    if (second_level > 0) {
      cpu.cache_bytes = second_level / 2;
      sources["cache_bytes"] = "half of what the C library says of the second-level cache";
    }
#endif
#ifdef _SC_PAGESIZE
    if (const int64_t bytes = sysconf(_SC_PAGESIZE); bytes > 0) {
      cpu.page_bytes = bytes;
      sources["page_bytes"] = "the C library";
    }
#endif
    if (const int64_t bytes = read_last_cache()) {
      cpu.last_cache_bytes = bytes;
      sources["last_cache_bytes"] = kLastCache;
    }
  }
  CpuMachine cpu;
  std::map<std::string, std::string> sources;
};

/// Nothing was measured of the processor that is described.
void forget_measured(Known& known) {
  const Processor* processor = find_processor();
  if (!processor) return;
  for (const auto& [name, value] : processor->facts) {
    const Fact& fact = find_fact(name);
    fact.set(known.cpu, fact.get(CpuMachine{}));
    known.sources[static_cast<size_t>(&fact - facts().data())] = "assumed";
  }
}

std::string names_of_facts() {
  std::string text;
  for (const Fact& fact : facts()) {
    const bool last = &fact == &facts().back();
    text += concat(text.empty() ? "" : last ? " and " : ", ", fact.name);
    if (fact.multiple > 1) text += concat(" (a multiple of ", fact.multiple, ")");
    if (fact.least > 1) text += concat(" (at least ", fact.least, ")");
  }
  return text;
}

std::string number(double value) {
  char text[32];
  const InCLocale numbers;
  std::snprintf(text, sizeof text, "%.4g", value);
  const bool whole = std::fabs(value) <= most_of<int64_t>() && value == std::trunc(value);
  return whole ? std::to_string(static_cast<int64_t>(value)) : text;
}

/// All of the text as a number; NaN where it is none.
double read_number(const std::string& text) {
  const InCLocale numbers;
  char* end = nullptr;
  const double value = std::strtod(text.c_str(), &end);
  return text.empty() || *end != 0 ? std::numeric_limits<double>::quiet_NaN() : value;
}

/// One entry of TC_MACHINE.
void replace(Known& known, const std::string& given) {
  const std::string entry = without_blanks(given);
  const size_t equals = entry.find('=');
  const std::string name = without_blanks(entry.substr(0, equals));
  const double value =
      equals == std::string::npos ? 0 : read_number(without_blanks(entry.substr(equals + 1)));
  // Not a number is not above 0 either.
  if (!(value > 0))
    throw UsageError(concat("TC_MACHINE: '", entry, "' is no name and number, as in cores=2"));
  for (size_t k = 0; k < facts().size(); ++k) {
    const Fact& fact = facts()[k];
    if (name != fact.name || value < static_cast<double>(fact.least)) continue;
    if (value > fact.most)
      throw UsageError(concat("TC_MACHINE: '", entry, "' is too large; ", name, " is at most ",
                              number(fact.most)));
    if (fact.multiple > 0 && std::fmod(value, static_cast<double>(fact.multiple)) != 0) continue;
    // A description of another processor begins with its vectors.
    if (name == "vector_bits") forget_measured(known);
    fact.set(known.cpu, value);
    known.sources[k] = "TC_MACHINE";
    return;
  }
  throw UsageError(
      concat("TC_MACHINE: '", entry, "' is not understood; it takes ", names_of_facts()));
}

/// A machine stays what it is. Callers look up outside of tasks, which fork would wait for: a mutex
/// that it does wait for, instead of the guard of a static object.
LeafMutex& looking = *new LeafMutex;
const LookUp* found_here = nullptr;

const LookUp& looked_up() {
  const LeafLock lock(looking);
  if (!found_here) found_here = new LookUp;
  return *found_here;
}

}  // namespace

const std::vector<Fact>& facts() {
  static const std::vector<Fact> all = {
      {[](const CpuMachine& cpu) { return static_cast<double>(cpu.vector_bits); },
       // Units are as wide, if nothing is said of them behind it, and have no more instructions.
       [](CpuMachine& cpu, double value) {
         cpu.dot_products = 0;
         cpu.unit_bits = cpu.vector_bits = static_cast<int>(value);
       },
       most_of<int>(), "vector_bits", "bits", "of a vector register", 1, 128},
      {TC_FACT(unit_bits), "bits", "of a vector that a unit works on in a cycle", 1, 128},
      {TC_FACT(vector_registers), "registers", "for vectors", kFewestRegisters, 1},
      {TC_FACT(multiply_adds), "a cycle", "vectors of a unit that a core multiplies and adds"},
      {TC_FACT(dot_products), "a cycle",
       "vectors of a unit of sums of neighbouring products; 0: it has no instruction for them"},
      {TC_FACT(loads), "a cycle", "vectors of a unit that a core loads from the first cache"},
      {TC_FACT(multiply_latency), "cycles", "from a multiply-add to one that needs it"},
      {TC_FACT(division_cycles), "cycles", "from a division of 256 bits of floats to the next one"},
      {TC_FACT(first_cache_bytes), "bytes", "of the first-level cache for data"},
      {TC_FACT(first_cache_ways), "lines", "that a set of the first-level cache has places for"},
      {TC_FACT(cache_bytes), "bytes", "for copies of operands"},
      {TC_FACT(last_cache_bytes), "bytes",
       "of the last cache; results beyond a part of it go past it"},
      {TC_FACT(private_bytes), "bytes", "of a slice of a temporary that is an iteration's own"},
      {TC_FACT(page_bytes), "bytes", "of memory that is mapped as one, and read ahead no further"},
      {TC_FACT(followed_bytes), "bytes", "from an access to the next one that a core expects"},
      {TC_FACT(line_buffers), "lines", "that may be on their way to the first-level cache"},
      {TC_FACT(second_cache_percent), "percent",
       "of what a unit takes in a cycle, from the second cache"},
      {TC_FACT(walked_line_percent), "percent",
       "of a line's time from the second cache, what no arithmetic hides: along a walk", 0, 0},
      {TC_FACT(spread_line_percent), "percent", "the same of short runs of lines that lie apart", 0,
       0},
      {TC_FACT(last_cache_rate), "bytes a cycle", "that the last cache gives a core", 1, 0},
      {TC_FACT(last_cache_share), "bytes", "of the last cache that a core finds its data in"},
      {TC_FACT(memory_rate), "bytes a cycle", "that a core gets from memory", 1, 0},
      {TC_FACT(task_cycles), "cycles", "to begin a task", 1, 0},
      {TC_FACT(block_cycles), "cycles", "to begin and end a block of results in registers", 1, 0},
      {TC_FACT(loop_cycles), "cycles", "to begin a loop over elements", 1, 0},
      {TC_FACT(spilled_vector_cycles), "cycles",
       "a vector of a block that finds no register, in a step of its sum", 0, 0},
      {TC_FACT(copied_element_cycles), "cycles", "of a copy, an element that is loaded alone", 0,
       0},
      {TC_FACT(copied_vector_cycles), "cycles", "of a copy, a vector that lies alike on both sides",
       0, 0},
      {TC_FACT(transposed_row_cycles), "cycles",
       "of a copy, a row of a square transposed in registers", 0, 0},
      {TC_FACT(transposed_store_cycles), "cycles",
       "a result of a run that is transposed in registers", 0, 0},
      {TC_FACT(scattered_store_cycles), "cycles", "a result that is stored alone", 0, 0},
      {TC_FACT(far_store_cycles), "cycles", "the same on another page than the one before", 0, 0},
      {TC_FACT(lanes_sum_cycles), "cycles", "to add up the lanes of a sum", 0, 0},
      {TC_FACT(strided_lane_cycles), "cycles", "a lane of a vector whose lanes lie far apart", 0,
       0},
      {TC_FACT(table_lane_cycles), "cycles",
       "a lane whose place a table has beside its neighbour's", 0, 0},
      {TC_FACT(gathered_lane_cycles), "cycles", "a lane of a vector whose lanes lie anywhere", 0,
       0},
      {TC_FACT(waited_sum_cycles), "cycles", "from the last terms of a sum of lanes to its use", 0,
       0},
      {TC_FACT(window_cycles), "cycles", "of work that a core looks ahead in"},
      {TC_FACT(row_sum_cycles), "cycles", "a vector of terms of a sum along a row", 0, 0},
      {TC_FACT(row_end_cycles), "cycles", "to add up its lanes while the next row begins", 0, 0},
      {TC_FACT(scattered_point_cycles), "cycles", "a point of a scatter whose row is no vector", 0,
       0},
      {TC_FACT(scattered_lane_cycles), "cycles", "a point in a vector of a scatter's row", 0, 0},
      {TC_FACT(look_cycles), "cycles", "a look at a place that may be another task's", 0, 0},
      {TC_FACT(wrong_guess_cycles), "cycles", "a branch that was guessed wrong"},
      {TC_FACT(tasks_cycles), "cycles", "to begin tasks on all cores"},
      {TC_FACT(statement_cycles), "cycles", "the loops of a statement of its own"},
      {TC_FACT(written_element_cycles), "cycles",
       "to write an element of a temporary, and to read it", 0, 0},
      {TC_FACT(lines_of_a_request), "lines", "that come with a prefetch of the first of them"},
      {TC_FACT(steps_ahead), "steps", "from a prefetch of a far row to its use"},
      {TC_FACT(rows_ahead), "rows",
       "the same of rows at places that data says, to the second cache"},
      {TC_FACT(requests_ahead), "requests", "that these may be"},
      {TC_FACT(short_rows_ahead), "rows", "the same of short ones, to the first cache"},
      {TC_FACT(short_row_bytes), "bytes", "of a short one at most"},
      {[](const CpuMachine& cpu) { return static_cast<double>(cpu.cores); },
       [](CpuMachine& cpu, double value) { cpu.threads = cpu.cores = static_cast<int>(value); },
       most_of<int>(), "cores", "cores", "that tasks are made for"},
      {TC_FACT(threads), "threads", "of the host, where their number matters"},
      {TC_FACT(library_rate), "operations a cycle",
       "of the library's products and convolutions; 0: measured where it matters"},
      {TC_FACT(library_call_cycles), "cycles", "of a call of the library beside its work"},
      {TC_FACT(least_percent), "percent",
       "of the amounts of work from which tasks, parts, copies and tables pay"},
  };
  return all;
}
#undef TC_FACT

Known look_up(int host_threads) {
  const LookUp& found = looked_up();
  Known known{found.cpu, {}};
  known.cpu.threads = std::min(known.cpu.cores, host_threads);
  for (const Fact& fact : facts()) {
    auto source = found.sources.find(fact.name);
    known.sources.push_back(source == found.sources.end() ? "assumed" : source->second);
  }
  const char* given = std::getenv("TC_MACHINE");
  std::istringstream entries(given ? given : "");
  for (std::string entry; std::getline(entries, entry, ',');) replace(known, entry);
  return known;
}

std::string values(const CpuMachine& cpu) {
  std::string text;
  for (const Fact& fact : facts())
    text += concat(text.empty() ? "" : ",", fact.name, "=", number(fact.get(cpu)));
  return text;
}

std::string likeness(const CpuMachine& cpu) {
  constexpr const char* kAlike[] = {"vector_bits", "unit_bits",         "vector_registers",
                                    "loads",       "first_cache_bytes", "cache_bytes"};
  std::string text;
  for (const Fact& fact : facts())
    if (std::any_of(std::begin(kAlike), std::end(kAlike),
                    [&](const char* name) { return std::string(name) == fact.name; }))
      text += concat(text.empty() ? "" : ",", fact.name, "=", number(fact.get(cpu)));
  return text;
}

std::string describe(const Known& known, bool measured) {
  const std::map<std::string, double> found =
      measured ? measure(known.cpu) : std::map<std::string, double>{};
  std::string text;
  for (size_t k = 0; k < facts().size(); ++k) {
    const Fact& fact = facts()[k];
    text += concat(fact.name, "\t", number(fact.get(known.cpu)), "\t", fact.unit, "\t",
                   known.sources[k], "\t", fact.meaning);
    auto value = found.find(fact.name);
    if (value != found.end()) text += "\t" + number(value->second);
    text += "\n";
  }
  return text;
}

}  // namespace tc::machine

namespace tc {

std::string to_string(const CpuMachine& cpu) {
  const std::string units =
      cpu.unit_bits < cpu.vector_bits ? concat(" in units of ", cpu.unit_bits) : "";
  return concat(cpu.vector_bits, "-bit vectors", units, ", ", cpu.vector_registers, " registers, ",
                plural(cpu.cores, "core"), ", ", bytes_text(static_cast<double>(cpu.cache_bytes)),
                " of cache for copies");
}

}  // namespace tc
