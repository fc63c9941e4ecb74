// MappingOptions as a message of store.proto.
#pragma once


#include "plan/options/options.h"

namespace tensor_comprehensions::store {
class MappingOptions;
}

namespace tc::store {

void options_to_message(const tc::MappingOptions& options,
                        tensor_comprehensions::store::MappingOptions& message);

/// UsageError where this version has no such options.
tc::MappingOptions options_from_message(
    const tensor_comprehensions::store::MappingOptions& message);

}  // namespace tc::store
