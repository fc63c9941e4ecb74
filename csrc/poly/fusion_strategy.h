// Which statements share loops, as the 2018 options name it.
#pragma once

namespace tc {

/// Min: an initialisation and its updates, nothing else. Preserve3Coincident: as long as the joint
/// band keeps min(3, what each had) coincident members. Max: as long as one is shared.
enum class FusionStrategy { Max, Min, Preserve3Coincident };

}  // namespace tc
