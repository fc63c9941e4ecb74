#include "api/error.h"

#include <new>

#include "base/arguments.h"
#include "base/log.h"
#include "base/threads/task.h"
#include "ir/halide.h"
#include "poly/isl.h"

namespace tc::api {
namespace {

struct LastError {
  std::string message;
  const char* fixed = nullptr;  ///< takes the message's place where there was no memory for one
  int line = 0, column = 0;
};
thread_local LastError last_error;

tc_status keep(tc_status code, std::string message, int line = 0, int column = 0) {
  last_error = {std::move(message), nullptr, line, column};
  return code;
}

tc_status keep_fixed(tc_status code, const char* message) {
  last_error.fixed = message;
  last_error.line = last_error.column = 0;
  return code;
}

/// May run out of memory for the message.
tc_status describe_current_exception() {
  try {
    throw;
  } catch (const LanguageError& e) {
    return keep(e.code(), e.what(), e.line(), e.column());
  } catch (const Error& e) {
    return keep(e.code(), e.what());
  } catch (const Halide::Error& e) {
    return keep(TC_INTERNAL_ERROR, concat("internal error in code generation: ", e.what()));
  } catch (const std::bad_alloc&) {
    return keep_fixed(TC_USAGE_ERROR, "out of memory");
  } catch (const isl::exception_alloc&) {  // isl calls malloc, whose failures no handler sees
    return keep_fixed(TC_USAGE_ERROR, "out of memory");
  } catch (const isl::exception& e) {
    if (poly::Context::lacked_memory().exchange(false))
      return keep_fixed(TC_USAGE_ERROR, "out of memory");
    return keep(TC_INTERNAL_ERROR, concat("internal error: ", e.what()));
  } catch (const std::exception& e) {
    return keep(TC_INTERNAL_ERROR, concat("internal error: ", e.what()));
  } catch (...) {
    return keep_fixed(TC_INTERNAL_ERROR, "internal error: an exception of an unknown type");
  }
}

}  // namespace

tc_status record_current_exception() noexcept {
  try {
    return describe_current_exception();
  } catch (...) {
    return keep_fixed(TC_USAGE_ERROR, "out of memory");
  }
}

}  // namespace tc::api

using tc::api::last_error;

const char* tc_error_message(void) {
  return last_error.fixed ? last_error.fixed : last_error.message.c_str();
}
int tc_error_line(void) { return last_error.line; }
int tc_error_column(void) { return last_error.column; }
const char* tc_version(void) { return "0.1.0"; }
void tc_set_interrupt(int (*interrupt)(void)) { tc::set_interrupt_check(interrupt); }
void tc_shutdown(void) { tc::end_tasks(); }
void tc_set_log_sink(void (*sink)(const char* topic, const char* message)) {
  tc::set_log_sink(sink);
}
tc_status tc_set_log_topic(const char* topic, int32_t on) {
  return tc::api::guarded([&] { tc::set_log_topic(&tc::api::required(topic, "topic"), on != 0); });
}
