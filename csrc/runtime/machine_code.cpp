#include "runtime/machine_code.h"

#include <elf.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <new>
#include <vector>

#include "base/error.h"

namespace tc::runtime {
namespace {

#if defined(__x86_64__)
constexpr int kMachine = EM_X86_64;
#elif defined(__aarch64__)
constexpr int kMachine = EM_AARCH64;
#else
constexpr int kMachine = EM_NONE;
#endif

constexpr size_t kStubBytes = 16, kSlotBytes = 8;

size_t align(size_t value, size_t to) { return to > 1 ? (value + to - 1) / to * to : value; }

/// What is written where a relocation says: `place` in the mapping, `target` the symbol with the
/// addend, `slot` an entry of the table of addresses that holds the symbol without it.
struct Relocation {
  uint32_t type;
  char* place;
  uint64_t target, slot;
  int64_t addend;

  uint64_t here() const { return reinterpret_cast<uint64_t>(place); }
  template <class T>
  void write(T value) const {
    std::memcpy(place, &value, sizeof value);
  }
  /// False where the value does not fit.
  bool write_32(int64_t value) const {
    write(static_cast<int32_t>(value));
    return value == static_cast<int32_t>(value);
  }
  /// Replaces bits of an instruction: `bits` of the value from `from` on.
  void patch(uint64_t value, int bits, int from) const {
    uint32_t instruction;
    std::memcpy(&instruction, place, sizeof instruction);
    const uint32_t mask = ((uint32_t{1} << bits) - 1) << from;
    write((instruction & ~mask) | ((static_cast<uint32_t>(value) << from) & mask));
  }
  bool patch_pages(uint64_t to) const {
    const int64_t pages =
        static_cast<int64_t>((to & ~uint64_t{0xfff}) - (here() & ~uint64_t{0xfff})) >> 12;
    patch(static_cast<uint64_t>(pages), 2, 29);
    patch(static_cast<uint64_t>(pages) >> 2, 19, 5);
    return pages >= -(int64_t{1} << 20) && pages < (int64_t{1} << 20);
  }
  bool patch_branch(int bits, int from) const {
    const int64_t distance = static_cast<int64_t>(target - here());
    patch(static_cast<uint64_t>(distance >> 2), bits, from);
    return distance >> (bits + 1) == 0 || distance >> (bits + 1) == -1;
  }
};

/// False for a relocation that is not known, or whose value does not fit.
bool apply(const Relocation& r) {
#if defined(__x86_64__)
  switch (r.type) {
    case R_X86_64_NONE: return true;
    case R_X86_64_64: return r.write(r.target), true;
    case R_X86_64_PC64: return r.write(r.target - r.here()), true;
    case R_X86_64_32S: return r.write_32(static_cast<int64_t>(r.target));
    case R_X86_64_PC32:
    case R_X86_64_PLT32: return r.write_32(static_cast<int64_t>(r.target - r.here()));
    case R_X86_64_GOTPCREL:
    case R_X86_64_GOTPCRELX:
    case R_X86_64_REX_GOTPCRELX:
      return r.write_32(static_cast<int64_t>(r.slot + static_cast<uint64_t>(r.addend) - r.here()));
    default: return false;
  }
#elif defined(__aarch64__)
  switch (r.type) {
    case R_AARCH64_NONE: return true;
    case R_AARCH64_ABS64: return r.write(r.target), true;
    case R_AARCH64_PREL64: return r.write(r.target - r.here()), true;
    case R_AARCH64_PREL32: return r.write_32(static_cast<int64_t>(r.target - r.here()));
    case R_AARCH64_CALL26:
    case R_AARCH64_JUMP26: return r.patch_branch(26, 0);
    case R_AARCH64_CONDBR19: return r.patch_branch(19, 5);
    case R_AARCH64_TSTBR14: return r.patch_branch(14, 5);
    case R_AARCH64_ADR_PREL_PG_HI21:
    case R_AARCH64_ADR_PREL_PG_HI21_NC: return r.patch_pages(r.target);
    case R_AARCH64_ADD_ABS_LO12_NC:
    case R_AARCH64_LDST8_ABS_LO12_NC: return r.patch(r.target & 0xfff, 12, 10), true;
    case R_AARCH64_LDST16_ABS_LO12_NC: return r.patch((r.target & 0xfff) >> 1, 12, 10), true;
    case R_AARCH64_LDST32_ABS_LO12_NC: return r.patch((r.target & 0xfff) >> 2, 12, 10), true;
    case R_AARCH64_LDST64_ABS_LO12_NC: return r.patch((r.target & 0xfff) >> 3, 12, 10), true;
    case R_AARCH64_LDST128_ABS_LO12_NC: return r.patch((r.target & 0xfff) >> 4, 12, 10), true;
    case R_AARCH64_ADR_GOT_PAGE: return r.patch_pages(r.slot);
    case R_AARCH64_LD64_GOT_LO12_NC: return r.patch((r.slot & 0xfff) >> 3, 12, 10), true;
    default: return false;
  }
#else
  return false;
#endif
}

/// A jump to an address that may lie too far away for a call.
void write_stub(char* at, uint64_t address) {
#if defined(__x86_64__)
  const unsigned char jump[8] = {0xff, 0x25, 0x02, 0, 0, 0, 0x90, 0x90};  // jmp *2(%rip)
#else
  const uint32_t jump[2] = {0x58000050, 0xd61f0200};  // ldr x16, .+8; br x16
#endif
  static_assert(sizeof jump == 8);
  std::memcpy(at, jump, sizeof jump);
  std::memcpy(at + sizeof jump, &address, sizeof address);
}

/// The headers of an object file; offsets and sizes are those that a compiler of ours wrote.
struct Object {
  explicit Object(const std::string& file) : bytes(file.data()) {
    header = reinterpret_cast<const Elf64_Ehdr*>(bytes);
    TC_INTERNAL_CHECK(file.size() >= sizeof(Elf64_Ehdr) &&
                          std::memcmp(header->e_ident, ELFMAG, SELFMAG) == 0 &&
                          header->e_type == ET_REL && header->e_machine == kMachine,
                      "not an object file for this processor");
    sections = reinterpret_cast<const Elf64_Shdr*>(bytes + header->e_shoff);
    for (int s = 0; s < header->e_shnum; ++s) {
      const Elf64_Shdr& section = sections[s];
      if (section.sh_type != SHT_SYMTAB) continue;
      symbols = reinterpret_cast<const Elf64_Sym*>(bytes + section.sh_offset);
      symbol_count = section.sh_size / sizeof(Elf64_Sym);
      names = bytes + sections[section.sh_link].sh_offset;
    }
    section_names = bytes + sections[header->e_shstrndx].sh_offset;
  }

