// How far apart in memory consecutive iterations touch a tensor: what decides loop roles.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "ir/layout.h"
#include "ir/program.h"

namespace tc::ir {

/// One access of a statement.
struct MemoryAccess {
  std::string tensor;
  std::vector<Expr> subscripts;
  bool write = false;
  bool conditional = false;  ///< a read that only some instances make; it may lie outside in others
};

/// Reads in order of appearance, those of a scatter's subscripts last, then the write.
std::vector<MemoryAccess> accesses(const Program& program, const Statement& statement);

/// Whether two accesses are of the same element for all iterators.
bool same_element(const MemoryAccess& a, const MemoryAccess& b);

/// Whether two reads of a tensor, over the same iterators, lie in one run of `window` elements that
/// begins at a multiple of it, counted from where both are with all iterators 0. `a` and `b` move
/// alike.
bool in_one_window(const MemoryAccess& a, const MemoryAccess& b, const Layout& layout,
                   const std::vector<Iterator>& domain, int64_t window);

/// "B(k, n)": the same for two reads of a statement only where they are of the same element.
std::string access_text(const MemoryAccess& access);

/// Whether the place of an access is data, as in a lookup table.
bool is_gather(const MemoryAccess& access, const Program& program);

/// Whether data says places of the tensor that lie further apart than so many bytes, or fewer of
/// them than there are lines, so that most of what is there has to be fetched for each.
bool reaches_far(const std::string& tensor, const Program& program, const Layouts& layouts,
                 int64_t near_bytes);

/// The distance in elements when `iterator` grows by one; nothing when it varies.
std::optional<int64_t> stride_along(const MemoryAccess& access, const Layout& layout,
                                    const std::string& iterator);

}  // namespace tc::ir
