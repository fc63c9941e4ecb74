// What the opaque handles of the C interface hold.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "ir/program.h"
#include "lang/lowering/definition.h"
#include "plan/options/options.h"
#include "runtime/arguments.h"
#include "runtime/kernel.h"
#include "tc/tc.h"

struct tc_definition {
  std::shared_ptr<const tc::lang::Definition> definition;
};

struct tc_module {
  std::vector<tc_definition> definitions;
  std::vector<std::string> warnings;
};

struct tc_options {
  explicit tc_options(tc::MappingOptions given)
      : options(std::move(given)), text(tc::to_string(options)) {}
  tc::MappingOptions options;
  std::string text;
};

struct tc_kernel {
  std::shared_ptr<const tc::lang::Definition> definition;
  std::shared_ptr<const tc::runtime::Kernel> kernel;
  tc::ir::Program program;  ///< specialised
  tc::runtime::Arguments arguments;
  std::vector<size_t> needed;  ///< places of arguments that a launch reads or writes
  mutable std::map<std::string, std::string> texts;  ///< kept for tc_kernel_text
};
