/* Tensor Comprehensions: the C interface of libtensor_comprehensions.
 *
 * Text in, kernels out, over DLPack tensors. The library knows no framework: threads, memory and
 * streams come from the host through `tc_host`. Every function that can fail returns a tc_status;
 * the message, and for language errors the line and column, are kept for the calling thread until
 * its next failing call. Handles are opaque and reference counted where noted; strings returned as
 * `const char *` live as long as the handle they came from, unless it says otherwise beside them.
 *
 * Bad arguments: NULL, indices, counts, tensors, hosts and texts are looked at before they are
 * used, and a message names the argument, what came and what may come.
 *  - A tc_status is TC_USAGE_ERROR where this interface is used wrongly, and TC_SHAPE_ERROR where a
 *    tensor, or how many there are, does not fit the definition or the kernel.
 *  - What returns a value itself returns 0, or NULL for a pointer, and leaves its message for
 *    tc_error_message as well.
 *  - What a pointer in the arguments receives (`**module`, `*text`, `*count`, `*argument`) is NULL
 *    or 0 after a failure; of an array some elements may have been written.
 *  - Freeing NULL does nothing. Other arguments may be NULL where it says so beside them, and
 *    arrays where their count is 0.
 *
 * Nobody can look at handles that were freed, at memory that ends before its size says, or at
 * counts beyond their arrays.
 *
 * No C++ exception leaves the library: without memory the status is TC_USAGE_ERROR, "out of
 * memory". Where even that much is missing that Halide and LLVM cannot come to an end, the thread
 * that they run in stops where it is, with what it holds, and the status is the same.
 *
 * Threads: all functions may be called from many threads at once, with the same handles too where
 * these are const in the declaration. What changes a handle wants it alone.
 */
#ifndef TC_TC_H_
#define TC_TC_H_

#include <stddef.h>
#include <stdint.h>

#if defined(TC_BUILDING_CORE)
#define TC_API __attribute__((visibility("default")))
#else
#define TC_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* ---- DLPack. If DLPack's own header was included first, its types are used; the layout of
 * DLTensor has not changed since version 0.2. */
#ifndef DLPACK_DLPACK_H_
typedef enum { kDLCPU = 1, kDLCUDA = 2 } DLDeviceType;
typedef struct {
  int32_t device_type; /* DLDeviceType */
  int32_t device_id;
} DLDevice;
typedef enum { kDLInt = 0, kDLUInt = 1, kDLFloat = 2, kDLBfloat = 4, kDLBool = 6 } DLDataTypeCode;
typedef struct {
  uint8_t code;
  uint8_t bits;
  uint16_t lanes;
} DLDataType;
typedef struct {
  void* data;
  DLDevice device;
  int32_t ndim;
  DLDataType dtype;
  int64_t* shape;
  int64_t* strides; /* in elements; NULL means row-major */
  uint64_t byte_offset;
} DLTensor;
#endif

/* ---- errors */
typedef enum {
  TC_OK = 0,
  TC_LANGUAGE_ERROR = 1,    /* the text: syntax, names, types, ranges */
  TC_SHAPE_ERROR = 2,       /* an argument does not fit the definition */
  TC_COMPILATION_ERROR = 3, /* a correct text that cannot be compiled as asked */
  TC_CACHE_ERROR = 4,       /* a file of options or kernels */
  TC_USAGE_ERROR = 5,       /* this interface used wrongly */
  TC_INTERNAL_ERROR = 6,    /* a bug of the library */
  TC_INTERRUPTED = 7        /* the host asked to stop (tc_set_interrupt) */
} tc_status;

/* The last failure of the calling thread. Line and column are 1-based, 0 when unknown. */
TC_API const char* tc_error_message(void);
TC_API int tc_error_line(void);
TC_API int tc_error_column(void);

TC_API const char* tc_version(void);
/* The machine that decisions are made for: a line for each fact with its name, value, unit, source
 * and meaning, between tabs. With `measure`, what was measured stands behind them where there is a
 * way to, which takes some seconds. The string lives until the thread's next call of this
 * function. */
TC_API tc_status tc_machine_facts(int32_t measure, const char** facts);
/* Takes so many cycles of the clock at which work runs, rounded down to 16: times beside it are
 * cycles. */
