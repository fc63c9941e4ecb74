// The one include of isl (design decision 8): C++ interface with exceptions, and the C functions
// that it lacks.
//
// Pitfalls:
//  - In a leaf callback of the AST generator degenerate dimensions are gone: there no dimension of
//    the schedule is indexed by position. Loop iterators are named c<depth>, where depth counts the
//    schedule dimensions above, eliminated ones included.
//  - Tile scale and shift options are global to a context and are set to 0 by `Context`.
//  - `insert_context` wants a 0-d set; `isl_schedule_node_band_sink` moves a band to the leaves.
#pragma once

#include <isl/ast.h>
#include <isl/ast_build.h>
#include <isl/cpp.h>
#include <isl/options.h>
#include <isl/point.h>
#include <isl/schedule.h>
#include <isl/schedule_node.h>
#include <isl/set.h>
#include <isl/stride_info.h>
#include <isl/union_map.h>
#include <isl/union_set.h>

#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <exception>
#include <new>
#include <string>
#include <vector>

#include "base/threads/task.h"

namespace tc::poly {

/// An isl context of its own. isl objects are not safe to share between threads, so every
/// compilation has one; it must outlive every object made in it. Cancelling the task that it
/// belongs to ends what isl is at, with one of isl's exceptions.
class Context {
 public:
  Context() : raw_(allocate()) {
    isl_options_set_tile_scale_tile_loops(raw_, 0);
    isl_options_set_tile_shift_point_loops(raw_, 0);
    isl_options_set_ast_build_atomic_upper_bound(raw_, 1);
    isl_options_set_ast_build_detect_min_max(raw_, 1);
    isl_options_set_ast_build_prefer_pdiv(raw_, 1);
    isl_options_set_on_error(raw_, ISL_ON_ERROR_CONTINUE);
    Task::add_stop(raw_, [raw = raw_] { isl_ctx_abort(raw); });
    errno = 0;
  }
  ~Context() {
    // A failure that an exception of isl's may say nothing about: it only sees that an object is
    // missing. isl's parser even takes a token that it has no memory for as an error of syntax;
    // that malloc failed before is in errno alone.
    const bool failed = std::uncaught_exceptions() > exceptions_ && errno == ENOMEM;
    if (failed || isl_ctx_last_error(raw_) == isl_error_alloc) lacked_memory() = true;
    Task::remove_stop(raw_);
    isl_ctx_free(raw_);
  }
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;

  /// Whether isl got no memory in some context that is gone since this was set back.
  static std::atomic<bool>& lacked_memory() {
    static std::atomic<bool> lacked{false};
    return lacked;
  }

  /// std::bad_alloc where isl got no memory and no exception said so: where it builds lists of
  /// pieces, and in its AST generator, what it has no memory for may just be missing. To be called
  /// before anything that was found out is used.
  void require_memory() const {
    if (isl_ctx_last_error(raw_) == isl_error_alloc) throw std::bad_alloc();
  }

  isl::ctx get() const { return isl::ctx(raw_); }
  isl_ctx* raw() const { return raw_; }

 private:
  /// isl_ctx_alloc reads options that it has not set yet where its own few allocations fail: there
  /// is memory for them if there was for one larger block, by whose size
  /// tests/runtime/test_failed_allocations.py knows it.
  static isl_ctx* allocate() {
    void* volatile block = std::malloc(65536);  // volatile: not optimized away
    std::free(block);
    isl_ctx* made = block ? isl_ctx_alloc() : nullptr;
    if (!made) throw std::bad_alloc();
    return made;
  }

  isl_ctx* raw_;
  int exceptions_ = std::uncaught_exceptions();  ///< under way when it was made
};

/// Two schedules, one after the other.
inline isl::schedule sequence(const isl::schedule& first, const isl::schedule& second) {
  return isl::manage(isl_schedule_sequence(first.copy(), second.copy()));
}

/// Moves a band below everything under it, to the leaves.
inline isl::schedule_node sink(const isl::schedule_node_band& band) {
  return isl::manage(isl_schedule_node_band_sink(band.copy()));
}

/// Tiles a band; one size a member.
isl::schedule_node_band tile(const isl::schedule_node_band& band,
                             const std::vector<int64_t>& sizes);

/// A number without fraction.
int64_t to_integer(const isl::val& value);

/// A name that isl's parser takes for every iterator: i0, i1, ...
std::string iterator_name(size_t position);
/// "S0[i0, i1]": a tuple of so many of them.
std::string tuple_text(const std::string& id, size_t iterators);

/// The tree as text, one node a line.
std::string to_string(const isl::schedule& schedule);

}  // namespace tc::poly
