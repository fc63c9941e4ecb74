// What passes over a program and its layouts have in common.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "ir/accesses.h"
#include "ir/layout.h"
#include "ir/program.h"
#include "machine/cpu.h"

namespace tc::ir {

class ProgramPass {
 public:
  ProgramPass(Program& program, Layouts& layouts, const CpuMachine& machine)
      : program_(program), layouts_(layouts), machine_(machine) {}

 protected:
  std::optional<int64_t> stride(const MemoryAccess& access, const Iterator& it) const {
    return stride_along(access, layouts_.at(access.tensor), it.name);
  }

  /// Lets a statement write a new temporary (see ir::write_temporary), which is row-major.
  Expr write_temporary(Statement& statement, const std::string& name, Type type,
                       const std::vector<Iterator>& over) {
    const Expr made = ir::write_temporary(program_, statement, name, type, over);
    layouts_[statement.tensor] = row_major(program_.tensor(statement.tensor));
    return made;
  }

  /// A statement that writes a value for all points of these indices into a new temporary.
  Statement make_temporary(const std::string& name, const Expr& value,
                           const std::vector<Iterator>& over, const SourceRange& where,
                           const std::string& meaning) {
    Statement made;
    made.value = value;
    made.domain = over;
    for (Iterator& it : made.domain) it.reduction = false;
    made.where = where;
    made.meaning = meaning;
    write_temporary(made, name, value.type(), made.domain);
    return made;
  }

  Program& program_;
  Layouts& layouts_;
  const CpuMachine& machine_;
};

}  // namespace tc::ir