  /// Whether it belongs into memory: unwind tables are of no use there.
  bool is_loaded(int section) const {
    return (sections[section].sh_flags & SHF_ALLOC) &&
           std::strcmp(section_names + sections[section].sh_name, ".eh_frame") != 0;
  }
  bool is_written(int section) const { return sections[section].sh_flags & SHF_WRITE; }
  std::string name(size_t symbol) const { return names + symbols[symbol].st_name; }

  const char* bytes;
  const Elf64_Ehdr* header = nullptr;
  const Elf64_Shdr* sections = nullptr;
  const Elf64_Sym* symbols = nullptr;
  size_t symbol_count = 0;
  const char *names = nullptr, *section_names = nullptr;
};

}  // namespace

MachineCode::MachineCode(const std::string& file,
                         const std::function<void*(const std::string&)>& find) {
  const Object object(file);
  const int sections = object.header->e_shnum;
  const size_t page = static_cast<size_t>(sysconf(_SC_PAGESIZE));

  // Where everything goes: sections, stubs and the table of addresses, then what is written.
  std::vector<size_t> offset(static_cast<size_t>(sections));
  size_t end = 0;
  auto place = [&](bool written) {
    for (int s = 0; s < sections; ++s) {
      if (!object.is_loaded(s) || object.is_written(s) != written) continue;
      offset[s] = align(end, object.sections[s].sh_addralign);
      end = offset[s] + object.sections[s].sh_size;
    }
  };
  place(false);
  const size_t stubs = align(end, kStubBytes);
  const size_t slots = stubs + object.symbol_count * kStubBytes;
  const size_t fixed = align(slots + object.symbol_count * kSlotBytes, page);
  end = fixed;
  place(true);
  bytes_ = align(end, page);
  void* mapped = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapped == MAP_FAILED) throw std::bad_alloc();
  base_ = static_cast<char*>(mapped);
  try {
    for (int s = 0; s < sections; ++s)
      if (object.is_loaded(s) && object.sections[s].sh_type != SHT_NOBITS)
        std::memcpy(base_ + offset[s], object.bytes + object.sections[s].sh_offset,
                    object.sections[s].sh_size);

    std::vector<uint64_t> address(object.symbol_count);
    std::vector<bool> outside(object.symbol_count);
    for (size_t i = 1; i < object.symbol_count; ++i) {
      const Elf64_Sym& symbol = object.symbols[i];
      if (symbol.st_shndx == SHN_ABS) {
        address[i] = symbol.st_value;
      } else if (symbol.st_shndx != SHN_UNDEF) {
        address[i] = reinterpret_cast<uint64_t>(base_) + offset[symbol.st_shndx] + symbol.st_value;
        if (ELF64_ST_TYPE(symbol.st_info) == STT_FUNC)
          functions_[object.name(i)] = reinterpret_cast<void*>(address[i]);
      } else if (symbol.st_name != 0) {
        void* found = find(object.name(i));
        TC_INTERNAL_CHECK(found, "generated code calls ", object.name(i), ", which is not there");
        address[i] = reinterpret_cast<uint64_t>(found);
        outside[i] = true;
        write_stub(base_ + stubs + i * kStubBytes, address[i]);
      }
      std::memcpy(base_ + slots + i * kSlotBytes, &address[i], kSlotBytes);
    }

    for (int s = 0; s < sections; ++s) {
      const Elf64_Shdr& section = object.sections[s];
      if (section.sh_type != SHT_RELA || !object.is_loaded(static_cast<int>(section.sh_info)))
        continue;
      const auto* entries = reinterpret_cast<const Elf64_Rela*>(object.bytes + section.sh_offset);
      for (size_t k = 0; k < section.sh_size / sizeof(Elf64_Rela); ++k) {
        const size_t symbol = ELF64_R_SYM(entries[k].r_info);
        Relocation r;
        r.type = static_cast<uint32_t>(ELF64_R_TYPE(entries[k].r_info));
        r.place = base_ + offset[section.sh_info] + entries[k].r_offset;
        r.addend = entries[k].r_addend;
        r.slot = reinterpret_cast<uint64_t>(base_ + slots + symbol * kSlotBytes);
        r.target = outside[symbol] ? reinterpret_cast<uint64_t>(base_ + stubs + symbol * kStubBytes)
                                   : address[symbol];
        r.target += static_cast<uint64_t>(r.addend);
        TC_INTERNAL_CHECK(apply(r), "relocation ", r.type, " of ", object.name(symbol),
                          " in generated code");
      }
    }
    if (mprotect(base_, fixed, PROT_READ | PROT_EXEC) != 0)
      throw CompilationError(
          "memory for generated code cannot be made executable: ", std::strerror(errno),
          "; the system's policy has to allow it for this process");
#if defined(__aarch64__)
    __builtin___clear_cache(base_, base_ + fixed);
#endif
  } catch (...) {
    munmap(base_, bytes_);
    throw;
  }
}

MachineCode::~MachineCode() { munmap(base_, bytes_); }

void* MachineCode::function(const std::string& name) const {
  auto found = functions_.find(name);
  TC_INTERNAL_CHECK(found != functions_.end(), "generated code has no function ", name);
  return found->second;
}

}  // namespace tc::runtime
