// The Python module tensor_comprehensions._torch: texts, options, kernels and operators.
#include <torch/extension.h>
#include <torch/version.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "torch/alias.h"
#include "torch/derivative_rules.h"
#include "torch/differentiable.h"
#include "torch/kernel_limit.h"
#include "torch/libraries.h"
#include "torch/operator.h"
#include "torch/python/direct_call.h"
#include "torch/python/parts.h"
#include "torch/python/python_lock.h"
#include "torch/python/python_values.h"
#include "torch/registration.h"
#include "torch/schema.h"

namespace py = pybind11;
using namespace tc_torch;

namespace {

/// Read from the file, before it is loaded, by tensor_comprehensions._libraries.
[[gnu::used]] const char kBuiltWith[] = "tensor_comprehensions built with torch " TORCH_VERSION;

/// The Python exception classes, by tc_status; set by tensor_comprehensions._errors.
py::object& exception_classes() {
  static auto* classes = new py::object;
  return *classes;
}

/// Whether the interpreter has begun to end: what waits for a compilation gets no result any more.
std::atomic<bool> ending{false};

/// Raises a core error as Python's, from any thread, with or without the interpreter lock. The
/// exception then travels through PyTorch's dispatcher as it is.
void raise_in_python(const CoreError& error) {
  if (ending && error.status == TC_INTERRUPTED) {
    if (ends_here())
      return raise_in_python(
          CoreError(TC_USAGE_ERROR, "nothing is compiled any more: the process ends", 0, 0));
    // Threads that Python would end without a word, if they ran Python now.
    // The thread that ends the interpreter still needs the lock.
    if (PyGILState_Check()) PyEval_SaveThread();
    wait_for_the_end();
  }
  with_lock([&] {
    if (error.status == TC_INTERRUPTED) {
      // What the signal's handler raised is there already, where this thread has asked.
      if (!PyErr_Occurred()) PyErr_SetNone(PyExc_KeyboardInterrupt);
      throw py::error_already_set();
    }
    py::object type = exception_classes()[py::int_(static_cast<int>(error.status))];
    const py::str message = to_str(error.what());
    py::tuple arguments = py::make_tuple(message);
    if (error.status == TC_LANGUAGE_ERROR)
      arguments = py::make_tuple(message, error.line, error.column);
    py::object value = call_python(type, arguments);
    PyErr_SetObject(type.ptr(), value.ptr());
    throw py::error_already_set();
  });
}

/// The text that a function of the C interface gives for these arguments, behind which it is.
template <class Call, class... Arguments>
std::string text_of(Call call, const Arguments&... arguments) {
  Unlocked unlocked;
  return ask<const char*>(call, arguments...);
}

/// A factory that asks Python: factory(*inputs) -> Options.
OptionsFactory python_factory(const std::optional<Function>& callable) {
  if (!callable) return nullptr;
  return [kept = shared_object(*callable)](at::ArrayRef<c10::IValue> inputs) {
    return with_lock([&] {
      py::tuple arguments(inputs.size());
      for (size_t i = 0; i < inputs.size(); ++i) arguments[i] = to_python(inputs[i]);
      return copy_options(get(&call_python(*kept, arguments).cast<const Options&>()));
    });
  };
}

/// A kernel for fixed inputs, from tc.compile.
class Executor : public PythonKernel {
 public:
  Executor(const Definition& definition, const Options* options, const std::string& target,
           const Values& inputs) {
    std::vector<c10::IValue> values = to_ivalues(definition, inputs);
    Unlocked unlocked;
    CallArguments arguments(definition, values);
    kernel_ = own(ask<tc_kernel*>(tc_compile, definition.get(), get(options), c_text(target),
                                  arguments.data(), arguments.count(), nullptr, 0));
  }
  /// The one that an operator runs on such inputs.
  Executor(Operator& op, const Values& inputs) {
    const std::vector<c10::IValue> values = to_ivalues(op.definition(), inputs);
    Unlocked unlocked;
    kernel_ = op.kernel(values);
  }

