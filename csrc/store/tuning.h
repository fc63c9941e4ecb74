// What tuning found: Plans of definitions for their arguments on a kind of machine.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "ir/layout.h"
#include "plan/options/options.h"
#include "tc/tc.h"

namespace tc::store {

/// An argument: its layout, or of a scalar that decides sizes the value.
struct TunedArgument {
  Layout layout;
  std::optional<int64_t> value;
  bool operator==(const TunedArgument& other) const {
    return layout == other.layout && value == other.value;
  }
};

/// What a Plan is for.
struct TuningKey {
  std::string definition;                ///< as lang::Definition::key
  std::string text;                      ///< of a definition with this key
  std::vector<TunedArgument> arguments;  ///< inputs, then outputs
  size_t inputs = 0;                     ///< how many of them are inputs
  MappingOptions options;                ///< that hold whatever is found, by the text's names
  std::string target;                    ///< "cpu", "cuda:sm_90"
  std::string machine;                   ///< see machine::likeness
  int threads = 1;                       ///< of the host, on the CPU

  /// Whether all but names is equal.
  bool operator==(const TuningKey& other) const;
};

/// What NVRTC made of a GPU's kernel.
struct DeviceCode {
  std::string cubin, log;
  uint32_t source_checksum = 0;  ///< of the text that it was made of (see base/checksum.h)
  bool operator==(const DeviceCode& other) const {
    return cubin == other.cubin && log == other.log && source_checksum == other.source_checksum;
  }
};

/// By the names of the key's text, as trials.
struct TunedPlan {
  MappingOptions options;  ///< all of it
  tc_times times = {};
  tc_times standard = {};  ///< of the compiler's own Plan, measured in turns with this one
  std::string processor, version;
  int64_t time = 0;  ///< seconds since 1970
  DeviceCode code;   ///< of a GPU

  /// What it takes in units of the compiler's own Plan's.
  double ratio() const;
  bool operator==(const TunedPlan& other) const;
};

struct Trial {
  std::string options;
  std::optional<double> ratio;  ///< nothing where it cannot run
  bool operator==(const Trial& other) const {
    return options == other.options && ratio == other.ratio;
  }
};

struct Tuning {
  TuningKey key;
  std::vector<TunedPlan> plans;
  std::vector<Trial> trials;
  int64_t measured = 0;
};

/// UsageError where a time is none, with `where` it stands: such times are neither kept nor read.
void check_times(const tc_times& times, const std::string& where);

/// How many a file keeps of one key.
constexpr size_t kMostPlans = 16, kMostTrials = 1024;

/// Of two findings for one key, all Plans and trials by the names that the known one has, as they
/// were measured last, the fastest first, up to these numbers. Whether that is something new: else
/// the measurements are counted already.
bool merge(const Tuning& added, Tuning& known, size_t most_plans = kMostPlans,
           size_t most_trials = kMostTrials);

/// How far the arguments of a key are from those of another that is equal else: the sum over all
/// sizes of the powers of two between them. Nothing where they cannot be compared: other ranks,
/// other orders of dimensions in memory, other values, or a size that is more than four times
/// another.
std::optional<double> distance(const TuningKey& a, const TuningKey& b);

/// "(128, 1024), (1024, 1024) -> (128, 1024)", with strides where something is not row-major.
std::string arguments_text(const TuningKey& key);

/// The one of a key, or the nearest; null where there is none. `exact` says which.
const Tuning* find_tuning(const std::vector<Tuning>& tunings, const TuningKey& key, bool* exact);

// ---- what this process knows, from the files that it has loaded

/// Adds them to what is known; compilations from then on use it. The numbers of those that changed
/// which Plan is the fastest for their key.
std::vector<size_t> use(const std::vector<Tuning>& tunings);
/// Forgets all of it.
void forget_tunings();
/// The fastest Plan for a key, or for the nearest one.
struct Found {
  TunedPlan plan;
  bool exact = false;
  std::string arguments;  ///< that it was found for
  std::string text;       ///< of the definition, whose names the Plan has
};
/// Whether anything is known of a definition; a look costs next to nothing where nothing is.
bool knows_tunings(const std::string& definition);
std::optional<Found> find_known(const TuningKey& key);

}  // namespace tc::store
