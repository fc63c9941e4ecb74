#include "einsum/bind.h"

#include <algorithm>
#include <limits>
#include <optional>

#include "base/error.h"
#include "base/notes.h"
#include "ir/dtypes.h"

namespace tc::einsum {
namespace {

constexpr int64_t kLargest = std::numeric_limits<int32_t>::max();

template <class... Parts>
[[noreturn]] void misfit(const SourceRange& where, const Parts&... parts) {
  throw ShapeError("einsum: ", parts..., where.valid() ? "\n" + where.highlight() : "");
}

/// Adds factor * value to a part of an index. What bounds are made of it stays within 64 bits.
void accumulate(int64_t factor, int64_t value, int64_t* to) {
  constexpr int64_t kMost = int64_t{1} << 61;
  int64_t product;
  if (__builtin_mul_overflow(factor, value, &product) || __builtin_add_overflow(*to, product, to) ||
      *to > kMost || *to < -kMost)
    throw ShapeError(
        "einsum: an index takes values beyond 2^61; its factors, sizes or tables are too large");
}

std::string place(size_t operand, size_t dimension) {
  return concat("dimension ", dimension, " of operand ", operand);
}
std::string place(const Dimension& dimension) { return place(dimension.operand, dimension.place); }

std::string text(const std::vector<int64_t>& values) {
  std::string result = "[";
  for (int64_t value : values) result += concat(result.size() > 1 ? ", " : "", value);
  return result + "]";
}

/// The values that some terms take, and where they take them.
struct Extreme {
  int64_t value = 0;
  std::vector<std::string> at;  ///< "h = 3", "sh[2] = 5"
};
struct Extremes {
  Extreme least, largest;
};

class Binder {
 public:
  Binder(const Equation& equation, const std::vector<Shape>& shapes,
         const std::vector<Table>& tables)
      : equation_(equation), shapes_(shapes), tables_(tables) {}

  Binding bind() {
    result_.shapes = shapes_;
    check_operands();
    expand_ellipses();
    find_tables();
    fix_sizes();
    find_output();
    solve();
    check_places();
    return std::move(result_);
  }

 private:
  void check_operands() {
    check_count(equation_, shapes_.size());
    for (size_t k = 0; k < shapes_.size(); ++k) {
      if (shapes_[k].type != shapes_[0].type) {
        throw ShapeError("einsum: operand ", k, " is ", ir::dtype_name(shapes_[k].type),
                         " but operand 0 is ", ir::dtype_name(shapes_[0].type),
                         "; convert one of them");
      }
      for (size_t d = 0; d < shapes_[k].sizes.size(); ++d) {
        if (shapes_[k].sizes[d] > kLargest) {
          throw ShapeError("einsum: ", place(k, d), " is ", shapes_[k].sizes[d],
                           ", but indices have 32 bits and sizes end at ", kLargest);
        }
      }
    }
    if (shapes_[0].type.is_bool()) {
      throw ShapeError(
          "einsum: sums of products of bool have no type; convert the operands, to int8 for one");
    }
  }

  void expand_ellipses() {
    for (size_t k = 0; k < shapes_.size(); ++k) {
      const Operand& operand = equation_.operands[k];
      size_t rank = shapes_[k].sizes.size(), named = operand.indices.size();
      if (named > rank || (named < rank && !operand.ellipsis)) {
        misfit(operand.where, "operand ", k, " has ", plural(rank, "dimension"), ", sizes ",
               text(shapes_[k].sizes), ", but the equation names ",
               operand.ellipsis ? "at least " : "", named,
               operand.ellipsis || named > rank ? "" : "; ... stands for further ones");
      }
      std::vector<Dimension> dimensions;
      for (const Index& index : operand.indices) dimensions.push_back({index});
      if (operand.ellipsis) {
        size_t hidden = rank - named;
        hidden_ = std::max(hidden_, hidden);
        for (size_t i = 0; i < hidden; ++i) {
          const Label label = kFirstEllipsis + static_cast<int>(hidden - 1 - i);
          dimensions.insert(dimensions.begin() + *operand.ellipsis + i,
                            Dimension{label_index(label, operand.where)});
        }
      }
      for (size_t d = 0; d < rank; ++d) {
        dimensions[d].size = shapes_[k].sizes[d];
        dimensions[d].operand = k;
        dimensions[d].place = d;
      }
      result_.operands.push_back(dimensions);
    }
  }