TC_API void tc_spend_cycles(int64_t cycles);
/* What takes time (parsing, compiling, deriving) is done on threads of the library. The function is
 * called every 50 ms by the thread that waits; where it does not return 0, the call ends with
 * TC_INTERRUPTED at once, and the work as soon as it can. NULL: never. */
TC_API void tc_set_interrupt(int (*interrupt)(void));
/* Ends what the library's threads do, and starts nothing more: compiling is an error from now on.
 * Happens at exit; a host that ends in an order of its own calls it first. */
TC_API void tc_shutdown(void);
/* Receives log lines instead of stderr, NULL: stderr again. Topics are chosen by the environment
 * variable TC_LOGS. What that asks for and does not exist is told here, under the topic TC_LOGS. */
TC_API void tc_set_log_sink(void (*sink)(const char* topic, const char* message));
/* Switches a topic on or off, whatever TC_LOGS says. */
TC_API tc_status tc_set_log_topic(const char* topic, int32_t on);

/* ---- text: a parsed and checked source of one or more definitions */
typedef struct tc_module tc_module;
typedef struct tc_definition tc_definition; /* lives as long as its module */

typedef struct {
  const char* name;
  DLDataType dtype;
  int32_t ndim;
  int32_t is_scalar;   /* `float alpha` in the signature: pass a 0-d CPU tensor */
  int32_t specialized; /* a scalar whose value is part of the kernel's identity */
  int32_t accumulates; /* an output whose initial contents are read */
  int32_t read;        /* an input whose elements are read; of others only the sizes count */
  int32_t follows;     /* an output: the input whose memory format suits it; -1 for none */
} tc_argument;

TC_API tc_status tc_module_parse(const char* text, tc_module** module);
TC_API void tc_module_free(tc_module* module);
TC_API int32_t tc_module_size(const tc_module* module);
/* NULL where there is none. */
TC_API const tc_definition* tc_module_definition(const tc_module* module, int32_t index);
/* By name; a UsageError that lists the definitions when there is none. */
TC_API tc_status tc_module_find(const tc_module* module, const char* name,
                                const tc_definition** definition);
/* Legal but suspect places, as messages with carets. */
TC_API int32_t tc_module_warning_count(const tc_module* module);
TC_API const char* tc_module_warning(const tc_module* module, int32_t index);

TC_API const char* tc_definition_name(const tc_definition* definition);
/* Canonical text of this definition alone: parses to the same tree. */
TC_API const char* tc_definition_text(const tc_definition* definition);
/* The same with every name replaced: equal for texts that differ in names only. */
TC_API const char* tc_definition_key(const tc_definition* definition);
TC_API int32_t tc_definition_input_count(const tc_definition* definition);
TC_API int32_t tc_definition_output_count(const tc_definition* definition);
TC_API tc_status tc_definition_input(const tc_definition* definition, int32_t index,
                                     tc_argument* argument);
TC_API tc_status tc_definition_output(const tc_definition* definition, int32_t index,
                                      tc_argument* argument);
/* The size name or constant that an input declares for a dimension: "M", "16". The string lives
 * until the thread's next call of this function. */
TC_API tc_status tc_definition_input_dimension(const tc_definition* definition, int32_t index,
                                               int32_t dimension, const char** text);
/* Checks inputs (count, rank, dtype, sizes, strides, device) and writes the sizes of every output:
 * ndim of output 0, then of output 1, ... `data` is only read for scalars. Reads that would leave
 * their tensor for these sizes are a TC_SHAPE_ERROR. */
TC_API tc_status tc_infer_sizes(const tc_definition* definition, const DLTensor* const* inputs,
                                int32_t input_count, int64_t* sizes, int32_t size_count);
/* The size of one output dimension as an expression in Python's syntax over the size names: uses
 * + - * // % < <= == != & | min max select(condition, a, b) and integers. `inputs` gives the values
 * of specialised scalars: nothing else of it is looked at, so that others may be NULL or left out
 * behind the last of them. The string lives until the thread's next call of this function. */
