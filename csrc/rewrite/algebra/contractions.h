// In which order a sum of products of several factors is taken: which of them are multiplied, and
// summed, before the others.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

#include "ir/program.h"
#include "machine/cpu.h"
#include "rewrite/algebra/inner_sums.h"

namespace tc::ir {

/// Sets of indices, and of factors, by number.
using IndexSet = uint64_t;
using FactorSet = uint32_t;
using ConditionSet = uint32_t;

inline IndexSet bit(size_t number) { return IndexSet{1} << number; }

/// An index of a statement, or a place: one that data says, as e(n) in W(e(n), p), or a sum of
/// indices, as i + r in X(i + r, j). What depends on n by e(n) alone, or on i and r by their sum,
/// may be computed for all places first, where these are fewer.
struct ContractionIndex {
  Iterator iterator;
  Expr place;            ///< in subscripts
  IndexSet function_of;  ///< the indices that a place is a function of; 0: an index
  bool summed = false;   ///< by the statement
  /// Of a sum: one of its indices, and what that is by the place and the others.
  std::string pivot = {};
  Expr pivot_value = {};
};

/// What is known of all statements of a program: numbers for values that are the same but for their
/// indices.
class ContractionTable {
 public:
  /// `writes`: how often each tensor that it reads was written before.
  int find_shape(const Expr& shape, const std::vector<int>& writes);
  int find_signature(const std::string& text);

 private:
  std::vector<std::pair<Expr, std::vector<int>>> shapes_;
  std::map<std::string, int> signatures_;
};

/// A product of some factors of a statement, summed over the indices that no other factor has.
struct PartialProduct {
  IndexSet indices = 0, kept = 0;  ///< of all points, and of the results
  std::vector<FactorSet> parts;    ///< what it multiplies: factors, or products made before
  FactorSet alone = 0;             ///< factors that are made by summing them alone
  ConditionSet conditions = 0;     ///< under which a point is a term
  double cost = 0;                 ///< operations, without those of its parts
  bool sums() const { return indices != kept; }
  /// Whether a part is a product of its own, rather than a factor as it is.
  bool makes(FactorSet part) const { return (part & (part - 1)) || (part & alone); }
};

/// Which parts of another statement's product have the same value: the one with that signature,
/// whose indices come in that order.
struct Signature {
  int number = 0;
  std::vector<int> indices;
};

/// The product that a statement sums, and the search for the order in which it is taken. Each set
/// of factors has one product, over the indices that these have: which of them are summed and which
/// places count follows from the set. It is made of the parts that cost least, of all ways to take
/// the set apart (dynamic programming over sets, as for joins of tables; Pfeifer, Haegeman and
/// Verstraete, Faster identification of optimal contraction sequences for tensor networks, 2014).
class Contraction {
 public:
  struct Limits {
    IndexSet needed = 0;       ///< no product sums over these
    bool conditional = false;  ///< the statement leaves out points of its domain
    FactorSet fixed = 0;       ///< these are only read under conditions
    double bytes = 4;          ///< of an element
    /// All under which the statement has a term, where these are of indices alone: a product has
    /// those of the indices that it sums over, and those that its reads need.
    std::vector<Expr> conditions = {};
  };
  using CountWrites = std::function<int(const std::string& tensor)>;
  /// Of at most 32 factors, each with an index.
  Contraction(const Statement& statement, const Program& program, std::vector<Factor> factors,
              const CpuMachine& machine, ContractionTable& table, CountWrites writes);
  void limit(const Limits& limits);
  IndexSet indices_in(const Expr& e) const;

  /// Searches the products with which the statement costs least; returns its operations. `share`
  /// says which part of a product's cost counts.
  double choose(const std::function<double(int signature)>& share);
  const PartialProduct& outermost() const { return outermost_; }
  const PartialProduct& product(FactorSet set) const { return products_.at(set); }
  /// All that may be made, whether chosen or not.
  std::vector<FactorSet> candidates() const;
  const Signature& signature(FactorSet set) const;

  const std::vector<ContractionIndex>& indices() const { return indices_; }
  const std::vector<Factor>& factors() const { return factors_; }
  /// A factor with places among those indices as indices.
  Expr value(size_t factor, IndexSet indices) const;
  Expr condition(size_t number, IndexSet indices) const;
  size_t conditions() const { return limits_.conditions.size(); }
  double points(IndexSet indices) const;

 private:
  void find_places();
  void find_sums();
  Expr with_sums(const Expr& e, IndexSet indices) const;
  struct Indices {
    IndexSet all = 0, inner = 0;
  };
  const Indices& indices_of(FactorSet set) const;
  IndexSet find_indices(FactorSet set) const;
  IndexSet find_inner(FactorSet set, IndexSet all) const;
  bool may_be_made(FactorSet set) const;
  bool is_summed_alone(FactorSet set) const;
  double element_cost(IndexSet kept) const;
  bool is_expressible(size_t condition, IndexSet indices) const;
  void add_conditions(const std::vector<FactorSet>& parts, bool outermost,
                      PartialProduct& made) const;
  bool reads_inside(FactorSet factors, const PartialProduct& product) const;
  PartialProduct multiply(FactorSet set, const std::vector<FactorSet>& parts, bool outermost) const;
  double cost_of_parts(const PartialProduct& product, const std::vector<FactorSet>& parts) const;
  std::optional<double> search(FactorSet set, PartialProduct& best, bool outermost) const;
  void join_units();
  Signature sign(FactorSet set) const;

  const Statement& statement_;
  const Program& program_;
  const CpuMachine& machine_;
  ContractionTable& table_;
  CountWrites writes_;
  Limits limits_;
  std::vector<Factor> factors_;
  std::vector<ContractionIndex> indices_;
  /// Of each factor: its indices, those that are left where places count, and these.
  std::vector<IndexSet> read_, direct_, places_;
  std::vector<IndexSet> rows_;      ///< indices of last subscripts
  IndexSet domain_ = 0, sums_ = 0;  ///< sums_: the places that are sums of indices
  double largest_ = 0;              ///< elements of a tensor that the statement uses
  std::vector<IndexSet> condition_read_;
  std::vector<FactorSet> units_;  ///< what the search takes apart no further
  std::map<FactorSet, PartialProduct> joined_, products_;
  std::unordered_map<FactorSet, double> costs_;
  PartialProduct outermost_;
  mutable std::unordered_map<FactorSet, Indices> known_;
  mutable std::map<std::pair<size_t, IndexSet>, bool> expressible_;
  mutable std::map<std::tuple<FactorSet, ConditionSet, IndexSet>, bool> inside_;
  mutable std::unordered_map<FactorSet, Signature> signatures_;
};

}  // namespace tc::ir