  template <class Visit>
  void for_each_term(Visit visit) {
    for (const auto& dimensions : result_.operands)
      for (const Dimension& dimension : dimensions)
        for (const Term& term : dimension.index.terms) visit(term);
  }

  void find_tables() {
    for_each_term([&](const Term& term) {
      if (term.kind != Term::Kind::Table) return;
      auto named = [&](const Table& table) { return table.name == term.table; };
      auto found = std::find_if(tables_.begin(), tables_.end(), named);
      if (found == tables_.end()) {
        std::string known;
        for (const Table& table : tables_) known += concat(known.empty() ? "" : ", ", table.name);
        misfit(term.where, "table ", term.table, " was not passed",
               known.empty() ? concat("; pass it by name: einsum(..., ", term.table, "=...)")
                             : concat("; the tables are ", known));
      }
      if (found->shape.sizes.size() != term.labels.size()) {
        misfit(term.where, "table ", term.table, " has ",
               plural(found->shape.sizes.size(), "dimension"), ", sizes ", text(found->shape.sizes),
               ", but is looked up by ", plural(term.labels.size(), "label"));
      }
      auto& used = result_.tables;
      if (std::find(used.begin(), used.end(), &*found) == used.end()) used.push_back(&*found);
    });
    for (const Table& table : tables_) {
      if (std::find(result_.tables.begin(), result_.tables.end(), &table) == result_.tables.end())
        throw ShapeError("einsum: table ", table.name,
                         " was passed, but the equation does not look anything up in it");
    }
  }

  const Table& table(const Term& term) const {
    for (const Table* table : result_.tables)
      if (table->name == term.table) return *table;
    TC_INTERNAL_CHECK(false, "no table ", term.table);
    return tables_[0];
  }

  /// The sizes of labels that stand alone.
  void fix_sizes() {
    std::map<Label, std::string> first;
    auto fix = [&](Label label, int64_t size, const std::string& where, const SourceRange& range,
                   bool broadcasts) {
      auto [known, added] = sizes_.emplace(label, size);
      if (added || (known->second == 1 && broadcasts && size != 1)) {
        known->second = size;
        first[label] = where;
      } else if (known->second != size && !(size == 1 && broadcasts)) {
        misfit(range, "label ", label_text(label), " is ", known->second, " (", first[label],
               ") but ", size, " (", where, ")",
               broadcasts ? "; sizes must agree, or be 1 and broadcast" : "");
      }
    };
    // Within an operand a label is a diagonal, where nothing broadcasts.
    for (const auto& dimensions : result_.operands) {
      std::map<Label, const Dimension*> seen;
      for (const Dimension& dimension : dimensions) {
        if (!dimension.index.is_label()) continue;
        const Dimension& other = *seen.emplace(dimension.index.label(), &dimension).first->second;
        if (other.size != dimension.size)
          misfit(dimension.index.where, "label ", label_text(dimension.index.label()), " is ",
                 other.size, " (", place(other), ") but ", dimension.size, " (", place(dimension),
                 "); a diagonal runs over equal sizes");
      }
    }
    // Tables first: they do not broadcast.
    for_each_term([&](const Term& term) {
      if (term.kind != Term::Kind::Table) return;
      for (size_t d = 0; d < term.labels.size(); ++d)
        fix(term.labels[d], table(term).shape.sizes[d],
            concat("dimension ", d, " of table ", term.table), term.where, false);
    });
    const std::map<Label, int64_t> of_tables = sizes_;
    for (const auto& dimensions : result_.operands)
      for (const Dimension& dimension : dimensions) {
        if (!dimension.index.is_label()) continue;
        Label label = dimension.index.label();
        fix(label, dimension.size, place(dimension), dimension.index.where,
            !of_tables.count(label) || dimension.size == 1);
      }
    for (auto& dimensions : result_.operands)
      for (Dimension& dimension : dimensions)
        dimension.broadcast = dimension.index.is_label() && dimension.size == 1 &&
                              sizes_.at(dimension.index.label()) != 1;
  }

