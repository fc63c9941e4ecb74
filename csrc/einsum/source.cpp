#include "einsum/source.h"

#include <algorithm>
#include <cctype>
#include <set>

#include "base/error.h"
#include "lang/sema/builtins.h"
#include "lang/sema/types.h"

namespace tc::einsum {
namespace {

template <class T>
bool contains(const std::vector<T>& all, const T& one) {
  return std::find(all.begin(), all.end(), one) != all.end();
}

/// A tensor of the text: an operand of the equation or a product of some.
struct Factor {
  std::string name;
  std::vector<Dimension> dimensions;
  std::vector<Label> labels;
};

class Writer {
 public:
  explicit Writer(const Binding& binding) : binding_(binding) {
    auto is_upper = [](const auto& range) { return range.first >= 'A' && range.first <= 'Z'; };
    upper_case_ = std::any_of(binding.ranges.begin(), binding.ranges.end(), is_upper);
    name_tables();
  }

  Source write(const Path& path) {
    std::vector<Factor> factors;
    for (size_t k = 0; k < binding_.operands.size(); ++k) {
      const auto& dimensions = binding_.operands[k];
      factors.push_back({concat("in", k), dimensions, labels_of(dimensions)});
    }
    for (const std::vector<int>& step : path) multiply(&factors, step);
    if (factors.size() > 1 || path.empty()) {
      std::vector<int> all;
      for (size_t k = 0; k < factors.size(); ++k) all.push_back(static_cast<int>(k));
      multiply(&factors, all);
    }
    std::string text = concat("def einsum(", signature(), ") -> (out) {\n");
    for (const std::string& statement : statements_) text += concat("  ", statement, "\n");
    return {text + "}\n", scalars_};
  }

 private:
  // ---- names

  /// Tables have the users' own names, unless these mean something else in the text.
  void name_tables() {
    std::set<std::string> taken;
    for (const Table* table : binding_.tables) taken.insert(table->name);
    for (const Table* table : binding_.tables) {
      std::string& name = tables_[table->name] = table->name;
      if (!means_something(name)) continue;
      do name = "table_" + name;
      while (!taken.insert(name).second);
    }
  }

  static bool means_something(const std::string& name) {
    static const std::set<std::string> words = {"def",   "in",  "where", "exists", "true",
                                                "false", "min", "max",   "out"};
    if (name.size() == 1 || words.count(name) || lang::find_builtin(name) || lang::find_type(name))
      return true;
    // in0, in0_1, t0, size_c, h_begin, h_end, d0
    return std::isdigit(static_cast<unsigned char>(name.back())) ||
           name.compare(0, 5, "size_") == 0 || name[1] == '_';
  }

  static std::string index_name(Label label) {
    return label >= kFirstEllipsis ? concat("d", label - kFirstEllipsis) : label_text(label);
  }

  std::string size_name(Label label) const {
    if (label >= kFirstEllipsis) return concat("D", label - kFirstEllipsis);
    if (upper_case_) return concat("size_", label_text(label));
    return std::string(1, static_cast<char>(std::toupper(label)));
  }

  // ---- expressions

  std::string term_text(const Term& term, bool first) const {
    int64_t factor = term.factor;
    std::string text;
    switch (term.kind) {
      case Term::Kind::Integer: break;
      case Term::Kind::Label: text = index_name(term.label); break;
      case Term::Kind::Table: text = concat(tables_.at(term.table), "(", names(term.labels), ")");
    }
    int64_t size = factor < 0 ? -factor : factor;
    if (text.empty()) {
      text = concat(size);
    } else if (size != 1) {
      text = concat(size, " * ", text);
    }
    if (first) return factor < 0 ? "-" + text : text;
    return (factor < 0 ? " - " : " + ") + text;
  }

  std::string names(const std::vector<Label>& labels) const {
    std::string text;
    for (Label label : labels) text += (text.empty() ? "" : ", ") + index_name(label);
    return text;
  }

