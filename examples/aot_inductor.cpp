// Runs a model that was compiled ahead of time and calls operators made of texts.
//
//   aot_inductor MODEL.pt2 MODEL.tc.pb IN OUT
//
// MODEL.pt2 is what torch._inductor.aoti_compile_and_package made of a model, MODEL.tc.pb what
// tensor_comprehensions.save made of its operators; LAYERS.tc, the text that they were defined by,
// does as well. IN and OUT are files of torch.save with one tensor each.
#include <torch/csrc/inductor/aoti_package/model_package_loader.h>
#include <torch/torch.h>

#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <tc/torch.hpp>
#include <vector>

namespace {

std::vector<char> read(const char* path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw std::runtime_error(std::string("cannot read ") + path);
  return {std::istreambuf_iterator<char>(file), {}};
}

}  // namespace

int main(int argc, char** argv) try {
  if (argc != 5) {
    std::cerr << "usage: aot_inductor MODEL.pt2 MODEL.tc.pb|LAYERS.tc IN OUT\n";
    return 2;
  }
  torch::InferenceMode inference;
  if (std::filesystem::path(argv[2]).extension() == ".pb") {
    tensor_comprehensions::load_operators(argv[2]);
  } else {
    std::vector<char> text = read(argv[2]);
    tensor_comprehensions::register_operators({text.begin(), text.end()});
  }

  torch::inductor::AOTIModelPackageLoader model(argv[1]);
  std::vector<torch::Tensor> results = model.run({torch::pickle_load(read(argv[3])).toTensor()});

  std::vector<char> bytes = torch::pickle_save(results.at(0));
  std::ofstream(argv[4], std::ios::binary).write(bytes.data(), bytes.size());
  return 0;
} catch (const std::exception& error) {
  std::cerr << error.what() << "\n";
  return 1;
}