  void find_output() {
    std::map<Label, int> uses;
    for_each_term([&](const Term& term) {
      if (term.kind == Term::Kind::Label) ++uses[term.label];
      for (Label label : term.labels) ++uses[label];
    });
    auto add_ellipsis = [&] {
      for (size_t i = hidden_; i-- > 0;)
        result_.output.push_back(kFirstEllipsis + static_cast<int>(i));
    };
    if (!equation_.output) {
      // As in torch.einsum: the dimensions of ellipses, then in the alphabet's order what stands
      // once.
      add_ellipsis();
      for (const auto& [label, count] : uses)
        if (count == 1 && label < kFirstEllipsis) result_.output.push_back(label);
      return;
    }
    const Operand& output = *equation_.output;
    for (size_t i = 0; i <= output.indices.size(); ++i) {
      if (output.ellipsis == i) add_ellipsis();
      if (i == output.indices.size()) break;
      Label label = output.indices[i].label();
      if (!uses.count(label))
        throw LanguageError(output.indices[i].where, "label ", label_text(label),
                            " of the output stands in no operand");
      result_.output.push_back(label);
    }
  }

  // ---- ranges

  /// What the terms that pass the filter take, and the text of where. Labels must have ranges.
  Extremes extremes(const std::vector<Term>& terms) const {
    Extremes result;
    std::map<Label, int64_t> factors;
    std::vector<const Term*> lookups;
    for (const Term& term : terms) {
      switch (term.kind) {
        case Term::Kind::Integer:
          result.least.value += term.factor;
          result.largest.value += term.factor;
          break;
        case Term::Kind::Label: factors[term.label] += term.factor; break;
        case Term::Kind::Table: lookups.push_back(&term); break;
      }
    }
    // A label that is looked up by as well takes part there.
    while (!lookups.empty()) {
      std::vector<const Term*> group = {lookups.back()};
      lookups.pop_back();
      std::set<Label> labels(group[0]->labels.begin(), group[0]->labels.end());
      for (size_t i = 0; i < lookups.size();) {
        auto shared = [&](Label label) { return labels.count(label) > 0; };
        if (std::any_of(lookups[i]->labels.begin(), lookups[i]->labels.end(), shared)) {
          labels.insert(lookups[i]->labels.begin(), lookups[i]->labels.end());
          group.push_back(lookups[i]);
          lookups.erase(lookups.begin() + i);
          i = 0;
        } else {
          ++i;
        }
      }
      add_group(group, {labels.begin(), labels.end()}, &factors, &result);
    }
    for (const auto& [label, factor] : factors) {
      if (factor == 0) continue;
      const Interval& range = result_.ranges.at(label);
      int64_t first = range.begin, last = range.end - 1;
      add(label, factor, factor > 0 ? first : last, &result.least);
      add(label, factor, factor > 0 ? last : first, &result.largest);
    }
    return result;
  }

  static void add(Label label, int64_t factor, int64_t value, Extreme* to) {
    accumulate(factor, value, &to->value);
    to->at.push_back(concat(label_text(label), " = ", value));
  }

