// Mapping options: plain data that decide a schedule fully. They print as the Python that rebuilds
// them and compare exactly; protobuf is their form on disk only.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace tc {

enum class FusionStrategy { Max, Min, Preserve3Coincident };

struct MappingOptions {
  /// Name of the preset these options started from; the fields below say what it means.
  std::string preset = "default";
  /// The compiler chooses tiles, blocks and threads itself from footprints and the machine; the
  /// fields below that were not set explicitly are then ignored. Only the preset "default".
  bool automatic = true;
  /// Keep the textual order and nesting: every statement its own loops, serial, scalar. The
  /// reference that tests compare with. Only the preset "identity".
  bool identity = false;

  FusionStrategy outer_fusion = FusionStrategy::Preserve3Coincident;
  std::vector<int64_t> tile;                 ///< outermost band, outermost first; empty: no tiling
  std::vector<int64_t> threads = {32, 8};    ///< x, y, z
  std::vector<int64_t> blocks = {256, 256};  ///< x, y, z
  // CPU
  /// Of statements in one tile: Min, each passes over its points by itself; Max, they share the
  /// loops over them.
  FusionStrategy intra_tile_fusion = FusionStrategy::Preserve3Coincident;
  bool vectorize = true;
  bool parallel = true;
  /// Whether a library may compute statements that it knows. Left open: with automatic options.
  std::optional<bool> match_library_calls;

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

/// tc.MappingOptions("naive").tile(32, 32).unroll(4): only fields that differ from the preset.
std::string to_string(const MappingOptions& options);
MappingOptions parse_options(const std::string& text);

}  // namespace tc
