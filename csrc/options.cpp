#include "options.h"

#include <algorithm>
#include <cctype>
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

std::string join(const std::vector<int64_t>& values) {
  std::string text;
  for (int64_t value : values) text += (text.empty() ? "" : ", ") + std::to_string(value);
  return text;
}

[[noreturn]] void bad_value(const std::string& name, const std::string& given,
                            const std::string& allowed) {
  throw UsageError(concat("MappingOptions.", name, "(", given, "): expected ", allowed));
}

/// How one field is set and printed. Exactly one of the setters is there.
struct Field {
  std::string name;
  std::function<void(MappingOptions&, const std::vector<int64_t>&)> set_values;
  std::function<void(MappingOptions&, const std::string&)> set_word;
  /// The argument list that sets the field to what these options have.
  std::function<std::string(const MappingOptions&)> print;
};

Field list_field(const std::string& name, std::vector<int64_t> MappingOptions::*member,
                 size_t least, size_t most, int64_t lowest) {
  auto allowed = concat(least == most ? concat(most) : concat(least, " to ", most),
                        " integers of at least ", lowest);
  return {name,
          [=](MappingOptions& options, const std::vector<int64_t>& values) {
            if (values.size() < least || values.size() > most ||
                std::any_of(values.begin(), values.end(), [&](int64_t v) { return v < lowest; }))
              bad_value(name, join(values), allowed);
            options.*member = values;
          },
          nullptr, [=](const MappingOptions& options) { return join(options.*member); }};
}

Field flag_field(const std::string& name, bool MappingOptions::*member) {
  return {name,
          [=](MappingOptions& options, const std::vector<int64_t>& values) {
            if (values.size() != 1 || (values[0] != 0 && values[0] != 1))
              bad_value(name, join(values), "True or False");
            options.*member = values[0] != 0;
          },
          nullptr,
          [=](const MappingOptions& options) { return options.*member ? "True" : "False"; }};
}

/// A flag that is left open until it is set.
Field choice_field(const std::string& name, std::optional<bool> MappingOptions::*member) {
  return {name,
          [=](MappingOptions& options, const std::vector<int64_t>& values) {
            if (values.size() != 1 || (values[0] != 0 && values[0] != 1))
              bad_value(name, join(values), "True or False");
            options.*member = values[0] != 0;
          },
          nullptr,
          [=](const MappingOptions& options) {
            const std::optional<bool>& value = options.*member;
            return !value ? "" : *value ? "True" : "False";
          }};
}

Field number_field(const std::string& name, int64_t MappingOptions::*member, int64_t lowest) {
  return {name,
          [=](MappingOptions& options, const std::vector<int64_t>& values) {
            if (values.size() != 1 || values[0] < lowest)
              bad_value(name, join(values), concat("one integer of at least ", lowest));
            options.*member = values[0];
          },
          nullptr, [=](const MappingOptions& options) { return std::to_string(options.*member); }};
}

Field fusion_field(const std::string& name, std::vector<FusionStrategy MappingOptions::*> members) {
  return {name, nullptr,
          [=](MappingOptions& options, const std::string& word) {
            auto found = fusion_names().find(word);
            if (found == fusion_names().end())
              bad_value(name, "\"" + word + "\"", "\"Max\", \"Min\" or \"Preserve3Coincident\"");
            for (auto member : members) options.*member = found->second;
          },
          [=](const MappingOptions& options) {
            return "\"" + fusion_name(options.*members[0]) + "\"";
          }};
}

const std::vector<Field>& fields() {
  static const std::vector<Field> list = [] {
    using O = MappingOptions;
    std::vector<Field> f;
    f.push_back(fusion_field("outerScheduleFusionStrategy", {&O::outer_fusion}));
    f.push_back(fusion_field("intraTileScheduleFusionStrategy", {&O::intra_tile_fusion}));
    f.push_back(list_field("tile", &O::tile, 1, 16, 0));
    f.push_back(list_field("mapToThreads", &O::threads, 1, 3, 1));
    f.push_back(list_field("mapToBlocks", &O::blocks, 1, 3, 1));
    f.push_back(number_field("unroll", &O::unroll, 1));
    f.push_back(flag_field("tileImperfectlyNested", &O::tile_imperfectly_nested));
    f.push_back(flag_field("useSharedMemory", &O::use_shared_memory));
    f.push_back(flag_field("usePrivateMemory", &O::use_private_memory));
    f.push_back(flag_field("unrollCopyShared", &O::unroll_copy_shared));
    f.push_back(number_field("maxSharedMemory", &O::max_shared_memory, 0));
    f.push_back(flag_field("useReadOnlyCache", &O::use_readonly_cache));
    f.push_back(choice_field("matchLibraryCalls", &O::match_library_calls));
    f.push_back(flag_field("fixParametersBeforeScheduling", &O::fix_parameters_before_scheduling));
    f.push_back(flag_field("checkIndices", &O::check_indices));
    f.push_back(flag_field("vectorize", &O::vectorize));
    f.push_back(flag_field("parallel", &O::parallel));
    return f;
  }();
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
  throw UsageError(concat("MappingOptions has no option '", name, "'; it has: ", known));
}

