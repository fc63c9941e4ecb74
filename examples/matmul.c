/* A matrix product from plain C: parse a text, compile it for the sizes at hand, run it, compare
 * with three loops, and give everything back.
 *
 *   package=$(python -c "import tensor_comprehensions as t; print(t.__path__[0])")
 *   cc examples/matmul.c -I $package/include -L $package/lib -ltensor_comprehensions \
 *      -Wl,-rpath,$package/lib -lm -o matmul && ./matmul
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <tc/tc.h>

static const char* const kText =
    "def matmul(float(M, K) A, float(K, N) B) -> (C) {\n"
    "    C(m, n) +=! A(m, k) * B(k, n)\n"
    "}\n";

enum { M = 37, K = 64, N = 50 };

static int failed(tc_status status, const char* step) {
  if (status == TC_OK) return 0;
  fprintf(stderr, "%s failed (code %d, line %d, column %d):\n%s\n", step, (int)status,
          tc_error_line(), tc_error_column(), tc_error_message());
  return 1;
}

/* A dense float matrix over memory that the caller keeps. */
static DLTensor matrix(float* data, int64_t sizes[2]) {
  DLTensor tensor = {0};
  tensor.data = data;
  tensor.device.device_type = kDLCPU;
  tensor.ndim = 2;
  tensor.dtype.code = kDLFloat;
  tensor.dtype.bits = 32;
  tensor.dtype.lanes = 1;
  tensor.shape = sizes;
  return tensor;
}

static void fill(float* data, int count) {
  for (int i = 0; i < count; ++i) data[i] = (float)(i * 7 % 11) / 11.0f - 0.5f;
}

static double largest_difference(const float* a, const float* b, const float* c) {
  double largest = 0;
  for (int m = 0; m < M; ++m) {
    for (int n = 0; n < N; ++n) {
      double sum = 0;
      for (int k = 0; k < K; ++k) sum += (double)a[m * K + k] * b[k * N + n];
      largest = fmax(largest, fabs(sum - c[m * N + n]));
    }
  }
  return largest;
}

int main(void) {
  int result = EXIT_FAILURE;
  tc_module* module = NULL;
  tc_kernel* kernel = NULL;
  const tc_definition* definition = NULL;
  const char* loops = NULL;
  int64_t a_sizes[2] = {M, K}, b_sizes[2] = {K, N}, c_sizes[2];
  float* a = malloc(sizeof(float) * M * K);
  float* b = malloc(sizeof(float) * K * N);
  float* c = calloc(M * N, sizeof(float));
  if (!a || !b || !c) goto done;
  fill(a, M * K);
  fill(b, K * N);

  printf("Tensor Comprehensions %s\n%s", tc_version(), kText);
  if (failed(tc_module_parse(kText, &module), "parsing")) goto done;
  if (failed(tc_module_find(module, "matmul", &definition), "looking up matmul")) goto done;

  DLTensor A = matrix(a, a_sizes), B = matrix(b, b_sizes), C = matrix(c, c_sizes);
  const DLTensor* inputs[2] = {&A, &B};
  const DLTensor* outputs[1] = {&C};
  if (failed(tc_infer_sizes(definition, inputs, 2, c_sizes, 2), "inferring sizes")) goto done;
  printf("C has %d x %d elements\n", (int)c_sizes[0], (int)c_sizes[1]);
  if (c_sizes[0] != M || c_sizes[1] != N) goto done;

  if (failed(tc_compile(definition, NULL, "cpu", inputs, 2, outputs, 1, &kernel), "compiling"))
    goto done;
  if (failed(tc_kernel_text(kernel, "loop_nest", &loops), "printing the loops")) goto done;
  printf("\nThe loops:\n%s\n", loops);
  if (failed(tc_kernel_run(kernel, tc_default_host(), inputs, 2, outputs, 1), "running")) goto done;

  double difference = largest_difference(a, b, c);
  printf("largest difference from three loops: %.2g\n", difference);
  if (difference < 1e-4) result = EXIT_SUCCESS;

done:
  tc_kernel_free(kernel);
  tc_module_free(module);
  free(a);
  free(b);
  free(c);
  return result;
}
