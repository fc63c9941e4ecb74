// The C interface: mapping options.
#include <memory>

#include "api_error.h"
#include "api_handles.h"

using tc::api::guarded;
using tc::api::required;

tc_status tc_options_create(const char* preset, tc_options** options) {
  return guarded([&] {
    required(options, "options") = nullptr;
    auto handle = std::make_unique<tc_options>();
    handle->options = tc::make_options(&required(preset, "preset"));
    *options = handle.release();
  });
}

tc_status tc_options_parse(const char* text, tc_options** options) {
  return guarded([&] {
    required(options, "options") = nullptr;
    auto handle = std::make_unique<tc_options>();
    handle->options = tc::parse_options(&required(text, "text"));
    *options = handle.release();
  });
}

tc_options* tc_options_copy(const tc_options* options) {
  auto* copy = new tc_options;
  copy->options = options->options;
  return copy;
}

void tc_options_free(tc_options* options) { delete options; }

tc_status tc_options_set(tc_options* options, const char* name, const int64_t* values,
                         int32_t count) {
  return guarded([&] {
    if (count < 0) throw tc::UsageError(tc::concat("a count of ", count, " values"));
    if (count > 0) required(values, "values");
    tc::set_option(required(options, "options").options, &required(name, "name"),
                   std::vector<int64_t>(values, values + count));
  });
}

tc_status tc_options_set_word(tc_options* options, const char* name, const char* word) {
  return guarded([&] {
    tc::set_option(required(options, "options").options, &required(name, "name"),
                   std::string(&required(word, "word")));
  });
}

const char* tc_options_text(const tc_options* options) {
  options->text = tc::to_string(options->options);
  return options->text.c_str();
}

int tc_options_equal(const tc_options* a, const tc_options* b) { return a->options == b->options; }
