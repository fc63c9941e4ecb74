#include "codegen/prefetch/prefetch_parts.h"

#include <algorithm>
#include <map>
#include <optional>
#include <vector>

#include "base/memory.h"
#include "codegen/names.h"
#include "codegen/prefetch/next_part.h"
#include "codegen/prefetch/walks.h"
#include "codegen/workarounds/hidden_zero.h"

namespace tc::codegen {
namespace {

/// The footprint of a read in all iterations of the loops inside; `go_on` leads it along one of
/// them, and says whether it could.
template <class GoOn>
std::optional<Footprint> footprint(const Read& read, GoOn go_on) {
  Footprint found(read);
  for (auto loop = read.inside.rbegin(); loop != read.inside.rend(); ++loop)
    if (!go_on(found, *loop)) return std::nullopt;
  return found;
}

/// The largest part in one piece that is small enough: of the loops around, those further out move
/// it less often, which leaves more time until the next one is read.
std::optional<Footprint> find_dense(const Read& read, const Around& around,
                                    const CpuMachine& machine) {
  auto go_on = [&](Footprint& reach, const AroundLoop& loop) {
    auto walk = reach.along(loop, &around);
    if (walk) reach.widen(loop, *walk);
    return walk.has_value();
  };
  auto reach = footprint(read, go_on);
  std::optional<Footprint> part;
  for (size_t l = around.loops().size(); reach && l-- > 0;) {
    const AroundLoop& loop = around.loops()[l];
    auto step = reach->step(loop.name);
    // The next one may lie elsewhere: short ones are runs. Bounds of reach are loose where tiles at
    // the ends are smaller.
    const bool whole = step && (*step <= reach->width || reach->bytes() >= machine.page_bytes);
    // Operands that are read from the second cache wait for the buffers that lines from memory hold
    // for long.
    const bool kept = reach->bytes() <= 2 * machine.first_cache_bytes;
    if (whole && kept && *step > 1 && reach->width <= 2 * *step) {
      part = reach;
      part->width = std::min(*step, reach->width);
    }
    if (!go_on(*reach, loop)) break;
  }
  return part;
}

/// What an iteration of the loop reads that the one before it does not, where that is in far runs
/// and not too much.
std::optional<Footprint> read_anew(const Footprint& runs, const AroundLoop& loop,
                                   const CpuMachine& machine) {
  auto step = runs.step(loop.name);
  if (!step || *step <= 1 || runs.walks.empty() ||
      runs.walks.front().step * runs.type.bytes() < machine.followed_bytes / 4)
    return std::nullopt;
  Footprint part = runs;
  if (*step < part.width) {
    part.start = part.start + static_cast<int>(part.width - *step);
    part.width = *step;
  }
  // Longer runs are taken for rows that processors follow themselves.
  const int64_t lines = part.width / part.line() + 1;
  if (lines > machine.lines_at_once() || lines * part.runs() * kLineBytes > machine.cache_bytes / 4)
    return std::nullopt;
  return part;
}

/// Parts in runs, the largest first.
std::vector<Footprint> find_runs(const Read& read, const Around& around,
                                 const CpuMachine& machine) {
  auto go_on = [&](Footprint& runs, const AroundLoop& loop) {
    auto walk = runs.along(loop, &around);
    if (!walk) return false;
    runs.repeat(loop, *walk);
    // Runs that share lines, or the next ones, are one.
    runs.join_runs(runs.line());
    return true;
  };
  auto runs = footprint(read, go_on);
  std::vector<Footprint> parts;
  for (size_t l = around.loops().size(); runs && l-- > 0;) {
    const AroundLoop& loop = around.loops()[l];
    if (auto found = read_anew(*runs, loop, machine)) parts.insert(parts.begin(), *found);
    if (!go_on(*runs, loop)) break;
  }
  return parts;
}

/// What a copy reads, if it computes nothing.
std::optional<Read> copied_read(const nest::Copy& copy) {
  const bool computes = nest::any<Compute>(
      copy.body, [](const Compute& element) { return !element.value.as<Load>(); });
  std::vector<Read> reads = find_reads(copy.body);
  return !computes && reads.size() == 1 ? std::optional(reads[0]) : std::nullopt;
}

class PrefetchParts {
 public:
  PrefetchParts(const Nest& nest, const std::set<std::string>& buffers, const CpuMachine& machine)
      : buffers_(buffers), machine_(machine), stored_(nest::stored_buffers(nest)) {}

