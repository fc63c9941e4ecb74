#include "store/tuning.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "base/error.h"
#include "base/notes.h"
#include "base/threads/leaf_mutex.h"
#include "store/rename.h"

namespace tc::store {
namespace {

// Of a size, how many times another may be it, so that its Plan is worth a try.
constexpr double kMostTimes = 4;

std::vector<size_t> order_of(const Layout& layout) {
  std::vector<size_t> order(layout.sizes.size());
  std::iota(order.begin(), order.end(), size_t{0});
  // Dimensions of one element lie anywhere.
  auto step = [&](size_t d) { return layout.sizes[d] == 1 ? 0 : std::abs(layout.strides[d]); };
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return step(a) > step(b); });
  return order;
}

bool comparable(const Layout& a, const Layout& b) {
  if (a.sizes.size() != b.sizes.size()) return false;
  for (size_t d = 0; d < a.sizes.size(); ++d) {
    const bool empty = a.sizes[d] == 0 || b.sizes[d] == 0;
    const bool single = a.sizes[d] == 1 || b.sizes[d] == 1;
    if (empty && a.sizes[d] != b.sizes[d]) return false;
    // A step of 0 or 1 is what vectors depend on.
    if (!single && std::min<int64_t>(2, std::abs(a.strides[d])) !=
                       std::min<int64_t>(2, std::abs(b.strides[d])))
      return false;
  }
  return order_of(a) == order_of(b);
}

std::string tuple(const std::vector<int64_t>& values) {
  std::vector<std::string> parts;
  for (int64_t value : values) parts.push_back(std::to_string(value));
  return "(" + join(parts) + ")";
}

std::string argument_text(const TunedArgument& argument) {
  if (argument.value) return std::to_string(*argument.value);
  const Layout& layout = argument.layout;
  std::string text = tuple(layout.sizes);
  if (!(row_major(layout.sizes) == layout)) text += " with strides " + tuple(layout.strides);
  return text;
}

bool same_times(const tc_times& a, const tc_times& b) {
  return a.minimum == b.minimum && a.median == b.median && a.spread == b.spread && a.runs == b.runs;
}

/// Whether the options of two definitions of one key say the same.
bool same_options(const TuningKey& a, const TuningKey& b) {
  if (a.text == b.text || a.options.clusters.empty()) return a.options == b.options;
  try {
    return rename(a.options, a.text, b.text) == b.options;
  } catch (const UsageError&) {
    return false;  // nobody can tell
  }
}

/// What was found, by the names of another text.
Tuning renamed(const Tuning& found, const std::string& text) {
  const Renamer rename(found.key.text, text);
  Tuning result = found;
  result.key.text = text;
  result.key.options = rename(found.key.options);
  for (TunedPlan& plan : result.plans) plan.options = rename(plan.options);
  result.trials.clear();
  for (const Trial& trial : found.trials)
    if (std::optional<std::string> options = rename(trial.options))
      result.trials.push_back({*options, trial.ratio});
  return result;
}

struct Known {
  LeafMutex mutex;
  std::vector<Tuning> tunings;
};

/// Never destroyed: compilations may come while the process ends.
Known& known_tunings = *new Known;

}  // namespace

double TunedPlan::ratio() const {
  return standard.minimum > 0 ? times.minimum / standard.minimum : 1;
}

void check_times(const tc_times& times, const std::string& where) {
  for (double value : {times.minimum, times.median, times.spread})
    if (!std::isfinite(value) || value < 0)
      throw UsageError("a time of ", value, " in ", where, "; times are finite, and 0 or more");
}

bool TunedPlan::operator==(const TunedPlan& other) const {
  return options == other.options && same_times(times, other.times) &&
         same_times(standard, other.standard) && processor == other.processor &&
         version == other.version && time == other.time && code == other.code;
}

bool TuningKey::operator==(const TuningKey& other) const {
  return definition == other.definition && arguments == other.arguments && target == other.target &&
         machine == other.machine && threads == other.threads && same_options(*this, other);
}

