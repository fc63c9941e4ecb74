// Mapping options: a partial Plan. What is set holds, the rest is the compiler's to choose. They
// print as the Python that rebuilds them and compare exactly; protobuf is their form on disk only.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/python_calls.h"
#include "plan/options/cluster_options.h"
#include "poly/fusion_strategy.h"

namespace tc {

struct MappingOptions {
  /// Name of the preset these options started from; the fields below say what it means.
  std::string preset = "default";
  /// Keep the textual order and nesting: every statement its own loops, serial, scalar. The
  /// reference that tests compare with. Only the preset "identity".
  bool identity = false;

  FusionStrategy outer_fusion = FusionStrategy::Preserve3Coincident;
  // Lists that are empty leave the choice to the compiler.
  std::vector<int64_t> tile;     ///< of the loops that statements share, outermost first
  std::vector<int64_t> threads;  ///< x, y, z: at most so many
  std::vector<int64_t> blocks;   ///< x, y, z: at most so many
  // CPU
  /// Of statements in one tile: Min, each passes over its points by itself; Max, they share the
  /// loops over them.
  FusionStrategy intra_tile_fusion = FusionStrategy::Preserve3Coincident;
  bool vectorize = true;
  bool parallel = true;
  /// Whether a library may compute statements that it knows. Left open: where nothing else is set
  /// that decides about loops.
  std::optional<bool> match_library_calls;

  /// The statements that a library computes; open: as match_library_calls says.
  std::optional<std::vector<std::string>> library_calls;

  /// What is decided about single clusters.
  std::vector<plan::ClusterOptions> clusters;

  /// Subscripts that are data are looked at, and a bad one is an error of the call.
  bool check_indices = true;

  // Kept and printed; no mapping acts upon these yet. What does must take its field out of here
  // and the remark out of its Python docstring.
  int64_t unroll = 1;  ///< upper bound on unrolled copies of the innermost body
  bool tile_imperfectly_nested = false;
  bool use_shared_memory = false;
  bool use_private_memory = false;
  bool unroll_copy_shared = false;
  int64_t max_shared_memory = 0;  ///< bytes; 0: what the device has
  bool use_readonly_cache = false;
  bool fix_parameters_before_scheduling = true;

  /// Whether tiles, threads, blocks or anything of a single cluster are set.
  bool decides_loops() const;

  bool operator==(const MappingOptions& other) const;
  bool operator!=(const MappingOptions& other) const { return !(*this == other); }
};

/// Presets: default, naive, identity, unmapped, single_thread, pointwise, mlp, convolution,
/// group_convolution. An unknown name is a UsageError that lists them.
MappingOptions make_options(const std::string& preset);

/// Sets a field by the name of its Python method; UsageError for unknown names and bad values,
/// with what was given and what is allowed.
void set_option(MappingOptions& options, const std::string& name,
                const std::vector<int64_t>& values);
void set_option(MappingOptions& options, const std::string& name, const std::string& word);
/// The same of any call. `cluster("S0", ...)` begins with the options of a cluster: those that are
/// set from then on are of that one, where clusters have such options (see
/// plan/options/cluster_options).
void set_option(MappingOptions& options, const PythonCall& call);

/// tc.MappingOptions("naive").tile(32, 32).unroll(4): only fields that differ from the preset.
std::string to_string(const MappingOptions& options);
MappingOptions parse_options(const std::string& text);

}  // namespace tc