TC_API tc_status tc_output_size_expression(const tc_definition* definition,
                                           const DLTensor* const* inputs, int32_t input_count,
                                           int32_t output, int32_t dimension, const char** text);
/* What must hold of sizes that only a call can compare, as that a result has the size it is
 * declared with: two expressions as above, and what to say where they differ. `index` counts
 * conditions from 0; past the last all three are NULL. `inputs` as above. The strings live until
 * the thread's next call of this function. */
TC_API tc_status tc_size_condition(const tc_definition* definition, const DLTensor* const* inputs,
                                   int32_t input_count, int32_t index, const char** found,
                                   const char** wanted, const char** message);

/* The text of a definition NAME_grad, the derivative. Its parameters are all inputs, then those of
 * the outputs whose values it is made of, under their names, then d_OUTPUT for each output k with
 * given[k]; it returns d_INPUT for each floating-point tensor k with wanted[k] that these depend
 * on. What has no dimensions is passed as a tensor of one element. An empty text where no input is
 * reached. `inputs` as in tc_output_size_expression. A TC_LANGUAGE_ERROR names what has no
 * derivative. The string lives until the thread's next call of this function. */
TC_API tc_status tc_definition_gradient(const tc_definition* definition,
                                        const DLTensor* const* inputs, int32_t input_count,
                                        const int32_t* wanted, const int32_t* given,
                                        const char** text);

/* The text of the same definition with more outputs behind its own: temporaries that the derivative
 * of all outputs by all inputs would compute again, and that cost more to compute than to keep. An
 * empty text where there are none. `inputs` and errors are those of tc_definition_gradient. The
 * string lives until the thread's next call of this function. */
TC_API tc_status tc_definition_keeping(const tc_definition* definition,
                                       const DLTensor* const* inputs, int32_t input_count,
                                       const char** text);

/* The text of a definition NAME_batch that computes this one for every example of a batch: each
 * input k with batched[k], and every result that depends on one, has one more dimension in front. A
 * TC_USAGE_ERROR where an input is a scalar, or the definition adds to what its caller passes. The
 * string lives until the thread's next call of this function. */
TC_API tc_status tc_definition_batch(const tc_definition* definition, const int32_t* batched,
                                     const char** text);

/* The text of a definition NAME_tensors that takes each scalar k with tensors[k] as a tensor of one
 * element: in a graph its value need not be known, it may be one of a batch, and it may receive a
 * gradient. A TC_USAGE_ERROR where such an input is no scalar, or sizes depend on its value. The
 * string lives until the thread's next call of this function. */
TC_API tc_status tc_definition_tensors(const tc_definition* definition, const int32_t* tensors,
                                       const char** text);

/* What a process holds of a tensor that several share. */
typedef struct {
  int32_t dimension;     /* along which it holds a part; -1 where it holds all */
  const char* reduction; /* over the processes, which makes the output: "sum", "product", "min" or
                          * "max"; NULL where there is nothing to reduce */
} tc_placement;

/* The ways to share the work of a definition between processes of which none needs anything of the
 * others. Each way is one placement for every input, then one for every output; the sizes along all
 * dimensions that it splits must be equal. Writes at most `capacity` placements, and how many there
 * are. */
TC_API tc_status tc_definition_shardings(const tc_definition* definition, tc_placement* placements,
                                         int32_t capacity, int32_t* count);

/* A dimension of an input. */
typedef struct {
  int32_t input;
  int32_t dimension;
} tc_input_dimension;

/* The text of a definition NAME_sized that has an int32 scalar behind its inputs for every size
 * from which this one computes values, as N of sum / N. Given the sizes of whole tensors, it does
 * to their parts what this one does to the whole: more of its work can be shared. Writes at most
 * `capacity` dimensions, whose sizes these scalars are, and how many there are; where there are
 * none the text is empty. The string lives until the thread's next call of this function. */
TC_API tc_status tc_definition_sized(const tc_definition* definition, const char** text,
                                     tc_input_dimension* sizes, int32_t capacity, int32_t* count);

/* The text in its usual layout, with all of its comments: four blanks, one statement a line, lines
 * of at most 100 columns where that can be. Only the grammar is checked. The string lives until the
 * thread's next call of this function. */