// What makes a schedule of the user's own: from then on nothing is chosen automatically.
bool is_mapping(const std::string& name) {
  return name == "tile" || name == "mapToThreads" || name == "mapToBlocks";
}

const std::map<std::string, MappingOptions>& presets() {
  static const std::map<std::string, MappingOptions> map = [] {
    std::map<std::string, MappingOptions> m;
    auto add = [&](const std::string& name, auto change) {
      MappingOptions options;
      options.preset = name;
      options.automatic = false;
      change(options);
      m[name] = options;
    };
    add("default", [](MappingOptions& o) { o.automatic = true; });
    add("identity", [](MappingOptions& o) {
      o.identity = true;
      o.vectorize = o.parallel = false;
    });
    add("naive", [](MappingOptions& o) { o.tile = {32, 32, 32}; });
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

}  // namespace

bool MappingOptions::operator==(const MappingOptions& other) const {
  // Equal options print the same, and so can be keys of caches.
  if (preset != other.preset || automatic != other.automatic) return false;
  return std::all_of(fields().begin(), fields().end(),
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
  const Field& field = find_field(name);
  if (!field.set_values) bad_value(name, join(values), "a word such as \"Max\"");
  field.set_values(options, values);
  if (is_mapping(name)) options.automatic = false;
}

void set_option(MappingOptions& options, const std::string& name, const std::string& word) {
  const Field& field = find_field(name);
  if (!field.set_word) bad_value(name, "\"" + word + "\"", "integers");
  field.set_word(options, word);
}

std::string to_string(const MappingOptions& options) {
  MappingOptions base = make_options(options.preset);
  std::string text = "tc.MappingOptions(\"" + options.preset + "\")";
  for (const Field& field : fields())
    if (field.print(options) != field.print(base))
      text += "." + field.name + "(" + field.print(options) + ")";
  // A mapping that was set to what the preset has anyway still ends the automatic choice.
  if (options.automatic != base.automatic && text.find(".tile(") == std::string::npos &&
      text.find(".mapTo") == std::string::npos)
    text += ".mapToThreads(" + join(options.threads) + ")";
  return text;
}

MappingOptions parse_options(const std::string& text) {
  size_t at = 0;
  auto fail = [&](const std::string& expected) -> void {
    throw UsageError(concat("these are no mapping options: expected ", expected, " at column ",
                            at + 1, " of\n  ", text));
  };
  auto skip = [&] {
    while (at < text.size() && std::isspace(static_cast<unsigned char>(text[at]))) ++at;
  };
  auto take = [&](const std::string& token) {
    skip();
    if (text.compare(at, token.size(), token) != 0) fail("'" + token + "'");
    at += token.size();
  };
  auto word = [&] {
    take("\"");
    size_t end = text.find('"', at);
    if (end == std::string::npos) fail("a closing quote");
    std::string result = text.substr(at, end - at);
    at = end + 1;
    return result;
  };
  skip();
  if (text.compare(at, 3, "tc.") == 0) at += 3;
  take("MappingOptions");
  take("(");
  MappingOptions options = make_options(word());
  take(")");
  for (skip(); at < text.size(); skip()) {
    take(".");
    size_t begin = at;
    while (at < text.size() && (std::isalnum(static_cast<unsigned char>(text[at])))) ++at;
    std::string name = text.substr(begin, at - begin);
    take("(");
    skip();
    if (at < text.size() && text[at] == '"') {
      set_option(options, name, word());
      take(")");
      continue;
    }
    std::vector<int64_t> values;
    for (skip(); at < text.size() && text[at] != ')'; skip()) {
      if (!values.empty()) take(",");
      skip();
      if (text.compare(at, 4, "True") == 0) {
        values.push_back(1);
        at += 4;
      } else if (text.compare(at, 5, "False") == 0) {
        values.push_back(0);
        at += 5;
      } else {
        size_t digits = at + (at < text.size() && text[at] == '-');
        size_t end = digits;
        while (end < text.size() && std::isdigit(static_cast<unsigned char>(text[end]))) ++end;
        if (end == digits || end - digits > 18) fail("an integer");
        values.push_back(std::stoll(text.substr(at, end - at)));
        at = end;
      }
    }
    take(")");
    set_option(options, name, values);
  }
  return options;
}

}  // namespace tc