  /// Lookups that share labels are looked at together, value by value.
  void add_group(const std::vector<const Term*>& group, const std::vector<Label>& labels,
                 std::map<Label, int64_t>* factors, Extremes* result) const {
    std::vector<int64_t> alone;
    for (Label label : labels) {
      alone.push_back((*factors)[label]);
      factors->erase(label);
    }
    std::map<Label, size_t> position;
    for (size_t i = 0; i < labels.size(); ++i) {
      position[labels[i]] = i;
      if (result_.ranges.at(labels[i]).size() <= 0) return;  // nothing is looked up
    }
    std::vector<int64_t> at(labels.size());
    for (size_t i = 0; i < labels.size(); ++i) at[i] = result_.ranges.at(labels[i]).begin;
    auto element = [&](const Term& term) {
      const Table& of = table(term);
      int64_t offset = 0;
      for (size_t d = 0; d < term.labels.size(); ++d)
        offset = offset * of.shape.sizes[d] + at[position[term.labels[d]]];
      return of.values[offset];
    };
    auto describe = [&] {
      std::vector<std::string> places;
      for (size_t i = 0; i < labels.size(); ++i)
        if (alone[i] != 0) places.push_back(concat(label_text(labels[i]), " = ", at[i]));
      for (const Term* term : group) {
        std::vector<int64_t> where;
        for (Label label : term->labels) where.push_back(at[position[label]]);
        places.push_back(concat(term->table, text(where), " = ", element(*term)));
      }
      return places;
    };
    std::optional<Extreme> least, largest;
    while (true) {
      int64_t value = 0;
      for (const Term* term : group) accumulate(term->factor, element(*term), &value);
      for (size_t i = 0; i < labels.size(); ++i) accumulate(alone[i], at[i], &value);
      if (!least || value < least->value) least = Extreme{value, describe()};
      if (!largest || value > largest->value) largest = Extreme{value, describe()};
      size_t i = labels.size();
      while (i > 0 && ++at[i - 1] == result_.ranges.at(labels[i - 1]).end) {
        at[i - 1] = result_.ranges.at(labels[i - 1]).begin;
        --i;
      }
      if (i == 0) break;
    }
    auto add_to = [](const Extreme& from, Extreme* to) {
      accumulate(1, from.value, &to->value);
      to->at.insert(to->at.end(), from.at.begin(), from.at.end());
    };
    add_to(*least, &result->least);
    add_to(*largest, &result->largest);
  }

  /// The factor of a label in an index, and the index without it.
  static std::pair<int64_t, std::vector<Term>> take_out(Label label, const Index& index) {
    int64_t factor = 0;
    std::vector<Term> rest;
    for (const Term& term : index.terms) {
      if (term.kind == Term::Kind::Label && term.label == label) {
        factor += term.factor;
      } else {
        rest.push_back(term);
      }
    }
    return {factor, rest};
  }

  /// The values of the unsolved label for which an index stays inside a dimension whatever the
  /// other terms are; none where these have no value.
  Interval bounds(const Dimension& dimension, Label label) const {
    const auto [factor, rest] = take_out(label, dimension.index);
    Extremes others = extremes(rest);
    int64_t low = -others.least.value, high = dimension.size - 1 - others.largest.value;
    auto floor_div = [](int64_t a, int64_t b) {
      return a / b - (a % b != 0 && (a % b < 0) != (b < 0));
    };
    auto ceil_div = [&](int64_t a, int64_t b) { return -floor_div(-a, b); };
    if (factor > 0) return {ceil_div(low, factor), floor_div(high, factor) + 1};
    return {ceil_div(high, factor), floor_div(low, factor) + 1};
  }

