// Every function of tc.h with a call that works and the values that it must refuse: NULL, indices,
// counts, tensors, texts, files, hosts.
#pragma once

#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <deque>
#include <filesystem>
#include <fstream>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "c_interface/c_interface.h"
#include "tc/tc.h"

namespace c_interface {

inline const char kText[] =
    "def f(float(M, K) A, float(K) B, int32 n, float alpha) -> (float(M) C, D) {\n"
    "  C(i) +=! A(i, k) * B(k) where i in 0:n\n"
    "  D(i) = alpha * C(i)\n"
    "}\n"
    "def g(float(N) X) -> (Z) { Z(i) += X(i) }\n"
    "def h(float(B, N) X) -> (S) { S(b) +=! X(b, n) / N }\n";

inline constexpr DLDataType kFloat = {kDLFloat, 32, 1}, kInt32 = {kDLInt, 32, 1},
                            kInt64 = {kDLInt, 64, 1};

inline void require(tc_status status) {
  if (status == TC_OK) return;
  std::fprintf(stderr, "the test's own call failed: %s\n", tc_error_message());
  std::exit(2);
}

/// A host whose functions can be left out.
inline tc_host host_without(int missing) {
  tc_host host = *tc_default_host();
  if (missing == 0) host.parallel_for = nullptr;
  if (missing == 1) host.thread_count = nullptr;
  if (missing == 2) host.allocate = nullptr;
  if (missing == 3) host.release = nullptr;
  return host;
}
inline const char* const kHostFunctions[] = {"parallel_for", "thread_count", "allocate", "release"};

inline int refuse_product(void*, const DLTensor*, const DLTensor*, const DLTensor*, int, char*,
                          size_t) {
  return 1;
}
inline int refuse_convolution(void*, const tc_convolution*, const DLTensor*, const DLTensor*,
                              const DLTensor*, char*, size_t) {
  return 1;
}
inline int always(void*) { return 1; }

/// A folder that goes with the test.
class Folder {
 public:
  Folder() : path_((std::filesystem::temp_directory_path() / "tc_c_interface_XXXXXX").string()) {
    if (!mkdtemp(path_.data())) std::exit(2);
  }
  ~Folder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  const std::string& path() const { return path_; }
  std::string file(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

/// What good calls are made of, and the table of all functions.
class Interface {
 public:
  Interface() {
    require(tc_module_parse(kText, &module_));
    require(tc_module_find(module_, "f", &f_));
    require(tc_module_find(module_, "g", &g_));
    require(tc_module_find(module_, "h", &h_));
    require(tc_options_create("naive", &options_));
    *n_.data<int32_t>() = 2;
    *alpha_.data<float>() = 0.5f;
    for (int k = 0; k < 8; ++k) a_.data<float>()[k] = static_cast<float>(k);
    for (int k = 0; k < 4; ++k) b_.data<float>()[k] = 1;
    for (int k = 0; k < 2; ++k) table_.data<int64_t>()[k] = k;
    const char* names[] = {"shift"};
    require(tc_einsum_create(kEquation, operands_.get(), 2, names, tables_.get(), 1, &einsum_));
    const char* text = nullptr;
    require(tc_einsum_text(einsum_, path_, 3, &text));
    require(tc_compile(f_, options_, "cpu", inputs_.get(), 4, nullptr, 0, &kernel_));
    // Without NVRTC there is none, and no device binary.
    tc_compile(f_, nullptr, "cuda:sm_90", inputs_.get(), 4, nullptr, 0, &gpu_kernel_);
    operands_.gpu_is_fine = true;
    tables_.gpu_words = "table shift is on cuda:0";
    store_ = make_store();
    require(tc_store_create(&added_to_));
    require(tc_store_parse(store_, 0, &stored_module_));
    require(tc_module_find(stored_module_, "h", &stored_));
    require(tc_kernel_text(kernel_, "options", &text));
    whole_ = text;
    require(tc_options_parse(text, &whole_options_));
    require(tc_space_create(f_, options_, "cpu", inputs_.get(), 4, nullptr, 0, whole_options_,
                            &space_));
    tc_tuned_plan found{};
    found.options = whole_.c_str();
    found.times = found.standard = {1e-3, 1e-3, 1, 1};
    require(tc_store_add_tuning(store_, f_, options_, "cpu", inputs_.get(), 4, nullptr, 0, &found,
                                1, trials_, ratios_, 1));
    require(tc_store_save(store_, saved_.c_str()));
    std::ofstream(garbage_) << "no store";
  }
  ~Interface() {
    tc_space_free(space_);
    tc_options_free(whole_options_);
    tc_store_free(store_);
    tc_store_free(added_to_);
    tc_kernel_free(gpu_kernel_);
    tc_kernel_free(kernel_);
    tc_einsum_free(einsum_);
    tc_options_free(options_);
    tc_module_free(stored_module_);
    tc_module_free(module_);
  }
  Interface(const Interface&) = delete;
  Interface& operator=(const Interface&) = delete;

  std::vector<Entry> entries();

 private:
  static constexpr const char* kEquation = "c(h+shift[c]), c -> hc";
  static constexpr const char* kOperator = "h__0123456789abcdef";

  tc_store* make_store() {
    tc_store* store = nullptr;
    require(tc_store_create(&store));
    const tc_options* options[] = {options_};
    const char* names[] = {kOperator};
    require(tc_store_add(store, "tc", kStored, 1, options, names, 1));
    return store;
  }

  static constexpr const char* kStored = "def h(float(N) X) -> (S) { S(n) = X(n) + 1 }";

  tc_module* module_ = nullptr;
  const tc_definition *f_ = nullptr, *g_ = nullptr, *h_ = nullptr;
  tc_options* options_ = nullptr;
  tc_einsum* einsum_ = nullptr;
  tc_kernel *kernel_ = nullptr, *gpu_kernel_ = nullptr;
  tc_store* store_ = nullptr;

  Tensor a_{"argument A", {2, 4}, kFloat}, b_{"argument B", {4}, kFloat},
      n_{"argument n", {}, kInt32}, alpha_{"argument alpha", {}, kFloat},
      c_out_{"output C", {2}, kFloat}, d_out_{"output D", {2}, kFloat};
  Tensors inputs_{{&a_, &b_, &n_, &alpha_}}, outputs_{{&c_out_, &d_out_}};
  Tensor image_{"operand 0", {2, 5}, kFloat}, weights_{"operand 1", {2}, kFloat},
      table_{"table shift", {2}, kInt64};
  Tensors operands_{{&image_, &weights_}}, tables_{{&table_}};

  Folder folder_;
  std::string code_folder_ = folder_.file("code");
  std::string saved_ = folder_.file("saved"), garbage_ = folder_.file("garbage"),
              missing_ = folder_.file("missing"), written_ = folder_.file("written"),
              beyond_ = folder_.file("no/folder"), here_ = folder_.path(),
              long_path_ = folder_.file(std::string(100000, 'a')),
              nested_ = "def h(float(N) X) -> (S) { S(n) = " + std::string(200000, '(');

  // What good calls write.
  Result<tc_module*> made_module_;
  Result<const tc_definition*> found_;
  Result<tc_argument> described_;
  Result<const char*> text_, text_2_, text_3_;
  Result<tc_options*> made_options_;
  Result<tc_einsum*> made_einsum_;
  Result<tc_store*> made_store_;
  Result<tc_kernel*> made_kernel_;
  Result<tc_stored_text> stored_text_;
  Result<tc_stored_definition> stored_definition_;
  Result<int32_t> count_;
  Result<int64_t> number_;
  Result<double> seconds_;
  Result<const void*> binary_;
  Result<size_t> binary_size_;
  int64_t sizes_[2] = {};
  tc_placement placements_[64] = {};
  tc_input_dimension dimensions_[8] = {};

  const int32_t flags_[4] = {1, 1, 0, 0}, all_[4] = {1, 1, 1, 1}, alpha_only_[4] = {0, 0, 0, 1};
  const int64_t tiles_[2] = {4, 4};
  const int32_t path_[3] = {2, 0, 1};
  const int32_t bad_paths_[6][3] = {{0, 0, 1}, {-1, 0, 1}, {3, 0, 1},
                                    {2, 0, 7}, {2, -1, 0}, {INT32_MAX, 0, 1}};
  const char *table_names_[1] = {"shift"}, *no_table_name_[1] = {nullptr},
             *other_table_name_[1] = {"other"};
  const char *operator_names_[1] = {kOperator}, *no_operator_name_[1] = {nullptr},
             *plain_operator_name_[1] = {"h"};
  const tc_options *store_options_[1] = {nullptr}, *no_options_[1] = {nullptr};
  tc_host hosts_[4] = {host_without(0), host_without(1), host_without(2), host_without(3)};
  tc_libraries libraries_ = {"Test", nullptr, refuse_product, refuse_convolution, tc_default_host(),
                             always};
  std::deque<tc_libraries> bad_libraries_;
  std::vector<void*> pointers_;
  std::deque<std::vector<void*>> bad_pointers_;
  tc_store* added_to_ = nullptr;
  tc_module* stored_module_ = nullptr;
  const tc_definition* stored_ = nullptr;
  tc_space* space_ = nullptr;
  tc_options* whole_options_ = nullptr;
  std::string whole_;
  tc_tuned_plan tuned_plan_{}, no_plan_{}, bad_plan_{}, timeless_plans_[3];
  const char *trials_[1] = {"tc.MappingOptions(\"default\")"}, *no_trials_[1] = {nullptr};
  const double ratios_[1] = {1.5};
  const int32_t parents_[3] = {0, 0, 0}, bad_parents_[3] = {0, -1, 0};
  int32_t candidates_[64] = {};
  Result<tc_space*> made_space_;
  Result<tc_tuning> tuning_;
  Result<tc_tuned_plan> found_plan_;
  Result<tc_candidate> candidate_;
  Result<int32_t> index_;
};

inline std::vector<Entry> Interface::entries() {
  std::vector<Entry> list;
  auto add = [&](Entry made) -> Entry& {
    list.push_back(std::move(made));
    return list.back();
  };
  auto handle = [](auto* value) { return Argument(value); };
  auto free_module = [&](Bits) { tc_module_free(std::exchange(*made_module_, nullptr)); };
  auto free_options = [&](Bits) { tc_options_free(std::exchange(*made_options_, nullptr)); };
  auto free_store = [&](Bits) { tc_store_free(std::exchange(*made_store_, nullptr)); };
  auto free_kernel = [&](Bits) { tc_kernel_free(std::exchange(*made_kernel_, nullptr)); };
  auto free_einsum = [&](Bits) { tc_einsum_free(std::exchange(*made_einsum_, nullptr)); };

  // ---- errors and logs
  add(entry("tc_error_message", tc_error_message, {}));
  add(entry("tc_error_line", tc_error_line, {}));
  add(entry("tc_error_column", tc_error_column, {}));
  add(entry("tc_version", tc_version, {}));
  add(entry("tc_machine_facts", tc_machine_facts, {Argument(0).any(), text_.argument()}));
  add(entry("tc_spend_cycles", tc_spend_cycles, {Argument(int64_t{64}).any()}));
  add(entry("tc_set_log_sink", tc_set_log_sink,
            {Argument(+[](const char*, const char*) {}).optional()},
            [](Bits) { tc_set_log_sink(nullptr); }));
  add(entry("tc_set_interrupt", tc_set_interrupt, {Argument(+[] { return 0; }).optional()},
            [](Bits) { tc_set_interrupt(nullptr); }));

  add(entry("tc_set_log_topic", tc_set_log_topic,
            {Argument("stages").bad("an unknown one", "stagse", "no topic of the log"),
             Argument(0).any()},
            [](Bits) { tc_set_log_topic("stages", 0); }));

  // ---- texts
  auto text_argument = [&](const char* good) {
    return Argument(good)
        .bad("a text that is cut off", "def f(", "1:7", TC_LANGUAGE_ERROR)
        .bad("no text of ours", "hello", "1:1", TC_LANGUAGE_ERROR)
        .bad("no UTF-8", "def f\xff(float(N) A) -> (B) { B(i) = A(i) }", "1:6", TC_LANGUAGE_ERROR)
        .bad("200000 parentheses", nested_.c_str(), "1:", TC_LANGUAGE_ERROR);
  };
  add(entry("tc_module_parse", tc_module_parse, {text_argument(kText), made_module_.argument()},
            free_module));
  add(entry("tc_module_free", tc_module_free, {Argument(nullptr).optional()}));
  add(entry("tc_module_size", tc_module_size, {handle(module_)}));
  add(entry("tc_module_definition", tc_module_definition,
            {handle(module_), Argument(2).below(3, "definition")}));
  add(entry("tc_module_find", tc_module_find,
            {handle(module_),
             Argument("f")
                 .bad("an unknown name", "x", "defines: f, g, h")
                 .bad("an empty name", "", "defines: f, g, h"),
             found_.argument()}));
  add(entry("tc_module_warning_count", tc_module_warning_count, {handle(module_)}));
  add(entry("tc_module_warning", tc_module_warning,
            {handle(module_), Argument(0).below(tc_module_warning_count(module_), "warning")}));

  // ---- definitions
  add(entry("tc_definition_name", tc_definition_name, {handle(f_)}));
  add(entry("tc_definition_text", tc_definition_text, {handle(f_)}));
  add(entry("tc_definition_key", tc_definition_key, {handle(f_)}));
  add(entry("tc_definition_input_count", tc_definition_input_count, {handle(f_)}));
  add(entry("tc_definition_output_count", tc_definition_output_count, {handle(f_)}));
  add(entry("tc_definition_input", tc_definition_input,
            {handle(f_), Argument(3).below(4, "input"), described_.argument()}));
  add(entry("tc_definition_output", tc_definition_output,
            {handle(f_), Argument(1).below(2, "output"), described_.argument()}));
  add(entry("tc_definition_input_dimension", tc_definition_input_dimension,
            {handle(f_), Argument(0).below(4, "input").bad("a scalar", 2, "dimension"),
             Argument(1).below(2, "dimension"), text_.argument()}));
  auto inputs = [&] { return inputs_.argument(/*data_needed=*/{2}); };
  // Functions that only want the value of n, by which C's sizes are known.
  auto scalars = [&] { return inputs_.argument(/*data_needed=*/{2}, /*looked_at=*/{{2}}); };
  auto input_count = [] {
    return Argument(4)
        .bad("0", 0, "f expected 4 inputs but found 0", TC_SHAPE_ERROR)
        .bad("3", 3, "f expected 4 inputs but found 3", TC_SHAPE_ERROR)
        .bad("5", 5, "f expected 4 inputs but found 5", TC_SHAPE_ERROR)
        .bad("the largest", INT32_MAX, "f expected 4 inputs", TC_SHAPE_ERROR);
  };
  auto scalar_count = [] {
    return Argument(4)
        .also("3", 3)
        .bad("0", 0, "scalar n, which was not given")
        .bad("2", 2, "scalar n, which was not given")
        .bad("5", 5, "input_count is 5, but f has 4 inputs")
        .bad("the largest", INT32_MAX, "input_count is 2147483647");
  };
  add(entry("tc_infer_sizes", tc_infer_sizes,
            {handle(f_), inputs(), input_count(), Argument(sizes_),
             Argument(2)
                 .also("more", 1000)
                 .bad("1", 1, "size_count is 1")
                 .bad("0", 0, "size_count is 0")}));
  add(entry("tc_output_size_expression", tc_output_size_expression,
            {handle(f_), scalars(), scalar_count(), Argument(1).below(2, "output"),
             Argument(0).below(1, "dimension"), text_.argument()}));
  add(entry("tc_size_condition", tc_size_condition,
            {handle(f_), scalars(), scalar_count(),
             Argument(0).also("past the last", 1).also("the largest", INT32_MAX), text_.argument(),
             text_2_.argument(), text_3_.argument()}))
      .arguments[3]
      .negative_words = "condition";
  add(entry(
      "tc_definition_gradient", tc_definition_gradient,
      {handle(f_), scalars(), scalar_count(), Argument(flags_), Argument(all_), text_.argument()}));
  add(entry("tc_definition_keeping", tc_definition_keeping,
            {handle(f_), scalars(), scalar_count(), text_.argument()}));
  add(entry("tc_definition_batch", tc_definition_batch,
            {handle(h_)
                 .bad("one that adds to its output", g_, "Z")
                 .bad("one with a scalar", f_, "scalar"),
             Argument(all_), text_.argument()}));
  add(entry("tc_definition_tensors", tc_definition_tensors,
            {handle(f_), Argument(alpha_only_).bad("a tensor", flags_, "A is no scalar of f"),
             text_.argument()}));
  auto room = [](int32_t capacity) { return Argument(capacity).also("no room", 0); };
  add(entry("tc_definition_shardings", tc_definition_shardings,
            {handle(h_), Argument(placements_), room(64), count_.argument()}));
  add(entry("tc_definition_sized", tc_definition_sized,
            {handle(h_), text_.argument(), Argument(dimensions_), room(8), count_.argument()}));
  // Where an exception passes through a list in braces, GCC 12 tells AddressSanitizer that the list
  // is out of scope before it destroys the elements that it has.
#ifdef __SANITIZE_ADDRESS__
  constexpr bool kListsStay = false;
#else
  constexpr bool kListsStay = true;
#endif
  add(entry("tc_format", tc_format, {text_argument(kText), text_.argument()}))
      .tried_without_memory = kListsStay;

  // ---- einsum
  auto equation = [](const char* good) {
    return Argument(good)
        .bad("nothing", "", "einsum", TC_SHAPE_ERROR)
        .bad("half of one", "c(h+", "1:5", TC_LANGUAGE_ERROR)
        .bad("no UTF-8", "c\xff, c -> c", "1:2", TC_LANGUAGE_ERROR)
        .bad("a number past 64 bits", "c(99999999999999999999*h), c -> hc", "1:3",
             TC_LANGUAGE_ERROR)
        .bad("a number past 32 bits", "c(9999999999*h+shift[c]), c -> hc", "1:3", TC_LANGUAGE_ERROR)
        .bad("an unknown label", "c(h+shift[c]), c -> hz", "1:22", TC_LANGUAGE_ERROR)
        .bad("an unknown table", "c(h+other[c]), c -> hc", "table other", TC_SHAPE_ERROR);
  };
  add(entry(
      "tc_einsum_create", tc_einsum_create,
      {equation(kEquation), operands_.argument({}),
       Argument(2)
           .bad("0", 0, "2 operands but 0 were passed", TC_SHAPE_ERROR)
           .bad("3", 3, "2 operands but 3 were passed", TC_SHAPE_ERROR)
           .bad("the largest", INT32_MAX, "2 operands but", TC_SHAPE_ERROR),
       Argument(table_names_)
           .bad("a name that is NULL", no_table_name_, "table_names[0]")
           .bad("another name", other_table_name_, "table shift was not passed", TC_SHAPE_ERROR),
       tables_.argument({0}),
       Argument(1)
           .bad("0", 0, "table shift was not passed", TC_SHAPE_ERROR)
           .bad("the largest", INT32_MAX, "table_count is 2147483647"),
       made_einsum_.argument()},
      free_einsum));
  add(entry("tc_einsum_free", tc_einsum_free, {Argument(nullptr).optional()}));
  add(entry("tc_einsum_label_count", tc_einsum_label_count, {handle(einsum_)}));
  add(entry("tc_einsum_extent", tc_einsum_extent,
            {handle(einsum_), Argument(1).below(2, "label")}));
  add(entry("tc_einsum_has_label", tc_einsum_has_label,
            {handle(einsum_), Argument(2).below(3, "operand"), Argument(1).below(2, "label")}));
  Argument path(path_);
  for (const auto& each : bad_paths_) path.bad("a step that cannot be", each, "path");
  add(entry("tc_einsum_text", tc_einsum_text,
            {handle(einsum_), path,
             Argument(3)
                 .also("0", 0)
                 .bad("2", 2, "path is cut off")
                 .bad("the largest", INT32_MAX, "count is 2147483647"),
             text_.argument()}));
  add(entry("tc_einsum_table", tc_einsum_table,
            {handle(einsum_), Argument(0).also("past the last", 1).also("the largest", INT32_MAX)}))
      .arguments[1]
      .negative_words = "table";
  add(entry("tc_einsum_scalar_count", tc_einsum_scalar_count, {handle(einsum_)}));
  add(entry("tc_einsum_scalar", tc_einsum_scalar,
            {handle(einsum_), Argument(0).below(tc_einsum_scalar_count(einsum_), "scalar")}));

  // ---- options
  add(entry("tc_options_create", tc_options_create,
            {Argument("naive")
                 .bad("nothing", "", "unknown preset ''")
                 .bad("an unknown one", "fast", "unknown preset 'fast'"),
             made_options_.argument()},
            free_options));
  Argument options_text("tc.MappingOptions(\"naive\").tile(4, 4)");
  for (const char* garbage :
       {"", "garbage", "tc.MappingOptions(", "tc.MappingOptions(\"naive", "\xff\xfe",
        "tc.MappingOptions(\"naive\").tile(", "tc.MappingOptions(\"naive\").tile(4, 4))"})
    options_text.bad(garbage, garbage, "no mapping options");
  options_text.bad("an unknown preset", "tc.MappingOptions(\"fast\")", "preset 'fast'")
      .bad("a bad value", "tc.MappingOptions(\"naive\").unroll(-1)", "unroll(-1)")
      .bad("a number past 64 bits", "tc.MappingOptions(\"naive\").tile(99999999999999999999)",
           "at most 18 digits")
      .bad("an unknown option", "tc.MappingOptions(\"naive\").roll(1)", "'roll'")
      .bad("an empty option", "tc.MappingOptions(\"naive\").(1)", "expected a name");
  add(entry("tc_options_parse", tc_options_parse, {options_text, made_options_.argument()},
            free_options));
  add(entry("tc_options_copy", tc_options_copy, {handle(options_)},
            [](Bits copy) { tc_options_free(from_bits<tc_options*>(copy)); }));
  add(entry("tc_options_free", tc_options_free, {Argument(nullptr).optional()}));
  auto option_name = [](const char* good) {
    return Argument(good)
        .bad("an unknown one", "roll", "no option 'roll'")
        .bad("nothing", "", "no option ''");
  };
  add(entry("tc_options_set", tc_options_set,
            {handle(options_),
             option_name("tile").bad("one that takes a word", "scheduleFusionStrategy", "\"Max\""),
             Argument(tiles_),
             Argument(2).bad("0", 0, "tile()").bad("the largest", INT32_MAX, "count is")}));
  add(entry(
      "tc_options_set_word", tc_options_set_word,
      {handle(options_),
       option_name("scheduleFusionStrategy").bad("one of numbers", "tile", "tile"),
       Argument("Max").bad("an unknown word", "Most", "\"Most\"").bad("nothing", "", "\"\"")}));
  add(entry("tc_options_text", tc_options_text, {handle(options_)}));
  add(entry("tc_options_equal", tc_options_equal, {handle(options_), handle(options_)}));

  // ---- stores
  store_options_[0] = options_;
  add(entry("tc_store_create", tc_store_create, {made_store_.argument()}, free_store));
  auto path_argument = [](const std::string& good) { return Argument(good.c_str()); };
  Argument read = path_argument(saved_);
  read.bad("nothing", "", "path is empty")
      .bad("no file", missing_.c_str(), missing_, TC_CACHE_ERROR)
      .bad("a folder", here_.c_str(), here_, TC_CACHE_ERROR)
      .bad("a device", "/dev/null", "/dev/null", TC_CACHE_ERROR)
      .bad("no store", garbage_.c_str(), garbage_, TC_CACHE_ERROR)
      .bad("too long a name", long_path_.c_str(), "too long", TC_CACHE_ERROR);
  // Where there is no memory, protobuf forgets what it was about to add to a message.
  add(entry("tc_store_read", tc_store_read, {read, Argument(0).any(), made_store_.argument()},
            free_store))
      .tried_without_memory = false;
  add(entry("tc_store_free", tc_store_free, {Argument(nullptr).optional()}));
  add(entry("tc_store_size", tc_store_size, {handle(store_)}));
  add(entry("tc_store_text", tc_store_text,
            {handle(store_), Argument(0).below(1, "text"), stored_text_.argument()}));
  add(entry("tc_store_definition", tc_store_definition,
            {handle(store_), Argument(0).below(1, "text"), Argument(0).below(1, "definition"),
             stored_definition_.argument()}));
  add(entry("tc_store_parse", tc_store_parse,
            {handle(store_), Argument(0).below(1, "text"), made_module_.argument()}, free_module));
  add(entry("tc_store_add", tc_store_add,
            {handle(added_to_),
             Argument("tc")
                 .bad("nothing", "", "the namespace ''")
                 .bad("no name", "a b", "the namespace 'a b'")
                 .bad("no UTF-8", "\xff", "namespace"),
             text_argument(kStored).bad("no definition", "", "no definition", TC_LANGUAGE_ERROR),
             Argument(1).any(),
             Argument(store_options_).bad("options that are NULL", no_options_, "options[0]"),
             Argument(operator_names_)
                 .bad("a name that is NULL", no_operator_name_, "operator_names[0]")
                 .bad("a plain name", plain_operator_name_, "the operator 'h'"),
             Argument(1).bad("0", 0, "count is 0").bad("the largest", INT32_MAX, "count is")}));
  add(entry("tc_store_set_derivative", tc_store_set_derivative,
            {handle(store_), Argument(0).below(1, "text"), Argument(0).below(1, "definition"),
             Argument(nullptr).optional().bad("nothing", "", "backward is empty")}));
  add(entry("tc_store_add_pair", tc_store_add_pair,
            {handle(store_), Argument(0).below(1, "text"), Argument(0).below(1, "definition"),
             Argument("tc::h__0123456789abcdef").bad("nothing", "", "backward is empty")}));
  add(entry("tc_store_pair", tc_store_pair,
            {handle(store_), Argument(0).below(1, "text"), Argument(0).below(1, "definition"),
             Argument(0).also("past the last", 1000).also("the largest", INT32_MAX)}))
      .arguments[3]
      .negative_words = "pair";
  add(entry("tc_store_find_options", tc_store_find_options,
            {handle(store_), handle(stored_).also("one that it does not have", f_),
             Argument(1).any(), made_options_.argument()},
            free_options));
  add(entry("tc_store_save", tc_store_save,
            {handle(store_),
             path_argument(written_)
                 .bad("nothing", "", "path is empty")
                 .bad("a folder", here_.c_str(), here_, TC_CACHE_ERROR)
                 .bad("no folder", beyond_.c_str(), beyond_, TC_CACHE_ERROR)
                 .bad("no store", garbage_.c_str(), garbage_, TC_CACHE_ERROR)
                 .bad("too long a name", long_path_.c_str(), "too long", TC_CACHE_ERROR)}))
      .tried_without_memory = false;

  // ---- tuned Plans
  auto tuned_options = [&](const char* text) {
    tc_options* options = nullptr;
    require(tc_options_parse(text, &options));
    return options;
  };
  (void)tuned_options;
  Argument tuned_target("cpu");
  tuned_target.optional().bad("an unknown one", "gpu", "unknown target");
  Argument plan(whole_.c_str());
  tuned_plan_.options = whole_.c_str();
  tuned_plan_.times = tuned_plan_.standard = {1e-3, 2e-3, 1.5, 10};
  no_plan_ = bad_plan_ = tuned_plan_;
  no_plan_.options = nullptr;
  bad_plan_.options = "tc.MappingOptions().roll(3)";
  // Saved, they would spoil the file for every reader.
  for (tc_tuned_plan& plan : timeless_plans_) plan = tuned_plan_;
  timeless_plans_[0].times.median = std::numeric_limits<double>::quiet_NaN();
  timeless_plans_[1].times.minimum = -1;
  timeless_plans_[2].standard.spread = std::numeric_limits<double>::infinity();
  auto add_tuning = [&](Argument store) {
    return std::vector<Argument>{
        store,
        handle(f_),
        handle(options_).optional(),
        tuned_target,
        inputs(),
        input_count(),
        outputs_.argument({}),
        Argument(2)
            .bad("0", 0, "f expected 2 outputs but found 0", TC_SHAPE_ERROR)
            .bad("the largest", INT32_MAX, "f expected 2 outputs", TC_SHAPE_ERROR)};
  };
  std::vector<Argument> adds = add_tuning(handle(added_to_));
  adds.push_back(Argument(&tuned_plan_)
                     .bad("options that are NULL", &no_plan_, "plans[0].options")
                     .bad("options that are none", &bad_plan_, "roll")
                     .bad("a time that is none", &timeless_plans_[0], "nan in plans[0].times")
                     .bad("a negative time", &timeless_plans_[1], "-1 in plans[0].times")
                     .bad("an endless time", &timeless_plans_[2], "inf in plans[0].standard"));
  adds.push_back(Argument(1));
  adds.push_back(Argument(trials_).bad("a trial that is NULL", no_trials_, "trials[0]"));
  adds.push_back(Argument(ratios_));
  adds.push_back(Argument(1));
  add(entry("tc_store_add_tuning", tc_store_add_tuning, adds)).tried_without_memory = false;
  add(entry("tc_store_tuning_count", tc_store_tuning_count, {handle(store_)}));
  add(entry("tc_store_tuning", tc_store_tuning,
            {handle(store_), Argument(0).below(1, "tuning"), tuning_.argument()}));
  add(entry("tc_store_tuned_plan", tc_store_tuned_plan,
            {handle(store_), Argument(0).below(1, "tuning"), Argument(0).below(1, "plan"),
             found_plan_.argument()}));
  add(entry(
      "tc_store_tuned_options", tc_store_tuned_options,
      {handle(store_), Argument(0).below(1, "tuning"), Argument(0).below(1, "plan"),
       handle(f_).bad("another one", g_, "another definition than g"), made_options_.argument()},
      free_options));
  add(entry("tc_store_trial", tc_store_trial,
            {handle(store_), Argument(0).below(1, "tuning"), Argument(0).below(1, "trial"),
             text_.argument(), seconds_.argument()}));
  add(entry(
      "tc_store_trial_options", tc_store_trial_options,
      {handle(store_), Argument(0).below(1, "tuning"), Argument(0).below(1, "trial"),
       handle(f_).bad("another one", g_, "another definition than g"), made_options_.argument()},
      free_options));
  std::vector<Argument> finds = add_tuning(handle(store_));
  finds.push_back(Argument(1).any());
  finds.push_back(count_.argument());
  finds.push_back(index_.argument());
  add(entry("tc_store_find_tuning", tc_store_find_tuning, finds)).tried_without_memory = false;
  add(entry(
      "tc_store_use", tc_store_use,
      {handle(store_), Argument(candidates_), Argument(64).also("no room", 0), count_.argument()},
      [](Bits) { tc_forget_tunings(); }));
  add(entry("tc_forget_tunings", tc_forget_tunings, {}));
  add(entry("tc_store_prune", tc_store_prune,
            {path_argument(saved_)
                 .bad("nothing", "", "path is empty")
                 .bad("no file", missing_.c_str(), missing_, TC_CACHE_ERROR)
                 .bad("no store", garbage_.c_str(), garbage_, TC_CACHE_ERROR),
             Argument(16), Argument(16), Argument(0).any()}))
      .tried_without_memory = false;

  // ---- spaces of Plans
  std::vector<Argument> space_arguments = add_tuning(handle(f_));
  space_arguments.erase(space_arguments.begin());
  space_arguments.insert(space_arguments.begin() + 2, tuned_target);
  space_arguments.erase(space_arguments.begin() + 3);
  space_arguments.push_back(handle(whole_options_));
  space_arguments.push_back(made_space_.argument());
  add(entry("tc_space_create", tc_space_create, space_arguments, [&](Bits) {
    tc_space_free(std::exchange(*made_space_, nullptr));
  })).tried_without_memory = false;
  add(entry("tc_space_free", tc_space_free, {Argument(nullptr).optional()}));
  add(entry("tc_space_add", tc_space_add,
            {handle(space_), handle(whole_options_), count_.argument()}))
      .tried_without_memory = false;
  auto candidates = [&] { return Argument(candidates_); };
  auto capacity = [] { return Argument(64).also("0", 0); };
  add(entry("tc_space_starts", tc_space_starts,
            {handle(space_), candidates(), capacity(), count_.argument()}))
      .tried_without_memory = false;
  add(entry("tc_space_draw", tc_space_draw,
            {handle(space_), Argument(uint64_t{7}).any(), count_.argument()}))
      .tried_without_memory = false;
  auto candidate = [] { return Argument(0).bad("the largest", INT32_MAX, "candidate"); };
  add(entry("tc_space_mutate", tc_space_mutate,
            {handle(space_), candidate(), Argument(uint64_t{7}).any(), count_.argument()}))
      .tried_without_memory = false;
  list.back().arguments[1].negative_words = "candidate";
  add(entry(
          "tc_space_cross", tc_space_cross,
          {handle(space_),
           Argument(parents_).bad("one that there is not", bad_parents_, "candidate"),
           Argument(3).bad("0", 0, "count is 0"), Argument(uint64_t{7}).any(), count_.argument()}))
      .tried_without_memory = false;
  add(entry("tc_space_neighbours", tc_space_neighbours,
            {handle(space_), candidate(), candidates(), capacity(), count_.argument()}))
      .tried_without_memory = false;
  add(entry("tc_space_candidate", tc_space_candidate,
            {handle(space_), candidate(), candidate_.argument()}));
  list.back().arguments[1].negative_words = "candidate";
  add(entry("tc_feature_name", tc_feature_name,
            {Argument(0).also("past the last", 1000).also("the largest", INT32_MAX)}));
  list.back().arguments[0].negative_words = "feature";

  // ---- hosts and libraries
  add(entry("tc_default_host", tc_default_host, {}));
  Argument libraries = Argument(&libraries_).optional();
  auto without = [&](const std::string& what, auto remove) {
    bad_libraries_.push_back(libraries_);
    remove(bad_libraries_.back());
    libraries.bad("no " + what, &bad_libraries_.back(), what);
  };
  without("name", [](tc_libraries& l) { l.name = nullptr; });
  without("multiply", [](tc_libraries& l) { l.multiply = nullptr; });
  without("convolve", [](tc_libraries& l) { l.convolve = nullptr; });
  without("host", [](tc_libraries& l) { l.host = nullptr; });
  without("deterministic", [](tc_libraries& l) { l.deterministic = nullptr; });
  for (int missing = 0; missing < 4; ++missing)
    without(kHostFunctions[missing], [&](tc_libraries& l) { l.host = &hosts_[missing]; });
  add(entry("tc_set_libraries", tc_set_libraries, {libraries},
            [](Bits) { tc_set_libraries(nullptr); }));

  // ---- kernels
  auto output_count = [] {
    return Argument(2)
        .bad("0", 0, "f expected 2 outputs but found 0", TC_SHAPE_ERROR)
        .bad("1", 1, "f expected 2 outputs but found 1", TC_SHAPE_ERROR)
        .bad("the largest", INT32_MAX, "f expected 2 outputs", TC_SHAPE_ERROR);
  };
  Argument target("cpu");
  target.optional().bad("a GPU for tensors of the CPU", "cuda", "target cuda", TC_SHAPE_ERROR);
  for (const char* unknown : {"", "gpu", "CPU", "cuda:", "cuda:0", "cuda:sm_", "cuda:sm_9x",
                              "cuda:sm_-90", "cuda:sm_999999999999", "\xff"})
    target.bad(unknown, unknown, "unknown target");
  add(entry("tc_compile", tc_compile,
            {handle(f_), handle(options_).optional(), target, inputs(), input_count(),
             outputs_.argument({}), output_count(), made_kernel_.argument()},
            free_kernel))
      .tried_without_memory = false;  // LLVM ends the process
  add(entry("tc_compile_trial", tc_compile_trial,
            {handle(f_), handle(options_).optional(), target, inputs(), input_count(),
             outputs_.argument({}), output_count(), made_kernel_.argument()},
            free_kernel))
      .tried_without_memory = false;
  add(entry("tc_set_code_folder", tc_set_code_folder,
            {Argument(code_folder_.c_str())
                 .optional()
                 .bad("a file", garbage_.c_str(), garbage_, TC_CACHE_ERROR)
                 .bad("no place for it", "/dev/null/code", "/dev/null/code", TC_CACHE_ERROR),
             Argument(int64_t{1} << 20)},
            [](Bits) { tc_set_code_folder(nullptr, 0); }))
      .tried_without_memory = false;
  add(entry("tc_kernel_free", tc_kernel_free, {Argument(nullptr).optional()}));
  auto host = [&] {
    Argument made = Argument(tc_default_host()).optional();
    for (int missing = 0; missing < 4; ++missing)
      made.bad(std::string("no ") + kHostFunctions[missing], &hosts_[missing],
               kHostFunctions[missing]);
    return made;
  };
  Argument kernel(kernel_);
  if (gpu_kernel_) kernel.bad("one of a GPU that is not here", gpu_kernel_, "cannot be launched");
  add(entry("tc_kernel_run", tc_kernel_run,
            {kernel, host(), inputs_.argument({0, 1, 2, 3}), input_count(),
             outputs_.argument({0, 1}), output_count()}));
  for (Tensor* tensor : {&a_, &b_, &n_, &alpha_, &c_out_, &d_out_})
    pointers_.push_back(tensor->plain.data);
  Argument pointers(pointers_.data());
  for (size_t place : {0, 1, 3, 4, 5}) {  // n is part of the kernel
    bad_pointers_.push_back(pointers_);
    bad_pointers_.back()[place] = nullptr;
    const std::string name = "pointers[" + std::to_string(place) + "]";
    pointers.bad(name + " that is NULL", bad_pointers_.back().data(), name);
  }
  add(entry("tc_kernel_launch", tc_kernel_launch, {kernel, host(), pointers}));
  add(entry("tc_kernel_launch_unchecked", tc_kernel_launch_unchecked, {kernel, host(), pointers}));
  add(entry("tc_kernel_time", tc_kernel_time, {kernel, host(), pointers, seconds_.argument()}));
  auto what = [](const char* good, const char* words) {
    return Argument(good).bad("an unknown one", "color", words).bad("nothing", "", words);
  };
  add(entry("tc_kernel_text", tc_kernel_text,
            {handle(kernel_), what("explain", "has no text"), text_.argument()}));
  add(entry("tc_kernel_number", tc_kernel_number,
            {handle(kernel_), what("compile_microseconds", "has no number"), number_.argument()}));
  Entry& binary = add(entry(
      "tc_kernel_binary", tc_kernel_binary,
      {handle(gpu_kernel_ ? gpu_kernel_ : kernel_), binary_.argument(), binary_size_.argument()}));
  if (gpu_kernel_)
    binary.arguments[0].bad("one of the CPU", kernel_, "only kernels for CUDA");
  else
    binary.good_status = TC_USAGE_ERROR;
  return list;
}

}  // namespace c_interface
