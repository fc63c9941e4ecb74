// What tuning needs of the library, as objects of Python.
#include <torch/extension.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "torch/python/parts.h"
#include "torch/python/python_values.h"
#include "torch/python/trial.h"

namespace py = pybind11;

namespace tc_torch {
namespace {

/// Runs kernels in turns, each for its share of a round, and gives the seconds of every run; with
/// `on_processor`, of those that nothing interrupted, if there are any. The first one of a round
/// moves on, so that nobody always follows the same neighbour.
std::vector<std::vector<double>> interleave(const std::vector<const Trial*>& trials, int rounds,
                                            double round_seconds, bool on_processor) {
  std::vector<std::vector<double>> samples(trials.size()), interrupted_samples(trials.size());
  const double share = round_seconds / static_cast<double>(std::max<size_t>(1, trials.size()));
  for (int round = 0; round < rounds; ++round) {
    for (size_t k = 0; k < trials.size(); ++k) {
      const size_t t = (k + static_cast<size_t>(round)) % trials.size();
      double spent = 0;
      do {
        const Trial::Run run =
            on_processor ? trials[t]->run_on_processor() : Trial::Run{trials[t]->run()};
        (run.interrupted ? interrupted_samples : samples)[t].push_back(run.seconds);
        spent += std::max(run.seconds, 1e-7);
      } while (spent < share);
    }
    if (interrupted()) raise(TC_INTERRUPTED, "interrupted");
  }
  for (size_t t = 0; t < trials.size(); ++t)
    if (samples[t].empty()) samples[t] = std::move(interrupted_samples[t]);
  return samples;
}

struct Candidate {
  int index = 0;
  std::string options;
  std::optional<std::string> reason;
  int structure = 0;
  std::vector<double> features;
};

class Space {
 public:
  Space(const Definition& definition, const Options* options, const std::string& target,
        const Values& inputs, const std::vector<at::Tensor>& outputs, const Options& first) {
    const std::vector<c10::IValue> values = to_ivalues(definition, inputs);
    Unlocked unlocked;
    const CallArguments arguments(definition, values);
    const Tensors given(outputs);
    space_.reset(ask<tc_space*>(tc_space_create, definition.get(), get(options), c_text(target),
                                arguments.data(), arguments.count(), given.data(), given.count(),
                                first.options.get()));
  }

  Candidate at(int index) const {
    const auto found = ask<tc_candidate>(tc_space_candidate, space_.get(), index);
    Candidate result{index, found.options, std::nullopt, found.structure, {}};
    if (found.reason) result.reason = found.reason;
    result.features.assign(found.features, found.features + found.feature_count);
    return result;
  }
  Candidate add(const Options& options) const {
    return at(ask<int32_t>(tc_space_add, space_.get(), options.options.get()));
  }
  Candidate draw(uint64_t seed) const {
    return at(ask<int32_t>(tc_space_draw, space_.get(), seed));
  }
  Candidate mutate(int parent, uint64_t seed) const {
    return at(ask<int32_t>(tc_space_mutate, space_.get(), parent, seed));
  }
  Candidate cross(const std::vector<int32_t>& parents, uint64_t seed) const {
    return at(ask<int32_t>(tc_space_cross, space_.get(), parents.data(),
                           static_cast<int32_t>(parents.size()), seed));
  }
  std::vector<Candidate> starts() const {
    return list([&](int32_t* found, int32_t capacity, int32_t* count) {
      return tc_space_starts(space_.get(), found, capacity, count);
    });
  }
  std::vector<Candidate> neighbours(int candidate) const {
    return list([&](int32_t* found, int32_t capacity, int32_t* count) {
      return tc_space_neighbours(space_.get(), candidate, found, capacity, count);
    });
  }

 private:
  template <class List>
  std::vector<Candidate> list(const List& list) const {
    // As many as there mostly are: each call looks for all of them.
    std::vector<int32_t> found(1024);
    const auto capacity = [&] { return static_cast<int32_t>(found.size()); };
    int32_t count = 0;
    check(list(found.data(), capacity(), &count));
    const bool fits = count <= capacity();
    found.resize(static_cast<size_t>(count));
    if (!fits) check(list(found.data(), capacity(), &count));
    std::vector<Candidate> result;
    for (int32_t index : found) result.push_back(at(index));
    return result;
  }

  std::unique_ptr<tc_space, Free<tc_space_free>> space_;
};

std::vector<std::string> feature_names() {
  std::vector<std::string> names;
  while (const char* name = tc_feature_name(static_cast<int32_t>(names.size())))
    names.emplace_back(name);
  return names;
}

py::typing::List<py::object> recorded_launches() {
  py::typing::List<py::object> result;
  for (const RecordedLaunches& launch : take_recorded_launches()) {
    py::list inputs;
    for (const c10::IValue& input : launch.inputs) inputs.append(to_python(input));
    result.append(py::make_tuple(std::const_pointer_cast<Definition>(launch.definition),
                                 launch.options, inputs, launch.outputs, launch.seconds,
                                 launch.count));
  }
  return result;
}

}  // namespace

void bind_tuning(py::module_& m) {
  py::class_<Trial>(m, "Trial")
      .def(py::init<const Definition&, const Options*, const std::string&, const Values&,
                    std::vector<at::Tensor>, bool>(),
           py::arg("definition"), py::arg("options"), py::arg("target"), py::arg("inputs"),
           py::arg("outputs"), py::arg("final"))
      .def("text", &Trial::text)
      .def("number", &Trial::number, py::call_guard<Unlocked>())
      .def("run", &Trial::run, py::call_guard<Unlocked>());
  m.def("interleave", interleave, py::arg("trials"), py::arg("rounds"), py::arg("round_seconds"),
        py::arg("on_processor"), py::call_guard<Unlocked>());

  py::class_<Candidate>(m, "Candidate")
      .def_readonly("index", &Candidate::index)
      .def_readonly("options", &Candidate::options)
      .def_readonly("reason", &Candidate::reason)
      .def_readonly("structure", &Candidate::structure)
      .def_readonly("features", &Candidate::features);
  py::class_<Space>(m, "Space")
      .def(py::init<const Definition&, const Options*, const std::string&, const Values&,
                    const std::vector<at::Tensor>&, const Options&>(),
           py::arg("definition"), py::arg("options"), py::arg("target"), py::arg("inputs"),
           py::arg("outputs"), py::arg("first"))
      .def("candidate", &Space::at, py::arg("index"))
      .def("add", &Space::add, py::arg("options"), py::call_guard<Unlocked>())
      .def("starts", &Space::starts, py::call_guard<Unlocked>())
      .def("draw", &Space::draw, py::arg("seed"), py::call_guard<Unlocked>())
      .def("mutate", &Space::mutate, py::arg("parent"), py::arg("seed"), py::call_guard<Unlocked>())
      .def("cross", &Space::cross, py::arg("parents"), py::arg("seed"), py::call_guard<Unlocked>())
      .def("neighbours", &Space::neighbours, py::arg("candidate"), py::call_guard<Unlocked>());
  m.def("feature_names", feature_names);

  m.def("record_launches", record_launches, py::arg("record"));
  m.def("recorded_launches", recorded_launches);
}

}  // namespace tc_torch
