// What a nest of loops brings to a cache: the model of reuse that estimates stand on.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "plan/forms/operands.h"

namespace tc::plan {

/// A loop of a nest: an iteration of it covers `size` points along an iterator, all of them
/// `extent`.
struct NestLoop {
  int iterator = 0;
  int64_t size = 1, extent = 1;

  /// Rather than code that runs once.
  bool is_loop() const { return extent > size; }
  double iterations() const { return static_cast<double>(extent) / static_cast<double>(size); }
  /// The last one counts, however short it is.
  double whole_iterations() const { return std::ceil(iterations()); }
};

/// A cache as far as reuse needs to know it.
struct CacheSize {
  double bytes = 0;
  int64_t sets = 0, ways = 0;  ///< 0: any lines fit beside each other
};

/// Of lines that are touched again, how many a cache still has, where so many times its size was
/// touched meanwhile.
double kept_share(double touched);

/// Lines that accesses bring to a cache, counted from the innermost loop outwards. What an
/// iteration of a loop has brought is there for the next one where everything that an iteration
/// touches fits (reuse distances; Wolf and Lam, A Data Locality Optimizing Algorithm).
class NestTraffic {
 public:
  /// The body takes so many points along every iterator.
  NestTraffic(CacheSize cache, std::vector<int64_t> block);

  /// Of what the loops so far touch; returns the number of the access.
  size_t add(const Footprint& footprint);
  /// A buffer of so many lines that is filled anew where the loops are now: nothing is brought.
  void fill(size_t access);
  /// Goes on to the next loop outwards.
  void pass(const NestLoop& loop);

  double brought(size_t access) const { return accesses_[access].brought; }
  /// The same of a buffer that is filled, without what is there since then; and how many of the
  /// lines that are written then leave the cache before they are read.
  double brought_again(size_t access) const {
    return accesses_[access].brought - accesses_[access].stayed;
  }
  double left(size_t access) const { return accesses_[access].left; }

 private:
  struct Access {
    Footprint footprint;
    double lines = 0, brought = 0;
    bool filled = false;
    double stayed = 0, left = 0;  ///< of what is filled
  };
  CacheSize cache_;
  std::vector<int64_t> points_;
  std::vector<Access> accesses_;
};

}  // namespace tc::plan
