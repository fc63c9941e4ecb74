/* A convolution from C++: errors are exceptions, and what is owned is given back by itself.
 *
 *   package=$(python -c "import tensor_comprehensions as t; print(t.__path__[0])")
 *   c++ -std=c++17 examples/convolution.cpp -I $package/include -L $package/lib \
 *       -ltensor_comprehensions -Wl,-rpath,$package/lib -o convolution && ./convolution
 */
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <iostream>
#include <string>
#include <tc/tc.hpp>
#include <vector>

namespace tcs = tensor_comprehensions;

namespace {

const std::string kText = R"(
def convolution(float(N, C, H, W) input, float(F, C, KH, KW) weight) -> (output) {
    output(n, f, h, w) +=! input(n, c, h + kh, w + kw) * weight(f, c, kh, kw)
}
)";

constexpr int N = 2, C = 3, H = 12, W = 17, F = 8, KH = 3, KW = 3;
constexpr int HO = H - KH + 1, WO = W - KW + 1;

std::vector<float> numbers(size_t count) {
  std::vector<float> result(count);
  for (size_t i = 0; i < count; ++i) result[i] = static_cast<float>(i * 5 % 13) / 13.0f - 0.4f;
  return result;
}

double element(const std::vector<float>& input, const std::vector<float>& weight, int n, int f,
               int h, int w) {
  double sum = 0;
  for (int c = 0; c < C; ++c) {
    for (int kh = 0; kh < KH; ++kh) {
      for (int kw = 0; kw < KW; ++kw) {
        sum += static_cast<double>(input[((n * C + c) * H + h + kh) * W + w + kw]) *
               weight[((f * C + c) * KH + kh) * KW + kw];
      }
    }
  }
  return sum;
}

double largest_difference(const std::vector<float>& input, const std::vector<float>& weight,
                          const std::vector<float>& output) {
  double largest = 0;
  size_t at = 0;
  for (int n = 0; n < N; ++n) {
    for (int f = 0; f < F; ++f) {
      for (int h = 0; h < HO; ++h) {
        for (int w = 0; w < WO; ++w) {
          double expected = element(input, weight, n, f, h, w);
          largest = std::max(largest, std::abs(expected - output[at++]));
        }
      }
    }
  }
  return largest;
}

/// A text that cannot be right, and how the library says so.
bool shows_a_mistake() {
  try {
    tcs::Module("def f(float(N) A) -> (B) {\n    B(i) = A(j + AA)\n}");
  } catch (const tcs::LanguageError& error) {
    std::cout << "A mistake is found at line " << error.line() << ", column " << error.column()
              << ":\n"
              << error.what() << "\n\n";
    return error.line() == 2;
  }
  return false;
}

}  // namespace

int main() {
  try {
    std::cout << "Tensor Comprehensions " << tcs::version() << "\n\n";
    if (!shows_a_mistake()) return 1;

    tcs::Definition convolution = tcs::Module(kText)["convolution"];
    std::cout << convolution.text() << "\n";
    std::vector<float> input = numbers(N * C * H * W), weight = numbers(F * C * KH * KW);
    std::vector<tcs::Tensor> inputs = {{input, {N, C, H, W}}, {weight, {F, C, KH, KW}}};
    std::vector<int64_t> sizes = convolution.infer_sizes(inputs).front();
    if (sizes != std::vector<int64_t>{N, F, HO, WO}) return 1;
    std::vector<float> output(N * F * HO * WO);

    tcs::Kernel kernel = tcs::compile(convolution, inputs);
    kernel.run(inputs, {{output, sizes}});
    std::cout << "compiled in " << kernel.number("compile_microseconds") / 1000 << " ms\n";
    double difference = largest_difference(input, weight, output);
    std::cout << "largest difference from plain loops: " << difference << "\n";
    return difference < 1e-4 ? 0 : 1;
  } catch (const tcs::Error& error) {
    std::cerr << error.what() << "\n";
    return 1;
  }
}