  std::string read(const Factor& factor) const {
    std::string text;
    for (const Dimension& dimension : factor.dimensions) {
      text += text.empty() ? "" : ", ";
      if (dimension.broadcast) {
        text += "0";
        continue;
      }
      for (const Term& term : dimension.index.terms)
        text += term_text(term, &term == &dimension.index.terms.front());
    }
    bool operand = factor.name[0] == 'i';
    return concat(factor.name,
                  text.empty() && !operand ? "" : concat("(", text.empty() ? "0" : text, ")"));
  }

  // ---- statements

  int64_t extent(Label label) const {
    return std::max<int64_t>(0, binding_.ranges.at(label).size());
  }

  static std::vector<Label> all_labels(const std::vector<Factor>& factors) {
    std::vector<Label> labels;
    for (const Factor& factor : factors)
      for (Label label : factor.labels)
        if (!contains(labels, label)) labels.push_back(label);
    return labels;
  }

  /// Replaces factors by their product, summed over what nothing else needs.
  void multiply(std::vector<Factor>* factors, const std::vector<int>& step) {
    std::vector<Factor> taken, rest;
    for (size_t k = 0; k < factors->size(); ++k) {
      bool in = contains(step, static_cast<int>(k));
      (in ? taken : rest).push_back((*factors)[k]);
    }
    if (taken.empty() || taken.size() != step.size()) {
      throw UsageError("a step of the path takes operands that are not there: ", factors->size(),
                       " are left");
    }
    std::vector<Label> needed = all_labels(rest);
    needed.insert(needed.end(), binding_.output.begin(), binding_.output.end());
    if (taken.size() > 1) sum_ahead(&taken, needed);
    std::vector<Label> result;
    if (rest.empty()) {
      result = binding_.output;
    } else {
      for (Label label : all_labels(taken))
        if (contains(needed, label)) result.push_back(label);
    }
    rest.push_back(state(taken, result, rest.empty()));
    *factors = rest;
  }

  /// Sums a factor over labels that nothing else has, where the others run over further ones: then
  /// these additions would be made once for each of their values.
  void sum_ahead(std::vector<Factor>* factors, const std::vector<Label>& needed) {
    for (size_t k = 0; k < factors->size(); ++k) {
      std::vector<Factor> others = *factors;
      others.erase(others.begin() + k);
      std::vector<Label> elsewhere = all_labels(others), kept;
      const Factor& factor = (*factors)[k];
      bool sums = false, saves = false;
      for (Label label : factor.labels) {
        bool used = contains(elsewhere, label) || contains(needed, label);
        if (used) kept.push_back(label);
        sums = sums || !used;
      }
      for (Label label : elsewhere)
        saves = saves || (!contains(factor.labels, label) && extent(label) > 1);
      if (sums && saves) (*factors)[k] = state({factor}, kept, false);
    }
  }

  Factor state(const std::vector<Factor>& factors, const std::vector<Label>& result, bool last) {
    Factor target;
    target.name = last ? "out" : concat("t", temporaries_++);
    target.labels = result;
    for (Label label : result) target.dimensions.push_back({label_index(label), extent(label)});
    std::vector<Label> labels = all_labels(factors);
    std::string value;
    for (const Factor& factor : factors) value += (value.empty() ? "" : " * ") + read(factor);
    // torch.einsum sums integers of one operand into int64.
    const ir::Type& type = binding_.shapes[0].type;
    bool reduces = labels.size() > result.size();
    if (reduces && binding_.shapes.size() == 1 && (type.is_int() || type.is_uint()))
      value = concat("int64(", value, ")");
    std::string text = concat(target.name, result.empty() ? "" : concat("(", names(result), ")"),
                              reduces ? " +=! " : " = ", value);
    std::string ranges;
    // A label may stand in no place that says where it ends: (h - h).
    for (Label label : labels)
      if (!inferred(factors, label)) ranges += concat(ranges.empty() ? "" : ", ", range(label));
    if (!ranges.empty()) text += " where " + ranges;
    statements_.push_back(text);
    return target;
  }

  /// Whether a label takes no part in an index that it stands in: y - y + h.
  static bool has_cancelled_label(const Dimension& dimension) {
    std::map<Label, int64_t> factors;
    for (const Term& term : dimension.index.terms)
      if (term.kind == Term::Kind::Label) factors[term.label] += term.factor;
    return std::any_of(factors.begin(), factors.end(),
                       [](const auto& each) { return each.second == 0; });
  }