TC_API tc_status tc_format(const char* text, const char** formatted);

/* ---- extended einsum: an equation with its operands, and the text that computes it */
typedef struct tc_einsum tc_einsum;

/* Of operands only dtype and sizes are read; tables are integers in memory of the CPU. A
 * TC_LANGUAGE_ERROR has its line and column in the equation; a TC_SHAPE_ERROR says which operand,
 * label or element of a table does not fit. */
TC_API tc_status tc_einsum_create(const char* equation, const DLTensor* const* operands,
                                  int32_t operand_count, const char* const* table_names,
                                  const DLTensor* const* tables, int32_t table_count,
                                  tc_einsum** einsum);
TC_API void tc_einsum_free(tc_einsum* einsum);
/* Labels are numbered from 0; dimensions of ellipses are labels too. Numbers that are none, here
 * and below, give 0. */
TC_API int32_t tc_einsum_label_count(const tc_einsum* einsum);
/* How many values a label takes. */
TC_API int64_t tc_einsum_extent(const tc_einsum* einsum, int32_t label);
/* Whether an operand has a label; the output is the operand after the last. */
TC_API int32_t tc_einsum_has_label(const tc_einsum* einsum, int32_t operand, int32_t label);
/* The text of one definition, "einsum", of the operands, then the tables as int32, then int32
 * scalars. Operands without dimensions are declared, and passed, with one of size 1. `path` is a
 * contraction order: for each step a count and as many operands, by their places in what is left,
 * whose product goes to the end. `count` 0: all in one statement. The string lives as long as the
 * handle, until the next call. */
TC_API tc_status tc_einsum_text(tc_einsum* einsum, const int32_t* path, int32_t count,
                                const char** text);
/* The tables in the order of the text's parameters; NULL after the last, which is no failure. */
TC_API const char* tc_einsum_table(const tc_einsum* einsum, int32_t index);
/* The values for the scalars of the last text. */
TC_API int32_t tc_einsum_scalar_count(const tc_einsum* einsum);
TC_API int64_t tc_einsum_scalar(const tc_einsum* einsum, int32_t index);

/* ---- options: plain data that decide the schedule fully */
typedef struct tc_options tc_options;
TC_API tc_status tc_options_create(const char* preset, tc_options** options);
/* From the text that tc_options_text gives. */
TC_API tc_status tc_options_parse(const char* text, tc_options** options);
/* NULL without memory. */
TC_API tc_options* tc_options_copy(const tc_options* options);
TC_API void tc_options_free(tc_options* options);
/* Sets one field by the name of its Python method: integers ("tile", {32, 32}) or a word
 * ("scheduleFusionStrategy", "Max"). Unknown names and bad values are UsageErrors. */
TC_API tc_status tc_options_set(tc_options* options, const char* name, const int64_t* values,
                                int32_t count);
TC_API tc_status tc_options_set_word(tc_options* options, const char* name, const char* word);
/* The Python expression that rebuilds these options. The string lives until they are set or freed.
 */
TC_API const char* tc_options_text(const tc_options* options);
TC_API int tc_options_equal(const tc_options* a, const tc_options* b);

/* ---- stores: texts with their options, saved next to a model that calls their operators */
typedef struct tc_store tc_store;
typedef struct {
  const char* ns;     /* the namespace of the operators */
  const char* source; /* the whole text */
  int32_t by_user;    /* 0: the compiler wrote it, as a derivative, and it has no plain name */
  int32_t definition_count; /* in the order of the text */
} tc_stored_text;
typedef struct {
  const char* name;
  const char* operator_name; /* what graphs call it by, without the namespace */
  const char* key;           /* as tc_definition_key */
  const char* options;       /* as tc_options_text */
  int32_t derived;           /* saved as a function whose derivative the compiler finds */
  const char* backward;      /* NAMESPACE::OPERATOR_NAME of a derivative of the user's; or NULL */
} tc_stored_definition;

/* One that holds nothing, to be filled and saved. */
TC_API tc_status tc_store_create(tc_store** store);
/* What a file holds. A TC_CACHE_ERROR where there is none, it is damaged, or a newer version wrote
 * it. With `may_be_missing`, no file and an empty one hold nothing. Texts are not parsed here. */
