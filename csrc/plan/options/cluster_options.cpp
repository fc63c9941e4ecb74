#include "plan/options/cluster_options.h"

#include <algorithm>
#include <array>
#include <cctype>

#include "base/error.h"
#include "base/notes.h"
#include "isa/instructions.h"
#include "plan/options/copy_order.h"
#include "plan/options/segments.h"

namespace tc::plan {
namespace {

using Kind = PythonValue::Kind;

constexpr std::array<std::pair<const char*, Points>, 4> kPoints = {
    {{"around", Points::Around},
     {"vector inside", Points::VectorInside},
     {"inside", Points::Inside},
     {"apart", Points::Apart}}};
constexpr char kTask[] = "task", kReduction[] = "reduction";

// ---- reading

std::string word_of(const PythonValue& value, const PythonCall& call, const std::string& allowed) {
  if (value.kind != Kind::Word) refuse(call, allowed);
  return value.word;
}

std::vector<std::string> names_of(const std::vector<PythonValue>& values, const PythonCall& call,
                                  const std::string& allowed) {
  std::vector<std::string> names;
  for (const PythonValue& value : values) names.push_back(checked_name(value, call, allowed));
  return names;
}

/// A tensor with its subscripts, which is printed between quotes as it is.
std::string read_of(const PythonValue& value, const PythonCall& call, const std::string& allowed) {
  const std::string read = word_of(value, call, allowed);
  for (char c : read)
    if (c < ' ' || c > '~' || c == '"' || c == '\\') refuse(call, allowed);
  return read;
}

bool has_large(const PythonValue& value) {
  return value.kind == Kind::Large ||
         std::any_of(value.items.begin(), value.items.end(), has_large);
}

bool flag_of(const PythonValue& value, const PythonCall& call, const std::string& allowed) {
  const bool flag = value.kind == Kind::Boolean ||
                    (value.kind == Kind::Integer && (value.number == 0 || value.number == 1));
  if (!flag) refuse(call, allowed);
  return value.number != 0;
}

/// Sizes by index: m=64, or ("m", 64) where Python has no such name.
std::vector<Tile> tiles_of(const PythonCall& call, size_t first, const std::string& allowed) {
  std::vector<Tile> tiles;
  auto add = [&](const std::string& index, const PythonValue& size) {
    if (size.kind != Kind::Integer || size.number < 1 || find_tile(tiles, index))
      refuse(call, allowed);
    tiles.push_back({index, size.number});
  };
  for (size_t k = first; k < call.values.size(); ++k) {
    const PythonValue& pair = call.values[k];
    if (pair.kind != Kind::Tuple || pair.items.size() != 2 || pair.items[0].kind != Kind::Word)
      refuse(call, allowed);
    add(checked_name(pair.items[0], call, allowed), pair.items[1]);
  }
  for (const auto& [index, size] : call.named) add(index, size);
  return tiles;
}

void expect(const PythonCall& call, size_t least, size_t most,
            const std::vector<std::string>& named, const std::string& allowed) {
  if (call.values.size() < least || call.values.size() > most) refuse(call, allowed);
  for (const auto& [name, value] : call.named)
    if (std::find(named.begin(), named.end(), name) == named.end()) refuse(call, allowed);
}

const PythonValue* find_named(const PythonCall& call, const std::string& name) {
  for (const auto& [key, value] : call.named)
    if (key == name) return &value;
  return nullptr;
}

void set_tile(ClusterOptions& options, const PythonCall& call) {
  const std::string allowed =
      "a level, \"task\" or \"reduction\", and points of a tile for indices: "
      "tile(\"task\", m=64, n=8)";
  if (call.values.empty()) refuse(call, allowed);
  const std::string level = word_of(call.values[0], call, allowed);
  if (level == kTask)
    options.tasks = tiles_of(call, 1, allowed);
  else if (level == kReduction)
    options.reductions = tiles_of(call, 1, allowed);
  else
    refuse(call, allowed);
}

void set_points(ClusterOptions& options, const PythonCall& call) {
  std::vector<std::string> known;
  for (const auto& [name, points] : kPoints) known.push_back(concat("\"", name, "\""));
  const std::string allowed = "one of " + join(known);
  expect(call, 1, 1, {}, allowed);
  const std::string word = word_of(call.values[0], call, allowed);
  for (const auto& [name, points] : kPoints)
    if (word == name) {
      options.points = points;
      return;
    }
  refuse(call, allowed);
}

/// None alone: the list is empty.
bool is_none(const PythonCall& call) {
  return call.values.size() == 1 && call.named.empty() && call.values[0].kind == Kind::None;
}

void add_nest(ClusterOptions& options, const PythonCall& call) {
  const std::string allowed =
      "statements, their loops from outside to inside, and whether the innermost is a vector: "
      "nest(\"S0\", loops=(\"i\", \"j\"), vector=True); or None";
  if (!options.nests) options.nests.emplace();
  if (is_none(call)) return options.nests->clear();
  expect(call, 1, call.values.size() + 1, {"loops", "vector"}, allowed);
  NestPlan nest;
  nest.statements = names_of(call.values, call, allowed);
  if (const PythonValue* loops = find_named(call, "loops")) {
    if (loops->kind != Kind::Tuple) refuse(call, allowed);
    const bool each = std::any_of(loops->items.begin(), loops->items.end(),
                                  [](const PythonValue& item) { return item.kind == Kind::Tuple; });
    nest.loops.clear();
    for (const PythonValue& list : each ? loops->items : std::vector<PythonValue>{*loops}) {
      if (list.kind != Kind::Tuple) refuse(call, allowed);
      nest.loops.push_back(names_of(list.items, call, allowed));
    }
  }
  if (const PythonValue* vector = find_named(call, "vector"))
    nest.vector = flag_of(*vector, call, allowed);
  if (nest.vector && nest.loops[0].empty()) refuse(call, allowed);
  options.nests->push_back(nest);
}

void add_copy(ClusterOptions& options, const PythonCall& call) {
  const std::string allowed =
      "a read, the statement that makes it, and its dimensions from the slowest to the fastest, "
      "which may be in blocks: copy(\"A(m, k)\", statement=\"S0\", order=(1, 0)) or "
      "order=(\"k/4\", \"m\", \"k%4\"), and with "
      "computes=\"S1\" a statement whose value it computes; or None";
  if (!options.copies) options.copies.emplace();
  if (is_none(call)) return options.copies->clear();
  expect(call, 1, 1, {"statement", "order", "computes"}, allowed);
  CopyPlan copy;
  copy.read = read_of(call.values[0], call, allowed);
  const PythonValue* statement = find_named(call, "statement");
  const PythonValue* order = find_named(call, "order");
  auto layout = order ? order_of(*order, copy.read) : std::nullopt;
  if (!statement || !layout) refuse(call, allowed);
  copy.statement = checked_name(*statement, call, allowed);
  copy.order = *layout;
  if (const PythonValue* computes = find_named(call, "computes"))
    copy.computes = checked_name(*computes, call, allowed);
  options.copies->push_back(copy);
}

struct Option {
  const char* name;
  void (*set)(ClusterOptions&, const PythonCall&);
};

constexpr Option kOptions[] = {
    {"inside",
     [](ClusterOptions& o, const PythonCall& call) {
       const std::string allowed =
           "indices of loops around the cluster, and whether it joins those of the cluster before: "
           "inside(\"n\", joined=True); or none";
       expect(call, 0, call.values.size(), {"joined"}, allowed);
       o.outer = names_of(call.values, call, allowed);
       const PythonValue* joined = find_named(call, "joined");
       o.joined = joined && flag_of(*joined, call, allowed);
     }},
    {"order",
     [](ClusterOptions& o, const PythonCall& call) {
       const std::string allowed = "the indices of all shared loops, outermost first";
       expect(call, 0, call.values.size(), {}, allowed);
       o.order = names_of(call.values, call, allowed);
     }},
    {"tile", set_tile},
    {"parallel",
     [](ClusterOptions& o, const PythonCall& call) { o.parallel = flag_argument(call); }},
    {"registers",
     [](ClusterOptions& o, const PythonCall& call) {
       o.registers = tiles_of(
           call, 0, "points of a register tile for indices: registers(n=6, m=64), or none");
     }},
    {"instruction",
     [](ClusterOptions& o, const PythonCall& call) {
       const std::string allowed = "one of " + isa::known_instructions() + "; or None";
       expect(call, 1, 1, {}, allowed);
       o.instruction = is_none(call) ? "" : word_of(call.values[0], call, allowed);
       if (!o.instruction->empty() && !isa::find_instruction(*o.instruction)) refuse(call, allowed);
     }},
    {"points", set_points},
    {"vector",
     [](ClusterOptions& o, const PythonCall& call) {
       o.vector = flag_argument(call, "True or False: whether the last shared loop is a vector");
     }},
    {"nest", add_nest},
    {"copy", add_copy},
};

// ---- writing

bool is_python_name(const std::string& name) {
  static constexpr const char* kKeywords[] = {
      "False", "None",     "True",  "and",    "as",   "assert", "async",  "await",    "break",
      "class", "continue", "def",   "del",    "elif", "else",   "except", "finally",  "for",
      "from",  "global",   "if",    "import", "in",   "is",     "lambda", "nonlocal", "not",
      "or",    "pass",     "raise", "return", "try",  "while",  "with",   "yield"};
  const bool letters = std::all_of(name.begin(), name.end(), [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) || c == '_';
  });
  return letters && !name.empty() && !std::isdigit(static_cast<unsigned char>(name[0])) &&
         std::none_of(std::begin(kKeywords), std::end(kKeywords),
                      [&](const char* keyword) { return name == keyword; });
}

void add_tiles(PythonCall& call, const std::vector<Tile>& tiles) {
  const bool named = std::all_of(tiles.begin(), tiles.end(),
                                 [](const Tile& tile) { return is_python_name(tile.index); });
  for (const Tile& tile : tiles) {
    if (named)
      call.named.emplace_back(tile.index, PythonValue::of(tile.size));
    else
      call.values.push_back(
          PythonValue::tuple({PythonValue::of(tile.index), PythonValue::of(tile.size)}));
  }
}

std::vector<PythonValue> word_values(const std::vector<std::string>& words) {
  return PythonValue::tuple_of(words).items;
}

const char* name_of(Points points) {
  for (const auto& [name, value] : kPoints)
    if (value == points) return name;
  throw InternalError(__FILE__, __LINE__, "points without a name");
}

std::vector<PythonCall> calls_of(const ClusterOptions& options) {
  std::vector<PythonCall> calls;
  auto add = [&](const char* name, std::vector<PythonValue> values = {}) -> PythonCall& {
    calls.push_back({name, std::move(values), {}});
    return calls.back();
  };
  add("cluster", word_values(options.statements));
  if (options.outer) {
    PythonCall& call = add("inside", word_values(*options.outer));
    if (options.joined.value_or(false)) call.named.emplace_back("joined", PythonValue::of(true));
  }
  if (options.order) add("order", word_values(*options.order));
  if (options.tasks) add_tiles(add("tile", {PythonValue::of(kTask)}), *options.tasks);
  if (options.parallel) add("parallel", {PythonValue::of(*options.parallel)});
  if (options.reductions)
    add_tiles(add("tile", {PythonValue::of(kReduction)}), *options.reductions);
  if (options.registers) add_tiles(add("registers"), *options.registers);
  if (options.instruction)
    add("instruction", {options.instruction->empty() ? PythonValue::none()
                                                     : PythonValue::of(*options.instruction)});
  if (options.points) add("points", {PythonValue::of(name_of(*options.points))});
  if (options.vector) add("vector", {PythonValue::of(*options.vector)});
  if (options.nests && options.nests->empty()) add("nest", {PythonValue::none()});
  if (options.nests)
    for (const NestPlan& nest : *options.nests) {
      PythonCall& call = add("nest", word_values(nest.statements));
      std::vector<PythonValue> lists;
      for (const auto& loops : nest.loops) lists.push_back(PythonValue::tuple_of(loops));
      call.named.emplace_back("loops",
                              nest.loops.size() == 1 ? lists[0] : PythonValue::tuple(lists));
      if (nest.vector) call.named.emplace_back("vector", PythonValue::of(true));
    }
  if (options.copies && options.copies->empty()) add("copy", {PythonValue::none()});
  if (options.copies)
    for (const CopyPlan& copy : *options.copies) {
      PythonCall& call = add("copy", {PythonValue::of(copy.read)});
      call.named.emplace_back("statement", PythonValue::of(copy.statement));
      call.named.emplace_back("order", order_value(copy.order, copy.read));
      if (!copy.computes.empty())
        call.named.emplace_back("computes", PythonValue::of(copy.computes));
    }
  return calls;
}

}  // namespace