  /// Whether range inference finds in a statement of all operands what was found for the equation.
  /// Not where ranges are written for what tables decide, which then have no place in the rounds,
  /// and not where the text loses a label that an index had to wait for.
  bool rounds_agree() const {
    if (!binding_.from_tables.empty()) return false;
    for (const auto& dimensions : binding_.operands)
      if (std::any_of(dimensions.begin(), dimensions.end(), has_cancelled_label)) return false;
    return true;
  }

  /// Whether the text alone gives a label its range in a statement of these factors.
  bool inferred(const std::vector<Factor>& factors, Label label) const {
    if (factors.size() == binding_.operands.size() && statements_.empty() && rounds_agree())
      return true;
    for (const Factor& factor : factors)
      for (const Dimension& dimension : factor.dimensions)
        if (dimension.is_plain() && dimension.index.label() == label &&
            (factor.name[0] == 't' || binding_.ranges.at(label) == Interval{0, dimension.size}))
          return true;
    return false;
  }

  std::string range(Label label) {
    const Interval& range = binding_.ranges.at(label);
    for (const auto& dimensions : binding_.operands)
      for (const Dimension& dimension : dimensions)
        if (dimension.is_plain() && dimension.index.label() == label &&
            range == Interval{0, dimension.size})
          return concat(index_name(label), " in 0:", size_name(label));
    if (!contains(open_, label)) {
      open_.push_back(label);
      scalars_.push_back(range.begin);
      scalars_.push_back(range.end);
    }
    std::string name = index_name(label);
    return concat(name, " in ", name, "_begin:", name, "_end");
  }

  std::string signature() const {
    std::string text;
    std::string type = lang::type_name(binding_.shapes[0].type);
    for (size_t k = 0; k < binding_.operands.size(); ++k) {
      text += concat(text.empty() ? "" : ", ", type, "(");
      for (size_t d = 0; d < binding_.operands[k].size(); ++d) {
        const Dimension& dimension = binding_.operands[k][d];
        text += d > 0 ? ", " : "";
        text += dimension.broadcast    ? "1"
                : dimension.is_plain() ? size_name(dimension.index.label())
                                       : concat("in", k, "_", d);
      }
      if (binding_.operands[k].empty()) text += "1";
      text += concat(") in", k);
    }
    for (const Table* table : binding_.tables) {
      text += ", int32(";
      const std::vector<Label>& labels = lookup(*table);
      for (size_t d = 0; d < labels.size(); ++d) text += (d > 0 ? ", " : "") + size_name(labels[d]);
      text += concat(") ", tables_.at(table->name));
    }
    for (Label label : open_) {
      std::string name = index_name(label);
      text += concat(", int32 ", name, "_begin, int32 ", name, "_end");
    }
    return text;
  }

  /// The labels that a table is looked up by where it stands first.
  const std::vector<Label>& lookup(const Table& table) const {
    for (const auto& dimensions : binding_.operands)
      for (const Dimension& dimension : dimensions)
        for (const Term& term : dimension.index.terms)
          if (term.kind == Term::Kind::Table && term.table == table.name) return term.labels;
    TC_INTERNAL_CHECK(false, "table ", table.name, " is not used");
    static const std::vector<Label> none;
    return none;
  }

  const Binding& binding_;
  bool upper_case_ = false;
  std::map<std::string, std::string> tables_;  ///< names in the text
  std::vector<std::string> statements_;
  std::vector<Label> open_;  ///< labels whose ranges are scalars
  std::vector<int64_t> scalars_;
  int temporaries_ = 0;
};

}  // namespace

std::vector<Label> labels_of(const std::vector<Dimension>& operand) {
  std::vector<Label> labels;
  auto add = [&](Label label) {
    if (!contains(labels, label)) labels.push_back(label);
  };
  for (const Dimension& dimension : operand) {
    if (dimension.broadcast) continue;
    for (const Term& term : dimension.index.terms) {
      if (term.kind == Term::Kind::Label) add(term.label);
      for (Label label : term.labels) add(label);
    }
  }
  return labels;
}

Source make_source(const Binding& binding, const Path& path) { return Writer(binding).write(path); }

}  // namespace tc::einsum