TC_API tc_status tc_store_read(const char* path, int32_t may_be_missing, tc_store** store);
TC_API void tc_store_free(tc_store* store);
/* How many texts. Their strings, and those of definitions, live until the store is added to,
 * changed or freed. */
TC_API int32_t tc_store_size(const tc_store* store);
TC_API tc_status tc_store_text(const tc_store* store, int32_t index, tc_stored_text* text);
TC_API tc_status tc_store_definition(const tc_store* store, int32_t text, int32_t index,
                                     tc_stored_definition* definition);
/* The definitions of a text. A TC_CACHE_ERROR where this version refuses it: with the file, the
 * names of the definitions and what is wrong. */
TC_API tc_status tc_store_parse(const tc_store* store, int32_t index, tc_module** module);
/* Adds a text as the last one. There are options, and a name that graphs hold, for each of its
 * `count` definitions. */
TC_API tc_status tc_store_add(tc_store* store, const char* ns, const char* source, int32_t by_user,
                              const tc_options* const* options, const char* const* operator_names,
                              int32_t count);
/* Says what the derivative of a definition is: NAMESPACE::OPERATOR_NAME, or NULL for what the
 * compiler derives. */
TC_API tc_status tc_store_set_derivative(tc_store* store, int32_t text, int32_t index,
                                         const char* backward);
/* The same without saying so: a graph calls the definition with this backward, which need not be
 * its only one. */
TC_API tc_status tc_store_add_pair(tc_store* store, int32_t text, int32_t index,
                                   const char* backward);
/* The backwards that a definition was saved with, as NAMESPACE::OPERATOR_NAME; NULL past the last.
 * Graphs call a pair by both names of operators, joined by "_with_". */
TC_API const char* tc_store_pair(const tc_store* store, int32_t text, int32_t index, int32_t pair);
/* The options that were saved last for a definition which is equal to this one but for names, as
 * options of this one; NULL where there are none. With `by_user` only texts of users count. A
 * TC_CACHE_ERROR where they speak of loops, and this version refuses the text that has them. */
TC_API tc_status tc_store_find_options(const tc_store* store, const tc_definition* definition,
                                       int32_t by_user, tc_options** options);
/* Adds the texts to those that a file holds. What is there already is not written twice. Readers
 * see the file as it was or as it will be; a TC_CACHE_ERROR leaves it as it was. Several processes
 * may do this at once. */
TC_API tc_status tc_store_save(const tc_store* store, const char* path);

/* ---- tuned Plans in stores: what was found for a definition and its arguments. Strings and bytes
 * live as long as those of texts. */
typedef struct {
  double minimum, median; /* of single runs, in seconds */
  double spread;          /* the third quartile over the first */
  int64_t runs;
} tc_times;
typedef struct {
  const char* options; /* the whole Plan, for tc_options_parse */
  tc_times times;
  tc_times standard; /* of the Plan that the compiler chose by itself, measured in turns with it */
  const char* processor;          /* the name of the processor or device; NULL: unknown */
  const char* version;            /* of this library; NULL: this one's */
  int64_t time;                   /* seconds since 1970 */
  const struct tc_kernel* kernel; /* to be added: one of a GPU, whose code is kept; or NULL */
  int64_t code_bytes;             /* of the code that is kept */
} tc_tuned_plan;
typedef struct {
  const char* key;       /* as tc_definition_key */
  const char* text;      /* of the definition */
  const char* arguments; /* "(128, 1024), (1024, 1024) -> (128, 1024)" */
  const char* options;   /* that hold whatever was found */
  const char* target;    /* "cpu", "cuda:sm_90" */
  const char* machine;   /* facts that a machine has to share */
  int32_t threads;       /* of the host */
  int32_t plan_count;    /* the fastest first */
  int32_t trial_count;
  int64_t measured; /* Plans that searches have measured so far */
} tc_tuning;

TC_API int32_t tc_store_tuning_count(const tc_store* store);
TC_API tc_status tc_store_tuning(const tc_store* store, int32_t index, tc_tuning* tuning);
TC_API tc_status tc_store_tuned_plan(const tc_store* store, int32_t tuning, int32_t index,
                                     tc_tuned_plan* plan);
