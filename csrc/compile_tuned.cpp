#include "compile_tuned.h"

#include <cstdio>

#include "base/error.h"
#include "base/log.h"
#include "runtime/cuda/nvrtc.h"
#include "schedule.h"

namespace tc {
namespace {

std::string describe(const store::Found& found) {
  char figures[128];
  std::snprintf(figures, sizeof figures, "%.4g ms, %.4g for the compiler's own",
                found.plan.times.minimum * 1e3, found.plan.standard.minimum * 1e3);
  return concat(
      found.exact ? "a Plan that tuning found" : "the Plan of the nearest sizes that were tuned",
      ", for ", found.arguments, "\n", figures, ", on ", found.plan.processor);
}

double cycles(const ir::Program& program, const Layouts& layouts, const MappingOptions& options,
              const Target& target, const CpuMachine& machine) {
  double sum = 0;
  for (const auto& part : schedule_parts(program, layouts, options, target, machine))
    for (const plan::Proposal& group : part->plan.groups) sum += group.estimate.total();
  return sum;
}

}  // namespace

std::shared_ptr<const runtime::Kernel> compile_tuned(
    const store::Found& found, const ir::Program& program, const Layouts& layouts,
    const MappingOptions& options, const Target& target, const CpuMachine& machine,
    const CompileContext& given) {
  MappingOptions plan = found.plan.options;
  plan.check_indices = options.check_indices;
  CompileContext context = given;
  context.notes = {{"tuned", describe(found)}};
  if (found.exact && !found.plan.code.cubin.empty()) {
    const std::string& cubin = found.plan.code.cubin;
    auto binary = std::make_shared<runtime::CudaBinary>();
    binary->cubin.assign(cubin.begin(), cubin.end());
    binary->log = found.plan.code.log;
    context.binary = binary;
    context.binary_checksum = found.plan.code.source_checksum;
  }
  try {
    if (!found.exact) {
      // Sizes that nobody has tuned: the model has to agree, and a library that the compiler would
      // call has no estimate.
      const auto own = compile(program, layouts, options, target, machine, given);
      const MappingOptions whole = parse_options(own->text("options"));
      const bool same_calls = whole.library_calls == plan.library_calls;
      if (!same_calls || target.cuda ||
          cycles(program, layouts, plan, target, machine) >
              cycles(program, layouts, whole, target, machine)) {
        tell("tuned",
             concat(program.name, ": the Plan for ", found.arguments,
                    " is not expected to be faster for these sizes than the compiler's own"));
        return own;
      }
    }
    auto kernel = compile(program, layouts, plan, target, machine, context);
    if (!found.exact)
      tell("tuned", concat(program.name, ": no Plan was tuned for these sizes; taken is that for ",
                           found.arguments));
    return kernel;
  } catch (const CompilationError& error) {
    tell("tuned", concat(program.name, ": the Plan that was tuned for ", found.arguments,
                         " by version ", found.plan.version,
                         " does not fit, and the compiler's own is taken: ", error.what()));
    return nullptr;
  }
}

}  // namespace tc