  void solve() {
    while (true) {
      std::map<Label, Interval> found;
      std::map<Label, const Dimension*> by;
      std::set<Label> from_tables;
      auto narrow = [&](Label label, const Interval& bounds, const Dimension* dimension) {
        auto [known, added] = found.emplace(label, bounds);
        if (!added) {
          known->second.begin = std::max(known->second.begin, bounds.begin);
          known->second.end = std::min(known->second.end, bounds.end);
        }
        by[label] = dimension;
      };
      if (result_.ranges.empty())
        for (const auto& [label, size] : sizes_) narrow(label, {0, size}, nullptr);
      for (const auto& dimensions : result_.operands)
        for (const Dimension& dimension : dimensions) {
          if (dimension.index.is_label()) continue;
          std::set<Label> open, looked_up;
          bool data = false;
          for (const Term& term : dimension.index.terms) {
            const bool is_label = term.kind == Term::Kind::Label;
            if (is_label && !result_.ranges.count(term.label)) open.insert(term.label);
            looked_up.insert(term.labels.begin(), term.labels.end());
            data = data || term.kind == Term::Kind::Table ||
                   (is_label && result_.from_tables.count(term.label));
          }
          for (Label label : looked_up)
            if (!result_.ranges.count(label)) open.insert(label);
          if (open.size() != 1) continue;
          Label label = *open.begin();
          // What is looked up by a label says nothing about the label.
          if (looked_up.count(label) || take_out(label, dimension.index).first == 0) continue;
          narrow(label, bounds(dimension, label), &dimension);
          if (data) from_tables.insert(label);
        }
      if (found.empty()) break;
      for (const auto& [label, range] : found) {
        // No value at all is only right where an operand has none.
        if (range.size() <= 0 && !(sizes_.count(label) && sizes_.at(label) == 0)) {
          const Dimension* dimension = by[label];
          misfit(dimension ? dimension->index.where : SourceRange(), "label ", label_text(label),
                 " has no value: ", reason(label, *dimension));
        }
        if (range.begin < -kLargest || range.end > kLargest) {
          const Dimension* dimension = by[label];
          misfit(dimension ? dimension->index.where : SourceRange(), "label ", label_text(label),
                 " runs from ", range.begin, " to ", range.end - 1,
                 ", but labels have 32 bits: ", -kLargest, " to ", kLargest - 1,
                 "; make the integers in its index smaller");
        }
        result_.ranges[label] = range;
      }
      result_.from_tables.insert(from_tables.begin(), from_tables.end());
    }
    for_each_term([&](const Term& term) {
      if (term.kind == Term::Kind::Label && !result_.ranges.count(term.label))
        throw LanguageError(term.where, "the range of label ", label_text(term.label),
                            " is not known: every index that it stands in has another label "
                            "without a range; add an operand that has one of them alone");
    });
  }

  std::string reason(Label label, const Dimension& dimension) const {
    Extremes others = extremes(take_out(label, dimension.index).second);
    std::string text = concat(place(dimension), " has size ", dimension.size,
                              ", and the rest of the index runs from ", others.least.value, " to ",
                              others.largest.value);
    std::string at = join(others.largest.at);
    return at.empty() ? text : concat(text, " (", at, ")");
  }

  /// All places are inside, now that all ranges are known.
  void check_places() const {
    for (const auto& [label, range] : result_.ranges)
      if (range.size() <= 0) return;
    for (const auto& dimensions : result_.operands)
      for (const Dimension& dimension : dimensions) {
        if (dimension.broadcast) continue;
        Extremes all = extremes(dimension.index.terms);
        for (const Extreme* extreme : {&all.least, &all.largest}) {
          if (extreme->value >= 0 && extreme->value < dimension.size) continue;
          misfit(dimension.index.where, "index ", dimension.index.where.str(), " is ",
                 extreme->value, extreme->at.empty() ? "" : concat(" at ", join(extreme->at)),
                 ", but ", place(dimension), " has size ", dimension.size);
        }
      }
  }

  const Equation& equation_;
  const std::vector<Shape>& shapes_;
  const std::vector<Table>& tables_;
  Binding result_;
  size_t hidden_ = 0;  ///< dimensions that the longest ellipsis stands for
  std::map<Label, int64_t> sizes_;
};

}  // namespace

void check_count(const Equation& equation, size_t operands) {
  size_t wanted = equation.operands.size();
  if (operands == wanted) return;
  throw ShapeError("einsum: the equation has ", plural(wanted, "operand"), " but ", operands,
                   operands == 1 ? " was" : " were", " passed");
}

Binding bind(const Equation& equation, const std::vector<Shape>& operands,
             const std::vector<Table>& tables) {
  return Binder(equation, operands, tables).bind();
}

}  // namespace tc::einsum
