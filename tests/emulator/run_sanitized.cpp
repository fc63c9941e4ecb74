// The end of a program that runs one launch: grid, block, shared bytes, order and seed, then a file
// for each argument; "array" files are passed by pointer and written back.
#include <stdio.h>
#include <stdlib.h>

#include <memory>
#include <string>
#include <vector>

int main(int argc, char** argv) {
  const auto number = [&](int i) { return unsigned(strtoul(argv[i], nullptr, 10)); };
  struct Argument {
    std::string file;
    bool array;
    size_t bytes;
    std::unique_ptr<char[]> memory;  // of exactly this size, so that red zones begin at its end
    void* pointer;
  };
  std::vector<Argument> arguments(argc - 10);
  std::vector<void*> table;
  for (int i = 10; i < argc; ++i) {
    Argument& argument = arguments[i - 10];
    argument.file = argv[i];
    argument.array = argument.file.find("/array") != std::string::npos;
    FILE* file = fopen(argv[i], "rb");
    fseek(file, 0, SEEK_END);
    argument.bytes = size_t(ftell(file));
    rewind(file);
    argument.memory.reset(new char[argument.bytes]);
    if (fread(argument.memory.get(), 1, argument.bytes, file) != argument.bytes) return 2;
    fclose(file);
    argument.pointer = argument.memory.get();
    table.push_back(argument.array ? static_cast<void*>(&argument.pointer) : argument.pointer);
  }
  const emulator::Launch launch = {{number(1), number(2), number(3)},
                                   {number(4), number(5), number(6)},
                                   table.data(),
                                   nullptr,
                                   0,
                                   number(7),
                                   int(number(8)),
                                   number(9),
                                   nullptr};
  if (const char* failure = EMULATED_KERNEL(&launch)) {
    fprintf(stderr, "%s\n", failure);
    return 1;
  }
  for (const Argument& argument : arguments) {
    if (!argument.array) continue;
    FILE* file = fopen(argument.file.c_str(), "wb");
    fwrite(argument.memory.get(), 1, argument.bytes, file);
    fclose(file);
  }
  return 0;
}