bool merge(const Tuning& added, Tuning& known, size_t most_plans, size_t most_trials) {
  if (known.key.text.empty()) known.key.text = added.key.text;
  if (added.key.text != known.key.text)
    return merge(renamed(added, known.key.text), known, most_plans, most_trials);
  const std::vector<TunedPlan> plans = known.plans;
  const std::vector<Trial> trials = known.trials;
  for (const TunedPlan& plan : added.plans) {
    auto same = std::find_if(known.plans.begin(), known.plans.end(),
                             [&](const TunedPlan& other) { return other.options == plan.options; });
    if (same == known.plans.end()) {
      known.plans.push_back(plan);
    } else if (plan.time >= same->time) {  // what was measured last
      DeviceCode code = std::move(same->code);
      *same = plan;
      if (plan.code.cubin.empty()) same->code = std::move(code);
    }
  }
  std::stable_sort(known.plans.begin(), known.plans.end(),
                   [](const TunedPlan& a, const TunedPlan& b) { return a.ratio() < b.ratio(); });
  if (known.plans.size() > most_plans) known.plans.resize(most_plans);
  std::map<std::string, size_t> places;
  for (size_t k = 0; k < known.trials.size(); ++k) places[known.trials[k].options] = k;
  for (const Trial& trial : added.trials) {
    const auto [place, is_new] = places.emplace(trial.options, known.trials.size());
    if (is_new)
      known.trials.push_back(trial);
    else
      known.trials[place->second].ratio = trial.ratio;
  }
  auto rank = [](const Trial& trial) {
    return trial.ratio.value_or(std::numeric_limits<double>::infinity());
  };
  std::stable_sort(known.trials.begin(), known.trials.end(),
                   [&](const Trial& a, const Trial& b) { return rank(a) < rank(b); });
  if (known.trials.size() > most_trials) known.trials.resize(most_trials);
  const bool is_new = !(known.plans == plans && known.trials == trials);
  if (is_new) known.measured += added.measured;
  return is_new;
}

std::optional<double> distance(const TuningKey& a, const TuningKey& b) {
  if (a.definition != b.definition || a.target != b.target || a.machine != b.machine ||
      a.threads != b.threads || a.arguments.size() != b.arguments.size() || !same_options(a, b))
    return std::nullopt;
  double sum = 0;
  for (size_t k = 0; k < a.arguments.size(); ++k) {
    const TunedArgument &one = a.arguments[k], &other = b.arguments[k];
    if (one.value != other.value || !comparable(one.layout, other.layout)) return std::nullopt;
    for (size_t d = 0; d < one.layout.sizes.size(); ++d) {
      if (one.layout.sizes[d] == other.layout.sizes[d]) continue;
      const double steps = std::abs(std::log2(static_cast<double>(one.layout.sizes[d])) -
                                    std::log2(static_cast<double>(other.layout.sizes[d])));
      if (steps > std::log2(kMostTimes)) return std::nullopt;
      sum += steps;
    }
  }
  return sum;
}

std::string arguments_text(const TuningKey& key) {
  std::vector<std::string> in, out;
  for (size_t k = 0; k < key.arguments.size(); ++k)
    (k < key.inputs ? in : out).push_back(argument_text(key.arguments[k]));
  return concat(join(in), " -> ", join(out));
}

const Tuning* find_tuning(const std::vector<Tuning>& tunings, const TuningKey& key, bool* exact) {
  const Tuning* nearest = nullptr;
  double least = std::numeric_limits<double>::infinity();
  *exact = false;
  for (const Tuning& tuning : tunings) {
    if (tuning.plans.empty() || tuning.key.definition != key.definition) continue;
    if (tuning.key == key) {
      *exact = true;
      return &tuning;
    }
    const std::optional<double> far = distance(tuning.key, key);
    if (!far || *far >= least) continue;
    least = *far;
    nearest = &tuning;
  }
  return nearest;
}

std::vector<size_t> use(const std::vector<Tuning>& tunings) {
  std::vector<size_t> changed;
  const LeafLock lock(known_tunings.mutex);
  for (size_t k = 0; k < tunings.size(); ++k) {
    Tuning added = tunings[k];
    added.trials.clear();
    if (added.plans.empty()) continue;
    auto same = std::find_if(known_tunings.tunings.begin(), known_tunings.tunings.end(),
                             [&](const Tuning& other) { return other.key == added.key; });
    if (same == known_tunings.tunings.end()) {
      known_tunings.tunings.push_back(std::move(added));
      changed.push_back(k);
      continue;
    }
    const TunedPlan before = same->plans[0];
    merge(added, *same, kMostPlans, 0);
    const TunedPlan& fastest = same->plans[0];
    if (!(fastest.options == before.options && fastest.code == before.code)) changed.push_back(k);
  }
  return changed;
}

void forget_tunings() {
  const LeafLock lock(known_tunings.mutex);
  known_tunings.tunings.clear();
}

bool knows_tunings(const std::string& definition) {
  const LeafLock lock(known_tunings.mutex);
  return std::any_of(known_tunings.tunings.begin(), known_tunings.tunings.end(),
                     [&](const Tuning& tuning) { return tuning.key.definition == definition; });
}

std::optional<Found> find_known(const TuningKey& key) {
  const LeafLock lock(known_tunings.mutex);
  bool exact = false;
  const Tuning* found = find_tuning(known_tunings.tunings, key, &exact);
  if (!found) return std::nullopt;
  return Found{found->plans[0], exact, arguments_text(found->key), found->key.text};
}

}  // namespace tc::store
