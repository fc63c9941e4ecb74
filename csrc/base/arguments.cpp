#include "base/arguments.h"

namespace tc::api {

void check_array(const void* array, const char* name, int32_t count, const char* count_name) {
  if (count < 0) throw UsageError(count_name, " is ", count, "; a count is 0 or more");
  if (count > 0 && !array)
    throw UsageError(name, " must not be NULL where ", count_name, " is ", count);
}

void check_index(int32_t index, size_t count, const char* what) {
  if (index >= 0 && static_cast<size_t>(index) < count) return;
  throw UsageError(what, " ", index, " does not exist: there are ", count,
                   count > 0 ? ", counted from 0" : "");
}

}  // namespace tc::api
