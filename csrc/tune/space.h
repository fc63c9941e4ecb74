// The Plans of a whole program that tuning chooses among, and what is known of each before it is
// compiled.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "ir/layout.h"
#include "machine/cpu.h"
#include "plan/options/options.h"
#include "plan/plan_program.h"
#include "poly/scop.h"
#include "tune/cluster_space.h"

namespace tc::tune {

/// Statements that are scheduled together, and how the compiler would run them.
struct Part {
  const ir::Program* program = nullptr;
  const Layouts* layouts = nullptr;
  const poly::Scop* scop = nullptr;
  const plan::ProgramPlan* plan = nullptr;
  size_t segment = 0;  ///< counted from 1 where options have to say of which one statements are
  std::shared_ptr<const void> owner;
};

/// What the compiler makes of a program whose Plan is decided in part: all parts in order of
/// execution. CompilationError where that cannot be.
using Planner = std::function<std::vector<Part>(const MappingOptions&)>;

/// A Plan of the program.
struct Candidate {
  size_t structure = 0;
  std::vector<Genes> genes;  ///< of every cluster
  std::string text;          ///< as options: equal candidates have equal texts
  std::string reason;        ///< why it cannot be; empty where nothing is in its way so far
  std::vector<double> features;
};

/// The names of a candidate's features, in their order: what models of its time are made from.
const std::vector<std::string>& feature_names();

/// Candidates by number, in the order in which they were made; equal ones have one number. Plans
/// differ in the statements that libraries compute and those that share loops, the structure, and
/// in the fields of each cluster. Whatever is drawn follows from the seed alone.
class Space {
 public:
  /// Plans have what `constraints` decide. `callable` are the statements that a library has a
  /// function for.
  Space(Planner planner, std::vector<std::string> callable, MappingOptions constraints,
        const CpuMachine& machine, bool cuda);
  ~Space();

  /// A Plan as options. CompilationError where it is none of these.
  size_t add(const MappingOptions& whole);
  /// The compiler's own proposals: for each structure that is near the first candidate's, and for
  /// each form that a cluster may have.
  std::vector<size_t> starts();
  /// One of the starts with every field drawn anew by chance.
  size_t draw(uint64_t seed);
  /// The candidate with some changes.
  size_t mutate(size_t candidate, uint64_t seed);
  /// Every field from one of three, by chance (uniform crossover).
  size_t cross(const std::vector<size_t>& parents, uint64_t seed);
  /// Those that differ in one field, by one step.
  std::vector<size_t> neighbours(size_t candidate);

  const Candidate& operator[](size_t candidate) const { return candidates_.at(candidate); }
  size_t size() const { return candidates_.size(); }

 private:
  struct Cluster;
  struct Structure;

  size_t find_structure(const MappingOptions& partial);
  /// What of a whole Plan makes its structure.
  MappingOptions structure_of(const MappingOptions& whole) const;
  MappingOptions with_constraints(MappingOptions partial) const;
  /// Structures that differ in one library call, or in statements that share loops or do not.
  std::vector<size_t> near_structures(size_t structure);
  size_t make(size_t structure, std::vector<Genes> genes);
  std::vector<Genes> proposals(size_t structure);
  std::vector<size_t> add_forms(size_t structure);

  const Planner planner_;
  const std::vector<std::string> callable_;
  const MappingOptions constraints_;
  const CpuMachine machine_;
  const bool cuda_;
  std::vector<std::unique_ptr<Structure>> structures_;
  std::map<std::string, size_t> by_partial_;  ///< structures; -1 where there can be none
  std::map<size_t, std::vector<size_t>> near_;
  std::vector<Candidate> candidates_;
  std::map<std::string, size_t> by_text_;
  std::optional<std::vector<size_t>> starts_;
};

}  // namespace tc::tune
