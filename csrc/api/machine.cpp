// The C interface: the machine.
#include "api/error.h"
#include "base/threads/task.h"
#include "machine/facts.h"
#include "machine/measure.h"
#include "runtime/libraries.h"
#include "tc/tc.h"

tc_status tc_machine_facts(int32_t measure, const char** facts) {
  return tc::api::give_text(facts, "facts", [&] {
    tc::machine::Known known = tc::machine::look_up(tc::runtime::host_threads());
    return tc::run_apart("measuring the machine",
                         [=] { return tc::machine::describe(known, measure != 0); });
  });
}

void tc_spend_cycles(int64_t cycles) { tc::machine::spend_cycles(cycles); }
