#include "plan/options/options.h"

#include <algorithm>
#include <functional>
#include <map>

#include "base/error.h"

namespace tc {
namespace {

const std::map<std::string, FusionStrategy>& fusion_names() {
  static const std::map<std::string, FusionStrategy> names = {
      {"Max", FusionStrategy::Max},
      {"Min", FusionStrategy::Min},
      {"Preserve3Coincident", FusionStrategy::Preserve3Coincident}};
  return names;
}

std::string fusion_name(FusionStrategy strategy) {
  for (const auto& [name, value] : fusion_names())
    if (value == strategy) return name;
  return "";
}

using plan::refuse;

/// The arguments of a call that takes integers; True and False are 1 and 0.
std::vector<int64_t> integers_of(const PythonCall& call, const std::string& allowed) {
  std::vector<int64_t> values;
  if (!call.named.empty()) refuse(call, allowed);
  for (const PythonValue& value : call.values) {
    if (value.kind != PythonValue::Kind::Integer && value.kind != PythonValue::Kind::Boolean)
      refuse(call, allowed);
    values.push_back(value.number);
  }
  return values;
}

/// How one field is set and printed.
struct Field {
  std::string name;
  std::function<void(MappingOptions&, const PythonCall&)> set;
  /// The argument list that sets the field to what these options have.
  std::function<std::string(const MappingOptions&)> print;
};

Field list_field(const std::string& name, std::vector<int64_t> MappingOptions::*member,
                 size_t least, size_t most, int64_t lowest) {
  auto allowed = concat(least == most ? concat(most) : concat(least, " to ", most),
                        " integers of at least ", lowest);
  return {name,
          [=](MappingOptions& options, const PythonCall& call) {
            const std::vector<int64_t> values = integers_of(call, allowed);
            if (values.size() < least || values.size() > most ||
                std::any_of(values.begin(), values.end(), [&](int64_t v) { return v < lowest; }))
              refuse(call, allowed);
            options.*member = values;
          },
          [=](const MappingOptions& options) {
            return arguments_text({name, PythonValue::tuple_of(options.*member).items, {}});
          }};
}

/// A flag, which may be left open until it is set.
template <class Flag>
Field flag_field(const std::string& name, Flag MappingOptions::*member) {
  return {name,
          [=](MappingOptions& options, const PythonCall& call) {
            options.*member = plan::flag_argument(call);
          },
          [=](const MappingOptions& options) {
            const std::optional<bool> value = options.*member;
            return !value ? "" : *value ? "True" : "False";
          }};
}

Field number_field(const std::string& name, int64_t MappingOptions::*member, int64_t lowest) {
  return {name,
          [=](MappingOptions& options, const PythonCall& call) {
            const std::string allowed = concat("one integer of at least ", lowest);
            const std::vector<int64_t> values = integers_of(call, allowed);
            if (values.size() != 1 || values[0] < lowest) refuse(call, allowed);
            options.*member = values[0];
          },
          [=](const MappingOptions& options) { return std::to_string(options.*member); }};
}

Field fusion_field(const std::string& name, std::vector<FusionStrategy MappingOptions::*> members) {
  return {name,
          [=](MappingOptions& options, const PythonCall& call) {
            const std::string allowed = "\"Max\", \"Min\" or \"Preserve3Coincident\"";
            if (call.values.size() != 1 || !call.named.empty() ||
                call.values[0].kind != PythonValue::Kind::Word)
              refuse(call, allowed);
            auto found = fusion_names().find(call.values[0].word);
            if (found == fusion_names().end()) refuse(call, allowed);
            for (auto member : members) options.*member = found->second;
          },
          [=](const MappingOptions& options) {
            return "\"" + fusion_name(options.*members[0]) + "\"";
          }};
}

/// Names of statements, or None for none of them.
Field statements_field(const std::string& name,
                       std::optional<std::vector<std::string>> MappingOptions::*member) {
  return {
      name,
      [=](MappingOptions& options, const PythonCall& call) {
        const std::string allowed = "names of statements, as Executor.explain() has them, or None";
        const bool none = call.values.size() == 1 && call.values[0].kind == PythonValue::Kind::None;
        std::vector<std::string> names;
        for (const PythonValue& value : call.values)
          if (!none) names.push_back(plan::checked_name(value, call, allowed));
        if (call.values.empty() || !call.named.empty()) refuse(call, allowed);
        options.*member = names;
      },
      [=](const MappingOptions& options) -> std::string {
        const auto& value = options.*member;
        if (!value) return "";
        if (value->empty()) return "None";
        return arguments_text({name, PythonValue::tuple_of(*value).items, {}});
      }};
}

const std::vector<Field>& fields() {
  using O = MappingOptions;
  static const std::vector<Field> list = {
      fusion_field("outerScheduleFusionStrategy", {&O::outer_fusion}),
      fusion_field("intraTileScheduleFusionStrategy", {&O::intra_tile_fusion}),
      list_field("tile", &O::tile, 1, 16, 0),
      list_field("mapToThreads", &O::threads, 1, 3, 1),
      list_field("mapToBlocks", &O::blocks, 1, 3, 1),
      number_field("unroll", &O::unroll, 1),
      flag_field("tileImperfectlyNested", &O::tile_imperfectly_nested),
      flag_field("useSharedMemory", &O::use_shared_memory),
      flag_field("usePrivateMemory", &O::use_private_memory),
      flag_field("unrollCopyShared", &O::unroll_copy_shared),
      number_field("maxSharedMemory", &O::max_shared_memory, 0),
      flag_field("useReadOnlyCache", &O::use_readonly_cache),
      flag_field("matchLibraryCalls", &O::match_library_calls),
      statements_field("libraryCalls", &O::library_calls),
      flag_field("fixParametersBeforeScheduling", &O::fix_parameters_before_scheduling),
      flag_field("checkIndices", &O::check_indices),
      flag_field("vectorize", &O::vectorize),
      flag_field("parallel", &O::parallel),
  };
  return list;
}

/// Sets both strategies, as the 2018 method did; prints as the two above.
const Field& both_fusions() {
  static const Field field =
      fusion_field("scheduleFusionStrategy",
                   {&MappingOptions::outer_fusion, &MappingOptions::intra_tile_fusion});
  return field;
}

const Field& find_field(const std::string& name) {
  if (name == both_fusions().name) return both_fusions();
  std::string known = both_fusions().name;
  for (const Field& field : fields()) {
    if (field.name == name) return field;
    known += ", " + field.name;
  }
  if (plan::is_cluster_option(name))
    throw UsageError(concat("MappingOptions.", name, " is said of a cluster: name the statements ",
                            "that share loops first, as in cluster(\"S0\").", name, "(...)"));
  throw UsageError(concat("MappingOptions has no option '", name, "'; it has: ", known));
}

const std::map<std::string, MappingOptions>& presets() {
  static const std::map<std::string, MappingOptions> map = [] {
    std::map<std::string, MappingOptions> m;
    auto add = [&](const std::string& name, auto change) {
      MappingOptions options;
      options.preset = name;
      change(options);
      m[name] = options;
    };
    add("default", [](MappingOptions&) {});
    add("identity", [](MappingOptions& o) {
      o.identity = true;
      o.vectorize = o.parallel = false;
    });
    add("naive", [](MappingOptions& o) {
      o.tile = {32, 32, 32};
      o.threads = {32, 8};
      o.blocks = {256, 256};
    });
    add("unmapped", [](MappingOptions& o) { o.threads = o.blocks = {1}; });
    add("single_thread", [](MappingOptions& o) {
      o.tile = {1};
      o.threads = o.blocks = {1};
      o.parallel = false;
    });
    add("pointwise", [](MappingOptions& o) {
      o.tile = {32, 32, 32};
      o.threads = {32, 4, 4};
      o.blocks = {100, 100, 100};
      o.outer_fusion = o.intra_tile_fusion = FusionStrategy::Max;
    });
    add("mlp", [](MappingOptions& o) {
      o.tile = {1};
      o.threads = {128};
      o.blocks = {128};
      o.outer_fusion = o.intra_tile_fusion = FusionStrategy::Max;
    });
    add("convolution", [](MappingOptions& o) {
      o.tile = {4, 8, 8, 8};
      o.threads = {4, 16, 4};
      o.blocks = {256, 256, 256};
      o.use_shared_memory = o.use_private_memory = o.unroll_copy_shared = true;
    });
    add("group_convolution", [](MappingOptions& o) {
      o.tile = {1, 1};
      o.threads = {4, 3};
      o.blocks = {32, 32};
      o.use_shared_memory = o.use_private_memory = true;
    });
    return m;
  }();
  return map;
}

std::string clusters_text(const MappingOptions& options) {
  std::string text;
  for (const plan::ClusterOptions& cluster : options.clusters) text += to_string(cluster);
  return text;
}

void begin_cluster(MappingOptions& options, const PythonCall& call) {
  const std::string allowed = "names of statements, as Executor.explain() has them: \"S0\"";
  if (call.values.empty() || !call.named.empty()) refuse(call, allowed);
  plan::ClusterOptions cluster;
  for (const PythonValue& value : call.values) {
    const std::string name = plan::checked_name(value, call, allowed);
    for (const plan::ClusterOptions& other : options.clusters)
      if (std::count(other.statements.begin(), other.statements.end(), name) > 0)
        refuse(call, concat("statements that no cluster before has; ", name, " is in one"));
    cluster.statements.push_back(name);
  }
  options.clusters.push_back(std::move(cluster));
}

}  // namespace

bool MappingOptions::decides_loops() const {
  return identity || !tile.empty() || !threads.empty() || !blocks.empty() || !clusters.empty();
}

bool MappingOptions::operator==(const MappingOptions& other) const {
  // Equal options print the same, and so can be keys of caches.
  if (preset != other.preset) return false;
  return clusters_text(*this) == clusters_text(other) &&
         std::all_of(fields().begin(), fields().end(),
                     [&](const Field& field) { return field.print(*this) == field.print(other); });
}

MappingOptions make_options(const std::string& preset) {
  auto found = presets().find(preset);
  if (found != presets().end()) return found->second;
  std::string known;
  for (const auto& entry : presets()) known += (known.empty() ? "" : ", ") + entry.first;
  throw UsageError(concat("unknown preset '", preset, "' of MappingOptions; there are: ", known));
}

void set_option(MappingOptions& options, const std::string& name,
                const std::vector<int64_t>& values) {
  set_option(options, {name, PythonValue::tuple_of(values).items, {}});
}

void set_option(MappingOptions& options, const std::string& name, const std::string& word) {
  set_option(options, {name, {PythonValue::of(word)}, {}});
}

void set_option(MappingOptions& options, const PythonCall& call) {
  if (call.name == "cluster") return begin_cluster(options, call);
  if (!options.clusters.empty() && plan::set_option(options.clusters.back(), call)) return;
  find_field(call.name).set(options, call);
}

std::string to_string(const MappingOptions& options) {
  MappingOptions base = make_options(options.preset);
  std::string text = "tc.MappingOptions(\"" + options.preset + "\")";
  for (const Field& field : fields())
    if (field.print(options) != field.print(base))
      text += "." + field.name + "(" + field.print(options) + ")";
  return text + clusters_text(options);
}

MappingOptions parse_options(const std::string& text) {
  const std::vector<PythonCall> calls = parse_calls(text, "these are no mapping options");
  const PythonCall& made = calls[0];
  if (made.name != "MappingOptions" || made.values.size() > 1 || !made.named.empty() ||
      (made.values.size() == 1 && made.values[0].kind != PythonValue::Kind::Word))
    throw UsageError(
        concat("these are no mapping options: expected MappingOptions and the name of "
               "a preset in front of\n  ",
               text));
  MappingOptions options = make_options(made.values.empty() ? "default" : made.values[0].word);
  for (size_t k = 1; k < calls.size(); ++k) set_option(options, calls[k]);
  return options;
}

}  // namespace tc
