#include "lang/lowering/redundant_ranges.h"

#include <algorithm>

#include "base/error.h"
#include "lang/lowering/lowering.h"
#include "lang/lowering/ranges.h"
#include "lang/sema/sema.h"
#include "lang/syntax/parser.h"
#include "lang/syntax/printer.h"

namespace tc::lang {
namespace {

using Ranges = std::map<std::string, Range>;

/// A function as its text says it, checked and with its ranges.
struct Inferred {
  Function function;
  ir::Program signature;
  std::vector<LoweredStatement> lowered;
  InferredRanges ranges;
  size_t warnings = 0;
};

Inferred infer_ranges_of(const Function& function) {
  Inferred result;
  result.function = std::move(parse_text(print(function))[0]);
  std::vector<std::string> warnings;
  result.signature = check(&result.function, &warnings);
  result.warnings = warnings.size();
  result.lowered = lower(result.function, result.signature, {});
  result.ranges = infer(result.function, result.signature, result.lowered);
  return result;
}

class Dropping {
 public:
  explicit Dropping(Function* function)
      : function_(*function), wanted_(infer_ranges_of(*function)) {}

  bool run() {
    for (size_t i = 0; i < function_.statements.size(); ++i) {
      std::vector<WhereClause> left = clauses_needed_alone(i);
      if (left.size() < function_.statements[i].clauses.size())
        found_.push_back({i, std::move(left)});
    }
    // To look at the whole function for every statement would take time in the square of their
    // number.
    drop(0, found_.size());
    return dropped_;
  }

 private:
  struct Shorter {
    size_t statement;
    std::vector<WhereClause> clauses;
  };

  bool same(const Ranges& a, const Ranges& b) const {
    return std::equal(a.begin(), a.end(), b.begin(), b.end(), [&](const auto& x, const auto& y) {
      return x.first == y.first && always_equal(x.second, y.second, wanted_.signature);
    });
  }

  /// The clauses without which a statement loses a range, whatever the others do.
  std::vector<WhereClause> clauses_needed_alone(size_t i) {
    LoweredStatement& lowered = wanted_.lowered[i];
    const std::vector<ExplicitRange> all = lowered.ranges;
    std::vector<WhereClause> left = function_.statements[i].clauses;
    const auto keeps_ranges = [&] {
      try {
        return same(wanted_.ranges.statements[i],
                    infer_statement(wanted_.function, wanted_.signature, wanted_.lowered,
                                    wanted_.ranges.shapes, i));
      } catch (const LanguageError&) {
        return false;
      }
    };
    lowered.ranges.clear();
    if (keeps_ranges()) {
      left.clear();
    } else {
      lowered.ranges = all;
      for (const ExplicitRange& range : all) {
        const std::vector<ExplicitRange> before = lowered.ranges;
        const auto is_this = [&](const auto& other) { return name_of(other) == range.index.name; };
        erase_if(&lowered.ranges, is_this);
        if (keeps_ranges()) {
          erase_if(&left, is_this);
        } else {
          lowered.ranges = before;
        }
      }
    }
    lowered.ranges = all;
    return left;
  }

  static const std::string& name_of(const ExplicitRange& range) { return range.index.name; }
  static const std::string& name_of(const WhereClause& clause) { return clause.name.name; }

  template <class T, class Condition>
  static void erase_if(std::vector<T>* all, const Condition& condition) {
    all->erase(std::remove_if(all->begin(), all->end(), condition), all->end());
  }

  /// Takes what was found for some statements where the function keeps its ranges with it: all at
  /// once, else half by half.
  void drop(size_t first, size_t last) {
    if (first == last) return;
    if (take(first, last)) {
      dropped_ = true;
    } else if (last - first == 1) {
      drop_one_by_one(found_[first].statement);
    } else {
      const size_t middle = first + (last - first) / 2;
      drop(first, middle);
      drop(middle, last);
    }
  }

  /// Whether the function keeps its ranges with what was found for some statements, which then
  /// stays.
  bool take(size_t first, size_t last) {
    const auto exchange = [&] {
      for (size_t k = first; k < last; ++k)
        std::swap(found_[k].clauses, function_.statements[found_[k].statement].clauses);
    };
    exchange();
    if (keeps_ranges()) return true;
    exchange();
    return false;
  }

  void drop_one_by_one(size_t i) {
    TreeStatement& statement = function_.statements[i];
    const std::vector<WhereClause> all = statement.clauses;
    for (const WhereClause& clause : all) {
      const std::vector<WhereClause> before = statement.clauses;
      erase_if(&statement.clauses,
               [&](const WhereClause& other) { return name_of(other) == name_of(clause); });
      if (!keeps_ranges()) statement.clauses = before;
    }
    dropped_ = dropped_ || statement.clauses.size() < all.size();
  }

  bool keeps_ranges() const {
    try {
      const Inferred now = infer_ranges_of(function_);
      const auto same_ranges = [&](const Ranges& a, const Ranges& b) { return same(a, b); };
      return now.warnings <= wanted_.warnings &&
             std::equal(wanted_.ranges.statements.begin(), wanted_.ranges.statements.end(),
                        now.ranges.statements.begin(), same_ranges);
    } catch (const LanguageError&) {
      return false;
    }
  }

  Function& function_;
  Inferred wanted_;
  std::vector<Shorter> found_;  ///< what statements may have instead of their clauses
  bool dropped_ = false;
};

}  // namespace

bool drop_redundant_ranges(Function* function) { return Dropping(function).run(); }

}  // namespace tc::lang
