// The C interface: the machine.
#include <string>

#include "api/error.h"
#include "base/arguments.h"
#include "base/task.h"
#include "machine/facts.h"
#include "machine/measure.h"
#include "runtime/libraries.h"
#include "tc/tc.h"

using tc::api::clear;
using tc::api::guarded;
using tc::api::required;

tc_status tc_machine_facts(int32_t measure, const char** facts) {
  clear(facts);
  return guarded([&] {
    required(facts, "facts");
    tc::machine::Known known = tc::machine::look_up(tc::runtime::host_threads());
    thread_local std::string kept;
    kept = tc::run_apart("measuring the machine",
                         [=] { return tc::machine::describe(known, measure != 0); });
    *facts = kept.c_str();
  });
}

void tc_spend_cycles(int64_t cycles) { tc::machine::spend_cycles(cycles); }