ClusterOptions to_options(const ClusterPlan& plan) {
  ClusterOptions options;
  options.statements = plan.statements;
  options.parallel = plan.run_tasks != Tasks::Serial;
  for_each_decision(options, plan, [](auto& option, const auto& decided) { option = decided; });
  if (plan.instruction.empty()) options.instruction.reset();
  return options;
}

std::optional<ClusterPlan> complete_plan(const ClusterOptions& options) {
  // With another field this does not compile until for_each_decision has that, too.
  const auto& [statements, outer, joined, order, tasks, parallel, reductions, registers,
               instruction, points, vector, nests, copies] = options;
  if (!order || !tasks || !parallel || !reductions || !registers || !points || !vector || !nests ||
      !copies)
    return std::nullopt;
  ClusterPlan plan;
  plan.statements = statements;
  plan.run_tasks = *parallel ? Tasks::Parallel : Tasks::Serial;
  for_each_decision(options, plan, [](const auto& option, auto& decided) {
    if (option) decided = *option;
  });
  return plan;
}

bool computes_in_copies(const ClusterOptions& options) {
  return options.copies && std::any_of(options.copies->begin(), options.copies->end(),
                                       [](const CopyPlan& copy) { return !copy.computes.empty(); });
}

bool flag_argument(const PythonCall& call, const std::string& allowed) {
  expect(call, 1, 1, {}, allowed);
  return flag_of(call.values[0], call, allowed);
}

