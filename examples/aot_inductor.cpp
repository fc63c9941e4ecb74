// Runs a model that was compiled ahead of time and calls operators made of texts.
//
//   aot_inductor MODEL.pt2 LAYERS.tc IN OUT
//
// MODEL.pt2 is what torch._inductor.aoti_compile_and_package made of a model, LAYERS.tc the text
// that its operators were defined by. IN and OUT are files of torch.save with one tensor each.
#include <torch/csrc/inductor/aoti_package/model_package_loader.h>
#include <torch/torch.h>

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
    std::cerr << "usage: aot_inductor MODEL.pt2 LAYERS.tc IN OUT\n";
    return 2;
  }
  torch::InferenceMode inference;
  std::vector<char> text = read(argv[2]);
  tensor_comprehensions::register_operators({text.begin(), text.end()});

  torch::inductor::AOTIModelPackageLoader model(argv[1]);
  std::vector<torch::Tensor> results = model.run({torch::pickle_load(read(argv[3])).toTensor()});

  std::vector<char> bytes = torch::pickle_save(results.at(0));
  std::ofstream(argv[4], std::ios::binary).write(bytes.data(), bytes.size());
  return 0;
} catch (const std::exception& error) {
  std::cerr << error.what() << "\n";
  return 1;
}
