// MappingOptions and tunings as messages of store.proto.
#pragma once

#include "plan/options/options.h"
#include "store/tuning.h"

namespace tensor_comprehensions::store {
class MappingOptions;
class Tuning;
}  // namespace tensor_comprehensions::store

namespace tc::store {

void options_to_message(const MappingOptions& options,
                        ::tensor_comprehensions::store::MappingOptions& message);
/// UsageError where this version has no such options.
MappingOptions options_from_message(const ::tensor_comprehensions::store::MappingOptions& message);

void tuning_to_message(const Tuning& tuning, ::tensor_comprehensions::store::Tuning& message);
/// UsageError where a message says what no version writes.
Tuning tuning_from_message(const ::tensor_comprehensions::store::Tuning& message);

}  // namespace tc::store
