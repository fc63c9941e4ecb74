// Tunings as messages of store.proto.
#pragma once

#include "store/tuning.h"

namespace tensor_comprehensions::store {
class Tuning;
}

namespace tc::store {

void tuning_to_message(const Tuning& tuning, ::tensor_comprehensions::store::Tuning& message);
/// UsageError where a message says what no version writes.
Tuning tuning_from_message(const ::tensor_comprehensions::store::Tuning& message);

}  // namespace tc::store