  py::bytes binary() const {
    const void* data = nullptr;
    size_t size = 0;
    check(tc_kernel_binary(kernel_.get(), &data, &size));
    return py::bytes(static_cast<const char*>(data), size);
  }
};

/// Every definition of a text.
struct ParsedText {
  std::vector<std::shared_ptr<Definition>> definitions;
  std::vector<std::string> warnings;
};

/// The C interface takes a text that ends with its first NUL: what follows would be lost in
/// silence.
void check_no_nul(const std::string& text) {
  size_t at = text.find('\0');
  if (at == std::string::npos) return;
  size_t begin = text.rfind('\n', at) + 1;  // npos + 1 is 0
  int line = static_cast<int>(std::count(text.begin(), text.begin() + at, '\n')) + 1;
  // The column counts characters: the bytes that do not continue one.
  auto characters = std::count_if(text.begin() + begin, text.begin() + at,
                                  [](char c) { return (c & 0xc0) != 0x80; });
  int column = static_cast<int>(characters) + 1;
  std::string place = std::to_string(line) + ":" + std::to_string(column);
  raise_error(CoreError(TC_LANGUAGE_ERROR,
                        place + ": a NUL character starts no token of the language\n  " +
                            text.substr(begin, at - begin) + "\n  " + std::string(characters, ' ') +
                            "^",
                        line, column));
}

ParsedText parse(const std::string& text) {
  check_no_nul(text);
  Unlocked unlocked;
  const ModulePtr module = parse_module(text);
  ParsedText result;
  for (int32_t i = 0; i < tc_module_size(module.get()); ++i)
    result.definitions.push_back(
        std::make_shared<Definition>(module, tc_module_definition(module.get(), i)));
  for (int32_t i = 0; i < tc_module_warning_count(module.get()); ++i)
    result.warnings.emplace_back(tc_module_warning(module.get(), i));
  return result;
}

/// `inputs` are only looked at for specialised scalars.
InputsWithoutData without_data(const Definition& definition, const Values& inputs,
                               std::vector<std::vector<int64_t>> sizes = {}) {
  std::vector<int64_t> values(definition.inputs.size());
  for (size_t i = 0; i < values.size(); ++i)
    if (definition.inputs[i].specialized) values[i] = py::object(inputs[i]).cast<int64_t>();
  return InputsWithoutData(definition, std::move(values), std::move(sizes));
}

std::string format(const std::string& text) {
  check_no_nul(text);
  return text_of(tc_format, text.c_str());
}

std::string machine_facts(bool measure) { return text_of(tc_machine_facts, measure); }

/// Size of an output dimension in Python's syntax; `inputs` are only looked at for scalars.
std::string size_expression(const Definition& definition, const Values& inputs, int output,
                            int dimension) {
  const InputsWithoutData scalars = without_data(definition, inputs);
  return text_of(tc_output_size_expression, definition.get(), scalars.data(), scalars.count(),
                 output, dimension);
}

/// The conditions on sizes: two expressions that must be equal, and what to say where they are not.
std::vector<std::array<std::string, 3>> size_conditions(const Definition& definition,
                                                        const Values& inputs) {
  const InputsWithoutData scalars = without_data(definition, inputs);
  Unlocked unlocked;
  std::vector<std::array<std::string, 3>> conditions;
  for (int32_t k = 0;; ++k) {
    const char *found = nullptr, *wanted = nullptr, *message = nullptr;
    check(tc_size_condition(definition.get(), scalars.data(), scalars.count(), k, &found, &wanted,
                            &message));
    if (!found) return conditions;
    conditions.push_back({found, wanted, message});
  }
}

/// The sizes of all outputs, one after the other, for inputs of these sizes, with the checks of a
/// call; scalars have no sizes, and those that are specialised a value in `inputs`.
std::vector<int64_t> infer_sizes(const Definition& definition, const Values& inputs,
                                 std::vector<std::vector<int64_t>> sizes) {
  const InputsWithoutData known = without_data(definition, inputs, std::move(sizes));
  Unlocked unlocked;
  return infer_result_sizes(definition, known);
}

/// The text of the derivative; one flag for each input and output.
std::string gradient_text(const Definition& definition, const Values& inputs,
                          const std::vector<int32_t>& wanted, const std::vector<int32_t>& given) {
  const InputsWithoutData scalars = without_data(definition, inputs);
  return text_of(tc_definition_gradient, definition.get(), scalars.data(), scalars.count(),
                 wanted.data(), given.data());
}

/// The text for a batch; one flag for each input.
std::string batch_text(const Definition& definition, const std::vector<int32_t>& batched) {
  return text_of(tc_definition_batch, definition.get(), batched.data());
}

/// The text with scalars as tensors of one element; one flag for each input.
std::string tensors_text(const Definition& definition, const std::vector<int32_t>& tensors) {
  return text_of(tc_definition_tensors, definition.get(), tensors.data());
}

/// What a process holds of a tensor: a part along a dimension, -1 for all of it, and the name of a
/// reduction, empty for none.
using Placement = std::pair<int, std::string>;

/// For every way to share the work, the placements of all inputs, and those of all outputs.
std::vector<std::pair<std::vector<Placement>, std::vector<Placement>>> shardings(
    const Definition& definition) {
  int32_t count = 0;
  check(tc_definition_shardings(definition.get(), nullptr, 0, &count));
  std::vector<tc_placement> placements(count);
  check(tc_definition_shardings(definition.get(), placements.data(), count, &count));
  std::vector<std::pair<std::vector<Placement>, std::vector<Placement>>> result;
  auto take = [at = placements.begin()](size_t size) mutable {
    std::vector<Placement> list;
    for (size_t k = 0; k < size; ++k, ++at)
      list.emplace_back(at->dimension, at->reduction ? at->reduction : "");
    return list;
  };
  size_t inputs = definition.inputs.size(), outputs = definition.outputs.size();
  for (size_t k = 0; k < placements.size(); k += inputs + outputs) {
    std::vector<Placement> first = take(inputs);
    result.emplace_back(std::move(first), take(outputs));
  }
  return result;
}

/// The text that is told sizes, and which: an input and a dimension for each. Empty for none.
std::pair<std::string, std::vector<std::pair<int, int>>> sized_text(const Definition& definition) {
  const char* text = nullptr;
  int32_t count = 0;
  check(tc_definition_sized(definition.get(), &text, nullptr, 0, &count));
  std::vector<tc_input_dimension> sizes(count);
  check(tc_definition_sized(definition.get(), &text, sizes.data(), count, &count));
  std::vector<std::pair<int, int>> places;
  for (const tc_input_dimension& size : sizes) places.emplace_back(size.input, size.dimension);
  return {text, places};
}

std::string input_dimension(const Definition& definition, int input, int dimension) {
  return text_of(tc_definition_input_dimension, definition.get(), input, dimension);
}

/// Runs the handlers of signals that have arrived, in the main thread, where one of them may raise,
/// as that of Ctrl-C does.
bool signals_raise() {
  if (interpreter_ends()) return true;
  return with_lock([] { return PyErr_CheckSignals() != 0; });
}

/// Log lines of the core become records of the logger "tensor_comprehensions".
void log_to_python(const char* topic, const char* message) {
  if (interpreter_ends()) return;
  with_lock([&] {
    try {
      call_python(py::module_::import("tensor_comprehensions._logging").attr("emit"),
                  py::make_tuple(topic, to_str(message)));
    } catch (py::error_already_set& error) {
      error.discard_as_unraisable("a log message of tensor_comprehensions");
    }
  });
}

}  // namespace

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
  m.doc() = "The binding of libtensor_comprehensions to PyTorch.";
  raise_error = raise_in_python;
  interrupted = signals_raise;
  unlocked = [](const std::function<void()>& body) {
    // PyTorch releases it before it calls operators, but for packages of AOTInductor.
    std::optional<Unlocked> held;
    if (Py_IsInitialized() && PyGILState_Check()) held.emplace();
    body();
  };
  tc_set_interrupt([] { return signals_raise() ? 1 : 0; });
  tc_set_log_sink(log_to_python);
  tc_set_libraries(&aten_libraries());

  py::module_::import("atexit").attr("register")(py::cpp_function([] {
    note_ending();
    Unlocked unlocked;
    ending = true;
    tc_shutdown();
  }));

  m.def(
      "enable_log",
      [](const std::string& topic, bool on) { check(tc_set_log_topic(c_text(topic), on)); },
      py::arg("topic"), py::arg("on"));
  m.def("core_version", [] { return std::string(tc_version()); });
  m.def("set_exception_classes", [](const py::typing::Dict<py::int_, py::object>& classes) {
    exception_classes() = classes;
  });

  py::class_<ArgumentInfo>(m, "ArgumentInfo")
      .def_readonly("name", &ArgumentInfo::name)
      .def_readonly("ndim", &ArgumentInfo::rank)
      .def_readonly("is_scalar", &ArgumentInfo::scalar)
      .def_readonly("is_specialized", &ArgumentInfo::specialized)
      .def_readonly("accumulates", &ArgumentInfo::accumulates)
      .def_readonly("follows", &ArgumentInfo::follows)
      .def_property_readonly("dtype", [](const ArgumentInfo& info) { return info.dtype; });

  py::class_<Definition, std::shared_ptr<Definition>>(m, "Definition")
      .def_readonly("name", &Definition::name)
      .def_readonly("inputs", &Definition::inputs)
      .def_readonly("outputs", &Definition::outputs)
      .def_property_readonly("text",
                             [](const Definition& d) { return tc_definition_text(d.get()); })
      .def_property_readonly("key", [](const Definition& d) { return tc_definition_key(d.get()); })
      .def("input_dimension", input_dimension)
      .def("size_expression", size_expression)
      .def("size_conditions", size_conditions)
      .def("infer_sizes", infer_sizes)
      .def("gradient_text", gradient_text)
      .def("batch_text", batch_text)
      .def("tensors_text", tensors_text)
      .def("shardings", shardings)
      .def("sized_text", sized_text);

  py::class_<ParsedText>(m, "ParsedText")
      .def_readonly("definitions", &ParsedText::definitions)
      .def_readonly("warnings", &ParsedText::warnings);
  m.def("parse", parse);
  m.def("format", format);
  m.def("machine_facts", machine_facts);
  m.def("spend_cycles", tc_spend_cycles);

  py::class_<Options>(m, "Options")
      .def(py::init([](const std::string& preset) {
        return Options{OptionsPtr(ask<tc_options*>(tc_options_create, c_text(preset)))};
      }))
      .def_static("parse",
                  [](const std::string& text) {
                    return Options{OptionsPtr(ask<tc_options*>(tc_options_parse, c_text(text)))};
                  })
      .def("copy", [](const Options& o) { return Options{copy_options(get(&o))}; })
      .def("set",
           [](Options& o, const std::string& name, const std::vector<int64_t>& values) {
             check(tc_options_set(o.options.get(), name.c_str(), values.data(),
                                  static_cast<int32_t>(values.size())));
           })
      .def("set_word",
           [](Options& o, const std::string& name, const std::string& word) {
             check(tc_options_set_word(o.options.get(), name.c_str(), c_text(word)));
           })
      .def("text", [](const Options& o) { return std::string(tc_options_text(o.options.get())); })
      .def("equals", [](const Options& a, const Options& b) {
        return tc_options_equal(a.options.get(), b.options.get()) != 0;
      });

  m.def(
      "set_checks_indices", [](bool checks) { return std::exchange(checks_indices(), checks); },
      py::arg("checks"));
  py::class_<KernelLimit::Info>(m, "KernelInfo")
      .def_readonly("kernels", &KernelLimit::Info::kernels)
      .def_readonly("bytes", &KernelLimit::Info::bytes)
      .def_readonly("kernel_limit", &KernelLimit::Info::most_kernels)
      .def_readonly("byte_limit", &KernelLimit::Info::most_bytes)
      .def_readonly("compiled", &KernelLimit::Info::compiled)
      .def_readonly("dropped", &KernelLimit::Info::dropped);
  m.def("kernel_info", [] { return kernel_limit().info(); });
  m.def(
      "limit_kernels", [](int64_t kernels, int64_t bytes) { kernel_limit().set(kernels, bytes); },
      py::arg("kernels"), py::arg("bytes"));
  m.def("clear_kernels", [] { kernel_limit().clear(); });
  m.def("mangle", mangle, py::arg("name"), py::arg("taken"), py::arg("prefix"));
  m.def("name_of_contents", name_of_contents, py::arg("definition"), py::arg("scheduling"),
        py::arg("count"));
  m.def("is_registered", is_registered, py::arg("namespace"), py::arg("name"));
  m.def("forget_moves", forget_moves);
  m.def("remove_owner", remove_owner, py::arg("namespace"), py::arg("name"));
  m.def(
      "unregister",
      [](const std::string& name) {
        unregister_operator(derived_name(name));
        drop_differentiable(derived_name(name));
        unregister_operator(name);
      },
      py::arg("name"));
  m.def(
      "is_recorded", [](const std::string& name) { return is_recorded(derived_name(name)); },
      py::arg("name"));
  m.def("set_owner", set_owner, py::arg("namespace"), py::arg("name"), py::arg("definition"),
        py::arg("contents"));
  py::class_<Schema>(m, "Schema")
      .def(py::init<const Definition&, const std::string&>(), py::arg("definition"),
           py::arg("name"))
      .def_readonly("functional", &Schema::functional)
      .def_readonly("out", &Schema::out)
      .def_readonly("outputs", &Schema::outputs);

  py::class_<Operator, std::shared_ptr<Operator>>(m, "Operator")
      .def(py::init([](std::shared_ptr<Definition> definition,
                       const std::optional<Function>& factory, bool keeps) {
             return std::make_shared<Operator>(definition, python_factory(factory), keeps);
           }),
           py::arg("definition"), py::arg("factory"), py::arg("keeps") = false)
      .def("register",
           [](const std::shared_ptr<Operator>& op, const std::string& ns, const std::string& schema,
              const std::string& out_schema) { register_operator(ns, schema, out_schema, op); })
      .def("call",
           [](Operator& op, const Values& inputs) {
             std::vector<c10::IValue> values = to_ivalues(op.definition(), inputs);
             refuse_graphs(op.definition(), values, {});
             Unlocked unlocked;
             return op.call(values);
           })
      .def("call_out",
           [](Operator& op, const Values& inputs, const std::vector<at::Tensor>& outputs,
              bool unchecked, bool registered) {
             if (registered && is_watched()) return false;
             std::vector<c10::IValue> values = to_ivalues(op.definition(), inputs);
             if (registered && !are_plain(op.definition(), values, outputs)) return false;
             if (!registered) refuse_graphs(op.definition(), values, outputs);
             Unlocked unlocked;
             op.call_out(values, outputs, unchecked);
             // Tells autograd that they changed, so that a saved one is not used unnoticed.
             for (const at::Tensor& output : outputs)
               if (!output.is_inference()) output.unsafeGetTensorImpl()->bump_version();
             return true;
           })
      .def("time", [](Operator& op, const Values& inputs, const std::vector<at::Tensor>& outputs) {
        std::vector<c10::IValue> values = to_ivalues(op.definition(), inputs);
        Unlocked unlocked;
        return op.time(values, outputs);
      });

  py::class_<Executor>(m, "Executor")
      .def(py::init<const Definition&, const Options*, const std::string&, const Values&>())
      .def(py::init<Operator&, const Values&>())
      .def("text", &Executor::text)
      .def("number", &Executor::number, py::call_guard<Unlocked>())
      .def("binary", &Executor::binary);

  bind_derivation(m);
  bind_direct_call(m);
  bind_einsum(m);
  bind_tuning(m);
  bind_store(m);  // whose Plans may have trials
}
