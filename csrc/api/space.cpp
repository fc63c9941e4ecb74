// The C interface: the Plans that tuning may try.
#include "tune/space.h"

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "api/error.h"
#include "api/handles.h"
#include "api/tuning_key.h"
#include "base/arguments.h"
#include "base/threads/task.h"
#include "machine/facts.h"
#include "runtime/libraries.h"
#include "schedule.h"

using namespace tc::api;

struct tc_space {
  std::shared_ptr<tc::tune::Space> space;
};

namespace {

using tc::tune::Space;

size_t checked(const Space& space, int32_t candidate) {
  check_index(candidate, space.size(), "candidate");
  return static_cast<size_t>(candidate);
}

/// Long work with the space, which a caller who leaves must not take from it.
template <class Work>
auto with(tc_space* space, Work work) {
  return tc::run_apart("looking for Plans", [shared = required(space, "space").space,
                                             work = std::move(work)] { return work(*shared); });
}

}  // namespace

tc_status tc_space_create(const tc_definition* definition, const tc_options* options,
                          const char* target, const DLTensor* const* inputs, int32_t input_count,
                          const DLTensor* const* outputs, int32_t output_count,
                          const tc_options* first, tc_space** space) {
  return give(space, "space", [&] {
    const auto& shared = required(definition, "definition").definition;
    const tc::MappingOptions& start = required(first, "first").options;
    const auto problem = std::make_shared<const Specialized>(
        specialize(*shared, inputs, input_count, outputs, output_count, /*addresses=*/false));
    const tc::Target chosen = tc::parse_target(target ? target : "cpu");
    const tc::MappingOptions constraints = options ? options->options : tc::make_options("default");
    if (constraints.identity)
      throw tc::UsageError("the preset identity decides the whole Plan: there is nothing to tune");
    const tc::CpuMachine machine = tc::machine::look_up(tc::runtime::host_threads()).cpu;
    return new tc_space{tc::run_apart("looking for Plans", [=] {
      auto plan = [problem, chosen, machine](const tc::MappingOptions& whole) {
        std::vector<tc::tune::Part> parts;
        for (const auto& scheduled : tc::schedule_parts(
                 problem->program, problem->arguments.layouts, whole, chosen, machine))
          parts.push_back({&scheduled->program, &scheduled->layouts, &scheduled->scop,
                           &scheduled->plan, scheduled->segment, scheduled});
        return parts;
      };
      auto made = std::make_shared<Space>(
          plan, tc::library_statements(problem->program, problem->arguments.layouts), constraints,
          machine, chosen.cuda);
      made->add(start);
      return made;
    })};
  });
}

void tc_space_free(tc_space* space) { delete space; }

tc_status tc_space_add(tc_space* space, const tc_options* options, int32_t* candidate) {
  return give(candidate, "candidate", [&] {
    const tc::MappingOptions& whole = required(options, "options").options;
    return with(space, [whole](Space& all) { return all.add(whole); });
  });
}

tc_status tc_space_starts(tc_space* space, int32_t* candidates, int32_t capacity, int32_t* count) {
  clear(count);
  return guarded([&] {
    required(count, "count");
    check_array(candidates, "candidates", capacity, "capacity");
    give_list(with(space, [](Space& all) { return all.starts(); }), candidates, capacity, count);
  });
}

tc_status tc_space_draw(tc_space* space, uint64_t seed, int32_t* candidate) {
  return give(candidate, "candidate",
              [&] { return with(space, [seed](Space& all) { return all.draw(seed); }); });
}

tc_status tc_space_mutate(tc_space* space, int32_t parent, uint64_t seed, int32_t* candidate) {
  return give(candidate, "candidate", [&] {
    return with(space, [=](Space& all) { return all.mutate(checked(all, parent), seed); });
  });
}

tc_status tc_space_cross(tc_space* space, const int32_t* parents, int32_t count, uint64_t seed,
                         int32_t* candidate) {
  return give(candidate, "candidate", [&] {
    check_array(parents, "parents", count, "count");
    if (count == 0) throw tc::UsageError("count is 0; a cross has one parent at least");
    std::vector<size_t> from;
    for (int32_t k = 0; k < count; ++k)
      from.push_back(checked(*required(space, "space").space, parents[k]));
    return with(space, [from, seed](Space& all) { return all.cross(from, seed); });
  });
}

tc_status tc_space_neighbours(tc_space* space, int32_t candidate, int32_t* candidates,
                              int32_t capacity, int32_t* count) {
  clear(count);
  return guarded([&] {
    required(count, "count");
    check_array(candidates, "candidates", capacity, "capacity");
    give_list(with(space, [=](Space& all) { return all.neighbours(checked(all, candidate)); }),
              candidates, capacity, count);
  });
}

tc_status tc_space_candidate(const tc_space* space, int32_t index, tc_candidate* candidate) {
  return give(candidate, "candidate", [&] {
    const Space& all = *required(space, "space").space;
    const tc::tune::Candidate& found = all[checked(all, index)];
    const bool can_be = found.reason.empty();
    return tc_candidate{found.text.c_str(), can_be ? nullptr : found.reason.c_str(),
                        static_cast<int32_t>(found.structure),
                        can_be ? found.features.data() : nullptr,
                        can_be ? count_of(found.features) : 0};
  });
}

const char* tc_feature_name(int32_t index) {
  return value_or_zero([&]() -> const char* {
    const std::vector<std::string>& names = tc::tune::feature_names();
    if (index >= 0 && static_cast<size_t>(index) >= names.size()) return nullptr;
    return at(names, index, "feature").c_str();
  });
}