/* A Plan as options of a definition, whose names may be others than those it was found with. */
TC_API tc_status tc_store_tuned_options(const tc_store* store, int32_t tuning, int32_t index,
                                        const tc_definition* definition, tc_options** options);
/* A Plan that was measured, and its shortest run in units of that of the compiler's own; -1 where
 * it cannot run. */
TC_API tc_status tc_store_trial(const tc_store* store, int32_t tuning, int32_t index,
                                const char** options, double* ratio);
/* Such a Plan as options of a definition, whose names may be others; NULL where this version has no
 * such options. */
TC_API tc_status tc_store_trial_options(const tc_store* store, int32_t tuning, int32_t index,
                                        const tc_definition* definition, tc_options** options);
/* Adds what was found for arguments as tc_compile takes them. A file keeps of all additions those
 * that are the fastest, 16 Plans and 1,024 trials. */
TC_API tc_status tc_store_add_tuning(tc_store* store, const tc_definition* definition,
                                     const tc_options* options, const char* target,
                                     const DLTensor* const* inputs, int32_t input_count,
                                     const DLTensor* const* outputs, int32_t output_count,
                                     const tc_tuned_plan* plans, int32_t plan_count,
                                     const char* const* trials, const double* ratios,
                                     int32_t trial_count);
/* The number of what was found for arguments on this machine, -1 where nothing was; with `nearest`
 * for others whose sizes are next to them, which `exact` then is 0 for. */
TC_API tc_status tc_store_find_tuning(const tc_store* store, const tc_definition* definition,
                                      const tc_options* options, const char* target,
                                      const DLTensor* const* inputs, int32_t input_count,
                                      const DLTensor* const* outputs, int32_t output_count,
                                      int32_t nearest, int32_t* index, int32_t* exact);
/* Kernels that are compiled from now on have the Plans of this store, where definition, options,
 * arguments, machine and threads are those that a Plan was found for; for other sizes those of the
 * nearest, if the model agrees. What of them does not fit is logged, and not taken. Writes the
 * numbers of at most `capacity` tunings that changed which Plan is the fastest, and how many there
 * are: kernels of these definitions may be others now. */
TC_API tc_status tc_store_use(const tc_store* store, int32_t* changed, int32_t capacity,
                              int32_t* count);
/* Forgets what all stores have said. */
TC_API void tc_forget_tunings(void);
/* Keeps of each definition and arguments in a file the fastest Plans and trials, and with
 * `this_machine` what was found on one like this alone. */
TC_API tc_status tc_store_prune(const char* path, int32_t plans, int32_t trials,
                                int32_t this_machine);

/* ---- tuning: the Plans of a definition that may be tried for given arguments */
typedef struct tc_space tc_space;

/* Of arguments only what tc_compile reads of them. Plans have what `options` decide; NULL: the
 * defaults. `first` is the Plan that the others are near to, as the "options" text of a kernel that
 * was compiled so. Candidates are numbered in the order in which they are made, `first` is 0; equal
 * ones have one number. A space wants to be used by one thread at a time. */
TC_API tc_status tc_space_create(const tc_definition* definition, const tc_options* options,
                                 const char* target, const DLTensor* const* inputs,
                                 int32_t input_count, const DLTensor* const* outputs,
                                 int32_t output_count, const tc_options* first, tc_space** space);
TC_API void tc_space_free(tc_space* space);
/* A whole Plan, as a kernel's "options". A TC_COMPILATION_ERROR where it is none of these. */
TC_API tc_status tc_space_add(tc_space* space, const tc_options* options, int32_t* candidate);
/* The compiler's own proposals, of all forms that the statements may have, for the first
 * candidate's groups and library calls and for those near to it. Writes at most `capacity` of them,
 * and how many there are. */
TC_API tc_status tc_space_starts(tc_space* space, int32_t* candidates, int32_t capacity,
                                 int32_t* count);
/* A random one; the same seed gives the same after the same calls. */
TC_API tc_status tc_space_draw(tc_space* space, uint64_t seed, int32_t* candidate);
/* Another one with a few fields changed. */
TC_API tc_status tc_space_mutate(tc_space* space, int32_t parent, uint64_t seed,
                                 int32_t* candidate);
