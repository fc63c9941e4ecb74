// The Plans of one cluster that tuning chooses among: fields, each with its values.
#pragma once

#include <cstdint>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "plan/members.h"
#include "plan/options/constraints.h"
#include "plan/plan.h"

namespace tc::tune {

/// Random numbers that are the same on every machine.
class Random {
 public:
  explicit Random(uint64_t seed) : engine_(seed) {}
  /// From 0 to `count` - 1.
  size_t below(size_t count) { return static_cast<size_t>(engine_() % count); }
  bool chance(double share) { return static_cast<double>(engine_() >> 11) * 0x1p-53 < share; }
  template <class T>
  const T& pick(const std::vector<T>& values) {
    return values[below(values.size())];
  }

 private:
  std::mt19937_64 engine_;
};

/// A value for every field: a size, a flag, or the number of an alternative.
using Genes = std::vector<int64_t>;

/// What may be chosen for a cluster whose statements, and the loops around them, are given. Copies
/// that compute a statement which does not run stay as they are, and so does everything below the
/// tasks where an instruction adds up terms.
class ClusterSpace {
 public:
  /// `start` is a Plan of it, as the compiler proposes one. What `constraints` decide has that one
  /// value. With `cuda` tasks are blocks of a grid.
  ClusterSpace(const plan::Cluster& cluster, const plan::Scop& scop,
               const plan::Constraints& constraints, const CpuMachine& machine, bool cuda,
               const plan::ClusterPlan& start);

  /// The genes of a Plan of this cluster; values that are new are known from then on.
  Genes encode(const plan::ClusterPlan& plan);
  /// The Plan in a form of its own: equal Plans have equal texts.
  plan::ClusterPlan decode(const Genes& genes) const;

  /// Every field drawn anew with the given chance: sizes from those of the loop, with the
  /// register multiples that suit its role.
  void draw(Genes& genes, double share, Random& random);
  /// Another value for one field: mostly a neighbouring size.
  void mutate(Genes& genes, Random& random);
  /// Plans that differ in one field, by one step of its values.
  std::vector<Genes> neighbours(const Genes& genes);

 private:
  enum class Kind {
    Order,
    TaskOrder,
    Parallel,
    Points,
    Vector,
    Nests,
    Task,
    Register,
    Reduction,
    Copy
  };
  struct Field {
    Kind kind;
    size_t number = 0;  ///< of the loop, the reduction or the copy
    bool fixed = false;

    bool is_size() const {
      return kind == Kind::Task || kind == Kind::Register || kind == Kind::Reduction;
    }
  };
  struct Loop {
    std::string name;
    int64_t extent = 1;
  };
  /// A read that may be copied, with the orders of its dimensions that are known.
  struct CopiedRead {
    std::string statement, read;
    std::vector<poly::CopyLayout> orders;
  };

  void add(Kind kind, size_t number, bool fixed);
  void find_reductions();
  void find_copies();
  int64_t gene(const Genes& genes, Kind kind, size_t number = 0) const;
  int64_t known_order(const std::vector<std::string>& names);
  int64_t known_nests(const std::vector<plan::NestPlan>& nests);
  /// The loops of every statement below the shared ones, each for itself.
  std::vector<plan::NestPlan> separate_nests() const;
  /// Some change of loops, vectors or groups.
  std::vector<plan::NestPlan> change(std::vector<plan::NestPlan> nests, Random& random) const;
  /// In order; those of sizes depend on what the loop is in the other genes.
  std::vector<int64_t> values(const Field& field, const Genes& genes) const;
  void set_random(size_t field, Genes& genes, Random& random);

  const plan::Cluster& cluster_;
  const plan::Scop& scop_;
  const bool cuda_;
  const int lanes_;
  const plan::Constraints constraints_;
  plan::ClusterPlan start_;
  std::vector<Loop> loops_;       ///< shared, by position
  std::vector<Loop> reductions_;  ///< that may be tiled, of all statements
  std::vector<CopiedRead> copies_;
  std::vector<plan::CopyPlan> computed_;  ///< copies that every Plan has
  std::vector<std::vector<std::string>> orders_;
  std::vector<std::vector<plan::NestPlan>> nests_;
  std::map<std::string, int64_t> nests_by_text_;
  std::vector<Field> fields_;
};

}  // namespace tc::tune
