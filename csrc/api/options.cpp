// The C interface: mapping options.
#include "api/error.h"
#include "api/handles.h"
#include "base/arguments.h"

using namespace tc::api;

namespace {

// More values than any option takes, so that a count that is no count is not read up to.
constexpr int32_t kMostValues = 64;

/// Sets an option of a copy, so that a failure leaves the options as they were.
template <class Value>
void set(tc_options* options, const char* name, const Value& value) {
  tc::MappingOptions changed = required(options, "options").options;
  tc::set_option(changed, &required(name, "name"), value);
  *options = tc_options(std::move(changed));
}

}  // namespace

tc_status tc_options_create(const char* preset, tc_options** options) {
  return give(options, "options",
              [&] { return new tc_options(tc::make_options(&required(preset, "preset"))); });
}

tc_status tc_options_parse(const char* text, tc_options** options) {
  return give(options, "options",
              [&] { return new tc_options(tc::parse_options(&required(text, "text"))); });
}

tc_options* tc_options_copy(const tc_options* options) {
  return value_or_zero([&] { return new tc_options(required(options, "options")); });
}

void tc_options_free(tc_options* options) { delete options; }

tc_status tc_options_set(tc_options* options, const char* name, const int64_t* values,
                         int32_t count) {
  return guarded([&] {
    check_array(values, "values", count, "count");
    if (count > kMostValues)
      throw tc::UsageError("count is ", count, "; no option has more than ", kMostValues,
                           " values");
    set(options, name, std::vector<int64_t>(values, values + count));
  });
}

tc_status tc_options_set_word(tc_options* options, const char* name, const char* word) {
  return guarded([&] { set(options, name, std::string(&required(word, "word"))); });
}

const char* tc_options_text(const tc_options* options) {
  return value_or_zero([&] { return required(options, "options").text.c_str(); });
}

int tc_options_equal(const tc_options* a, const tc_options* b) {
  return value_or_zero(
      [&] { return required(a, "a").options == required(b, "b").options ? 1 : 0; });
}