/* Each field from one of `count` others, by chance. */
TC_API tc_status tc_space_cross(tc_space* space, const int32_t* parents, int32_t count,
                                uint64_t seed, int32_t* candidate);
/* Those that differ from one in one field, by one step. Writes as tc_space_starts. */
TC_API tc_status tc_space_neighbours(tc_space* space, int32_t candidate, int32_t* candidates,
                                     int32_t capacity, int32_t* count);
typedef struct {
  const char* options; /* the whole Plan, for tc_options_parse */
  const char* reason; /* why it cannot be; NULL where nothing is in its way before it is compiled */
  int32_t structure; /* equal for candidates with the same groups of statements and library calls */
  const double* features; /* what models of its time are made from; NULL where there is a reason */
  int32_t feature_count;
} tc_candidate;
/* Strings and features live as long as the space, until the next candidate is made. */
TC_API tc_status tc_space_candidate(const tc_space* space, int32_t index, tc_candidate* candidate);
/* The names of features; NULL after the last. */
TC_API const char* tc_feature_name(int32_t index);

/* ---- the host: what a framework provides to running kernels. All functions are needed, but that
 * only kernels of a GPU call `stream`. No C++ exception may leave them. */
typedef struct tc_host {
  void* context;
  /* Runs task(data, begin, end) over a partition of [0, count), possibly in parallel. */
  void (*parallel_for)(void* context, int64_t count,
                       void (*task)(void* data, int64_t begin, int64_t end), void* data);
  int32_t (*thread_count)(void* context);
  void* (*allocate)(void* context, DLDevice device, size_t bytes);
  void (*release)(void* context, DLDevice device, void* pointer);
  /* The CUstream on which the caller's work for this device is queued. */
  void* (*stream)(void* context, DLDevice device);
} tc_host;
/* A host of the calling thread alone: serial, malloc, the default stream. */
TC_API const tc_host* tc_default_host(void);

/* ---- libraries: products and convolutions that a framework already has */
typedef enum {
  /* result[n, f, o] = sum over c, k of image[n, c, o * stride + k * dilation - padding] *
   * filters[f, c, k], per group of channels. */
  TC_CONVOLUTION = 0,
  /* The gradient of the above with respect to the image: `image` holds the gradient of the result
   * [n, f, o], `filters` is [f, c, k] and `result` [n, c, i]. */
  TC_CONVOLUTION_IMAGE_GRADIENT = 1,
  /* With respect to the filters: `image` is [n, c, i], `filters` holds the gradient of the result
   * [n, f, o], and `result` is [f, c, k]. */
  TC_CONVOLUTION_FILTER_GRADIENT = 2
} tc_convolution_kind;
typedef struct {
  int32_t kind;       /* tc_convolution_kind */
  int32_t dimensions; /* 1 to 3 beside batch and channels */
  int64_t stride[3], padding[3], dilation[3];
  int64_t groups;
} tc_convolution;
/* The functions of a library that the compiler may call in place of its own code, on dense or
 * strided operands in memory of the CPU. They return 0, or leave a message (`size` bytes at most,
 * terminated) and return another number; no C++ exception may leave them. */
typedef struct tc_libraries {
  const char* name;
  void* context;
  /* result[b, m, n] = sum over k of a[b, m, k] * b[b, k, n], added to the result's contents where
   * `accumulate` is not 0. */
  int (*multiply)(void* context, const DLTensor* a, const DLTensor* b, const DLTensor* result,
                  int accumulate, char* message, size_t size);
  int (*convolve)(void* context, const tc_convolution* convolution, const DLTensor* image,
                  const DLTensor* filters, const DLTensor* result, char* message, size_t size);
  const tc_host* host; /* whose threads the library uses */
  /* Whether results must not depend on what ran faster: then no call is made. */
  int (*deterministic)(void* context);
} tc_libraries;
/* Kernels compiled from now on may call these; NULL: none. The struct must live as long as the
 * process. A TC_USAGE_ERROR where something in it is NULL, but the context; then all stays as it
 * was. */
TC_API tc_status tc_set_libraries(const tc_libraries* libraries);

