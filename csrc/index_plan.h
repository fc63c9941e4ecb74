// How a kernel makes sure of subscripts that are data.
#pragma once

#include <functional>
#include <memory>
#include <set>
#include <vector>

#include "base/notes.h"
#include "ir/index_checks.h"
#include "ir/layout.h"
#include "runtime/checked_kernel.h"

namespace tc {

/// Every check of a program is made in one of these ways.
struct IndexPlan {
  std::vector<ir::IndexCheck> checks;
  /// Before the run, where what is looked at is known then and little beside the work of the
  /// statement: by a loop over the elements of one tensor, or by a kernel of its own.
  std::vector<ir::EntryCheck> ranges, compiled;
  /// By the loops that use the subscript.
  std::set<size_t> in_loops;
};

/// `cuda`: all checks are made in the loops, since a kernel before would have to be waited for.
IndexPlan plan_index_checks(const ir::Program& program, bool cuda);

using CompileOwn =
    std::function<std::shared_ptr<const runtime::Kernel>(const ir::Program&, const Layouts&)>;

/// A kernel for the CPU with what looks at indices before it and says what was wrong. `kernel` is
/// that of ir::check_in_loops' program; `own` compiles another one.
std::shared_ptr<runtime::Kernel> with_index_checks(std::shared_ptr<const runtime::Kernel> kernel,
                                                   const ir::Program& program,
                                                   const Layouts& layouts, IndexPlan plan,
                                                   const CompileOwn& own);

/// What is looked at, and when.
Notes describe(const IndexPlan& plan);

}  // namespace tc