void refuse(const PythonCall& call, const std::string& allowed) {
  bool large = std::any_of(call.values.begin(), call.values.end(), has_large);
  for (const auto& named : call.named) large = large || has_large(named.second);
  throw UsageError(
      concat("MappingOptions.", to_string(call), ": expected ", allowed,
             large ? concat("; integers have at most ", PythonValue::kMostDigits, " digits") : ""));
}

bool is_cluster_option(const std::string& name) {
  return std::any_of(std::begin(kOptions), std::end(kOptions),
                     [&](const Option& option) { return name == option.name; });
}

std::string checked_name(const PythonValue& value, const PythonCall& call,
                         const std::string& allowed) {
  if (value.kind != Kind::Word) refuse(call, allowed);
  const auto is_part = [](char c) {
    // Names of a text are identifiers; those that are made of several have dots.
    return std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '.' || c == kOfSegment;
  };
  if (!value.word.empty() && std::all_of(value.word.begin(), value.word.end(), is_part))
    return value.word;
  std::string shown;
  for (char c : value.word) shown += static_cast<unsigned char>(c) < ' ' ? '?' : c;
  throw UsageError(
      concat("MappingOptions.", call.name, ": '", shown,
             "' is no name of a statement or a loop: these have letters, digits and _; "
             "Executor.explain() shows those of a definition"));
}

bool set_option(ClusterOptions& options, const PythonCall& call) {
  for (const Option& option : kOptions) {
    if (call.name != option.name) continue;
    option.set(options, call);
    return true;
  }
  return false;
}

std::string to_string(const ClusterOptions& options) {
  std::string text;
  for (const PythonCall& call : calls_of(options)) text += "." + to_string(call);
  return text;
}

}  // namespace tc::plan