/* ---- kernels: one definition, compiled for sizes, strides, dtypes, options and a target */
typedef struct tc_kernel tc_kernel;

/* `target`: "cpu" (NULL too), "cuda" (the device of the inputs), or "cuda:sm_90" for a GPU that
 * need not be there. `outputs` may be NULL, and `output_count` 0, for dense row-major outputs; with
 * "cuda:sm_90" the inputs may be CPU tensors, of which only the metadata counts. `data` is read of
 * scalars that decide sizes alone. Kernels are shared: each success adds a reference, to be given
 * back by tc_kernel_free, and code is freed with the last one. `options` NULL: defaults. */
TC_API tc_status tc_compile(const tc_definition* definition, const tc_options* options,
                            const char* target, const DLTensor* const* inputs, int32_t input_count,
                            const DLTensor* const* outputs, int32_t output_count,
                            tc_kernel** kernel);
/* The same for a kernel that is timed and thrown away, as those of a search. Groups of statements
 * may be kernels of their own there, and are found again where the next candidate has them too. */
TC_API tc_status tc_compile_trial(const tc_definition* definition, const tc_options* options,
                                  const char* target, const DLTensor* const* inputs,
                                  int32_t input_count, const DLTensor* const* outputs,
                                  int32_t output_count, tc_kernel** kernel);
/* Compiled code for the CPU is kept in this folder from now on, and found there by later processes:
 * one of the user's own, which is made where it is missing, of at most about so many bytes. ~ is
 * the home, and a relative path one below the working directory of the call. NULL keeps none. At
 * first that of the environment variable TC_CACHE_DIR, read by the first compilation. A
 * TC_CACHE_ERROR where the folder is somebody else's, or others may write to it. */
TC_API tc_status tc_set_code_folder(const char* path, int64_t most_bytes);
TC_API void tc_kernel_free(tc_kernel* kernel);
/* Checks every argument, then runs. Outputs may not overlap inputs or each other. `host` NULL:
 * tc_default_host. */
TC_API tc_status tc_kernel_run(const tc_kernel* kernel, const tc_host* host,
                               const DLTensor* const* inputs, int32_t input_count,
                               const DLTensor* const* outputs, int32_t output_count);
/* The same for callers that matched the arguments to the kernel before: pointers of the inputs in
 * order (scalars too), then of the outputs; the offsets are already added. Checked is only that
 * what the kernel reads and writes is not NULL, and that no index that is data leaves its tensor: a
 * TC_SHAPE_ERROR, of a kernel for a GPU perhaps of a later launch. */
TC_API tc_status tc_kernel_launch(const tc_kernel* kernel, const tc_host* host,
                                  void* const* pointers);
/* The same without a look at indices either, before the loops or in them: a bad one reads or writes
 * whatever lies there. Where the loops of the kernel look, the first call compiles one without. */
TC_API tc_status tc_kernel_launch_unchecked(const tc_kernel* kernel, const tc_host* host,
                                            void* const* pointers);
/* Runs like tc_kernel_launch, waits, and gives the seconds that it took: on a GPU by the device's
 * own clock, from the first launch to the last. */
TC_API tc_status tc_kernel_time(const tc_kernel* kernel, const tc_host* host, void* const* pointers,
                                double* seconds);
/* A text about the kernel: "program", "explain", "schedule_tree", "loop_nest", "stmt", "assembly",
 * "cuda_source", "build_log", "launches", "stages", "options". The string lives as long as the
 * kernel. */
TC_API tc_status tc_kernel_text(const tc_kernel* kernel, const char* what, const char** text);
/* A number about the kernel: "compile_microseconds"; "bytes", what it takes in memory;
 * "scratch_bytes", "task_scratch_bytes" on the CPU; "registers", "spill_bytes", "shared_bytes",
 * "launches" on a GPU. */
TC_API tc_status tc_kernel_number(const tc_kernel* kernel, const char* what, int64_t* value);
/* The device binary of a CUDA kernel. */
TC_API tc_status tc_kernel_binary(const tc_kernel* kernel, const void** data, size_t* size);

#ifdef __cplusplus
}
#endif

#endif /* TC_TC_H_ */