  /// An innermost loop with what its steps prefetch.
  Nest in(const Nest& loop, const Around& around) {
    // Of each buffer, the first; these are the loop's own iterations too.
    std::map<std::string, Read> reads;
    for (Read& read : find_reads(as<Loop>(loop)->body)) {
      read.inside.insert(read.inside.begin(), around.loops().back());
      read.index = reveal(read.index);
      reads.try_emplace(read.buffer, read);
    }
    const bool of_part = around.in_tile || around.in_slice;
    return nest::prepend(loop,
                         of_part ? of_parts(loop, reads, around) : of_far_parts(reads, around));
  }

 private:
  /// Of operands that a register tile or a slice works on.
  std::vector<Nest> of_parts(const Nest& loop, const std::map<std::string, Read>& reads,
                             const Around& around) {
    std::vector<Nest> prefetches;
    for (const auto& [name, read] : reads) {
      if (!buffers_.count(name)) continue;
      // What the kernel writes is in a cache when it is read, but for what is large and written by
      // loops of its own.
      if (!stored_.count(name) && prefetch(find_dense(read, around, machine_), around, prefetches))
        continue;
      if (prefetches_itself(loop, name) || stored_near(around).count(name)) continue;
      for (const Footprint& part : find_runs(read, around, machine_))
        if (prefetch(part, around, prefetches)) break;
    }
    for (const nest::Copy* copy : around.copies) {
      auto read = copied_read(*copy);
      const std::set<std::string> written = nest::stored_buffers(copy->body);
      auto is_read = [&](const std::string& name) { return reads.count(name) > 0; };
      if (read && buffers_.count(read->buffer) && !stored_.count(read->buffer) &&
          std::any_of(written.begin(), written.end(), is_read))
        prefetch(find_dense(*read, around, machine_), around, prefetches);
    }
    return prefetches;
  }

  /// Of what other loops read: hardware prefetchers follow all but the leap to another page.
  std::vector<Nest> of_far_parts(const std::map<std::string, Read>& reads, const Around& around) {
    std::vector<Nest> prefetches;
    for (const auto& [name, read] : reads) {
      const auto part = buffers_.count(name) ? find_dense(read, around, machine_) : std::nullopt;
      if (part && is_far(*part, around) && !stored_near(around).count(name))
        prefetch(part, around, prefetches);
    }
    return prefetches;
  }

  /// Whether the next part lies elsewhere than behind this one: on another page.
  bool is_far(const Footprint& part, const Around& around) const {
    const auto& loops = around.loops();
    const auto mover = std::find_if(loops.rbegin(), loops.rend(), [&](const AroundLoop& loop) {
      return expr_uses_var(part.start, loop.name);
    });
    const auto step = mover == loops.rend() ? std::nullopt : part.step(mover->name);
    return step && (*step - part.width) * part.type.bytes() >= machine_.page_bytes;
  }

  /// Whether anything is prefetched.
  bool prefetch(const std::optional<Footprint>& part, const Around& around,
                std::vector<Nest>& prefetches) const {
    Nest prefetched = part ? prefetch_next_part(*part, around, 0, machine_) : nullptr;
    if (prefetched) prefetches.push_back(prefetched);
    return prefetched != nullptr;
  }

  static bool prefetches_itself(const Nest& loop, const std::string& buffer) {
    return nest::any<nest::Prefetch>(
        loop, [&](const nest::Prefetch& prefetch) { return prefetch.buffer == buffer; });
  }

  /// By the outermost loop around.
  const std::set<std::string>& stored_near(const Around& around) {
    if (outermost_ != around.outermost) stored_near_ = nest::stored_buffers(around.outermost);
    outermost_ = around.outermost;
    return stored_near_;
  }

  const std::set<std::string>& buffers_;
  const CpuMachine& machine_;
  const std::set<std::string> stored_;
  Nest outermost_;
  std::set<std::string> stored_near_;  ///< in it
};

}  // namespace

Nest prefetch_parts(const Nest& nest, const std::set<std::string>& buffers,
                    const CpuMachine& machine) {
  if (buffers.empty()) return nest;
  PrefetchParts prefetch(nest, buffers, machine);
  return change_innermost_loops(
      nest, [&](const Nest& loop, const Around& around) { return prefetch.in(loop, around); });
}

}  // namespace tc::codegen
