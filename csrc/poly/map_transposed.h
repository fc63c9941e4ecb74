// Elementwise clusters that read some tensor across the direction in which they write.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "poly/map_cpu.h"
#include "poly/members.h"

namespace tc::poly {

/// The tree of a cluster without inner loops in which a read is contiguous along another member
/// than the vector, `members`' last: square tiles of these two, in front of which such reads are
/// copied the other way round (see promote). Nothing when there is no such read, or none that may
/// be copied.
std::optional<Mapped> map_transposed(const Cluster& cluster, std::vector<Member> members,
                                     const Scop& scop, const std::map<std::string, Layout>& layouts,
                                     bool parallel);

}  // namespace tc::poly
