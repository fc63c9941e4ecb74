#include "memory.h"

#include <dlfcn.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <memory>
#include <unordered_map>

#include "cuda_emulator.h"

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#define POISON(begin, bytes) ASAN_POISON_MEMORY_REGION(begin, bytes)
#define UNPOISON(begin, bytes) ASAN_UNPOISON_MEMORY_REGION(begin, bytes)
#else
#define POISON(begin, bytes)
#define UNPOISON(begin, bytes)
#endif

namespace emulator::memory {
namespace {

constexpr size_t kPage = 4096;
// Between arrays, so that what goes beside one is in no other. Most of it is never touched.
constexpr size_t kGuardPages = 16;
constexpr size_t kSharedPages = 256 + 64;  ///< of a block: 227 KB and guards
constexpr uint32_t kAtomic = 1u << 31;

// ---- history

/// An access: the number of its moment, and its place in the code.
struct Access {
  uint32_t moment;  ///< 0: none
  uint32_t site;    ///< offset in the library; the top bit tells atomic ones
  bool atomic() const { return site & kAtomic; }
};

/// Of many accesses that nothing orders with each other, enough to find one that is unordered with
/// a later access wherever there is one: the last, the last of another thread of its warp, of
/// another warp of its block, and of another block. What these hide is older than they are, so
/// that a barrier between them and the later access stands behind the hidden ones too.
struct Side {
  Access last, lane, warp, block;
};
/// What happened to some bytes in this launch.
struct Cell {
  Side reads, writes;
};

struct Range {
  char *begin, *end;
  unsigned shift;  ///< a cell is 1, 2 or 4 bytes
  bool shared;
  bool unwritten;  ///< starts so: what is read must have been written
  unsigned block;  ///< of shared memory
  size_t element;
  const char* name;
  uint8_t* defined;  ///< of what earlier launches wrote
  Cell* cells;
  size_t cell_count;
};

/// Zeros from the system, which costs nothing where they are not touched.
Cell* make_cells(size_t count) {
  void* memory = std::calloc(std::max<size_t>(1, count), sizeof(Cell));
  if (!memory) abort();
  return static_cast<Cell*>(memory);
}

char* arena = nullptr;
size_t arena_bytes = 0;
std::vector<uint16_t> pages;  ///< the range of every page, 0 for guards
std::vector<Range> ranges;    ///< [0] is none
std::vector<Moment> moments;
const Running* running = nullptr;
const Launch* launch_now = nullptr;
uintptr_t code_base = 0;

struct Slot {
  size_t first_page = 0, next_page = 0;
  unsigned block = 0;
  std::map<int, uint16_t> arrays;  ///< ranges of shared arrays, by number; -1 is the dynamic one
};
Slot slots[kMostBlocks];

// ---- words

std::string place(uint32_t site) {
  char text[32];
  snprintf(text, sizeof(text), "<+0x%x>", site & ~kAtomic);
  return text;
}

std::string describe_moment(uint32_t number) {
  const Moment& moment = moments[number];
  return describe(moment.block, moment.thread);
}

std::string element(const Range& range, const char* address) {
  const auto offset = address - range.begin;
  const auto size = static_cast<long>(range.element);
  const long index = offset >= 0 ? offset / size : -((-offset + size - 1) / size);
  return std::string(range.name) + "[" + std::to_string(index) + "]" +
         (range.shared ? " in shared memory" : "");
}

[[noreturn]] void report_race(const Range& range, const char* address, const Access& before,
                              const char* before_verb, const Access& now, const char* verb) {
  const Moment &a = moments[before.moment], &b = moments[now.moment];
  std::string missing;
  if (a.block != b.block) {
    missing = before.atomic() != now.atomic()
                  ? "no barrier orders blocks: both must be atomic, or the launch split"
                  : "no barrier orders blocks: an atomic update is missing, or a launch of its own";
  } else if (a.thread / kWarp == b.thread / kWarp) {
    missing = "a barrier (__syncthreads, or __syncwarp within the warp) is missing between them";
  } else {
    missing = "a barrier (__syncthreads) is missing between them";
  }
  stop("race on " + element(range, address) + ": " + describe_moment(now.moment) + " " + verb +
       "s it at " + place(now.site) + " where " + describe_moment(before.moment) + " " +
       before_verb + " it at " + place(before.site) + "; " + missing);
}

// ---- order

/// Whether lanes have met, maybe through others, between two moments of a warp.
bool have_met(const Moment& a, const Moment& b) {
  unsigned reached = 1u << a.thread % kWarp;
  for (unsigned meeting = a.meeting; meeting < b.meeting; ++meeting) {
    const unsigned lanes = (*running->meetings)[meeting];
    if (lanes & reached) reached |= lanes;
  }
  return reached >> b.thread % kWarp & 1;
}

/// Whether an access took place before what the thread that runs does now.
bool ordered(const Access& before) {
  const Moment &a = moments[before.moment], &b = moments[running->moment];
  if (a.block != b.block) return false;
  if (a.thread == b.thread || a.epoch < b.epoch) return true;
  return a.thread / kWarp == b.thread / kWarp && a.meeting < b.meeting && have_met(a, b);
}

const Access* find_unordered(const Side& side, const Access& now) {
  for (const Access* access : {&side.last, &side.lane, &side.warp, &side.block}) {
    if (!access->moment || (access->atomic() && now.atomic())) continue;
    if (!ordered(*access)) return access;
  }
  return nullptr;
}

void add(Side& side, const Access& now) {
  const Access last = side.last;
  side.last = now;
  if (!last.moment) return;
  const Moment &a = moments[last.moment], &b = moments[now.moment];
  if (a.block != b.block) {
    side.block = last;
    side.warp = side.lane = {};
  } else if (a.thread / kWarp != b.thread / kWarp) {
    side.warp = last;
    side.lane = {};
  } else if (a.thread != b.thread) {
    side.lane = last;
  } else if (last.moment == now.moment && !last.atomic()) {
    side.last = last;  // what says more
  }
}

bool is_defined(const Range& range, size_t begin, size_t end) {
  if (!range.unwritten) return true;
  return range.defined && std::all_of(range.defined + begin, range.defined + end,
                                      [](uint8_t defined) { return defined; });
}

void read(const Range& range, size_t index, const char* address, const Access& now) {
  Cell& cell = range.cells[index];
  const Access& last = cell.reads.last;
  if (last.moment == now.moment && !(last.atomic() && !now.atomic())) return;
  if (!cell.writes.last.moment) {
    const size_t begin = index << range.shift, bytes = size_t(range.end - range.begin);
    if (!is_defined(range, begin, std::min(bytes, begin + (size_t(1) << range.shift))))
      stop("read of " + element(range, address) + " by " + describe_moment(now.moment) + " at " +
           place(now.site) + ": nobody has written it" +
           (range.shared ? ", or not yet, where a barrier (__syncthreads) is missing" : ""));
  } else if (const Access* write = find_unordered(cell.writes, now)) {
    report_race(range, address, *write, "writes", now, "read");
  }
  add(cell.reads, now);
}

void write(const Range& range, size_t index, const char* address, const Access& now) {
  Cell& cell = range.cells[index];
  if (cell.writes.last.moment == now.moment && cell.writes.last.site == now.site &&
      !cell.reads.last.moment)
    return;
  if (const Access* write = find_unordered(cell.writes, now))
    report_race(range, address, *write, write->atomic() ? "updates" : "writes", now, "write");
  if (const Access* read = find_unordered(cell.reads, now))
    report_race(range, address, *read, "reads", now, now.atomic() ? "update" : "write");
  if (now.atomic()) {
    if (!cell.writes.last.atomic()) cell.writes = {};
    add(cell.writes, now);
  } else {
    cell.writes = {now, {}, {}, {}};
    cell.reads = {};
  }
}

/// Cells of single bytes, where accesses are smaller than the elements of an array.
void split_cells(Range& range) {
  const size_t bytes = size_t(range.end - range.begin);
  Cell* cells = make_cells(bytes);
  for (size_t i = 0; i < bytes; ++i) cells[i] = range.cells[i >> range.shift];
  std::free(range.cells);
  range.cells = cells;
  range.cell_count = bytes;
  range.shift = 0;
}

// ---- requests

/// What lanes of a warp ask for by one access, together where they pass it equally often.
struct Request {
  bool shared = false, atomic = false;
  struct Lane {
    unsigned number;
    uintptr_t address;
    unsigned bytes;
  };
  std::vector<Lane> lanes;
};
struct Requests {
  /// By warp and place in the code: how often every lane has passed it, and its requests.
  struct Site {
    uint32_t passed[kWarp] = {};
    std::vector<Request> requests;
  };
  std::unordered_map<uint64_t, Site> sites;
};
Requests requests[kMostBlocks];

void note_request(const Range& range, const char* address, unsigned bytes, const Access& now) {
  const unsigned thread = moments[now.moment].thread;
  auto& site = requests[running->slot].sites[uint64_t(thread / kWarp) << 32 | now.site];
  const uint32_t pass = site.passed[thread % kWarp]++;
  if (pass >= site.requests.size()) site.requests.resize(pass + 1);
  Request& request = site.requests[pass];
  request.shared = range.shared;
  request.atomic = now.atomic();
  request.lanes.push_back({thread % kWarp, reinterpret_cast<uintptr_t>(address), bytes});
}

/// Parts of 32 bytes that a request moves, and what of them it uses.
void count_sectors(const Request& request, Counts& counts) {
  constexpr uintptr_t kSector = 32;
  std::map<uintptr_t, uint32_t> used;  // bits of bytes, by sector
  for (const auto& [lane, address, bytes] : request.lanes) {
    for (uintptr_t at = address; at < address + bytes; ++at)
      used[at / kSector] |= 1u << at % kSector;
  }
  ++counts.global_requests;
  counts.sectors += used.size();
  for (const auto& sector : used) counts.used_bytes += unsigned(__builtin_popcount(sector.second));
}

/// Shared memory gives a word of 4 bytes from each of its 32 banks at a time. Wider accesses are
/// served by halves and quarters of a warp.
void count_wavefronts(const Request& request, Counts& counts) {
  constexpr unsigned kBanks = 32, kWord = 4;
  const unsigned together = kWarp * kWord / std::max(kWord, request.lanes[0].bytes);
  ++counts.shared_requests;
  for (unsigned first = 0; first < kWarp; first += together) {
    std::vector<uintptr_t> words[kBanks];
    size_t most = 0;
    for (const auto& [lane, address, bytes] : request.lanes) {
      if (lane / together != first / together) continue;
      for (uintptr_t word = address / kWord; word <= (address + bytes - 1) / kWord; ++word) {
        std::vector<uintptr_t>& bank = words[word % kBanks];
        if (std::find(bank.begin(), bank.end(), word) == bank.end()) bank.push_back(word);
        most = std::max(most, bank.size());
      }
    }
    counts.wavefronts += most;
    counts.least_wavefronts += most > 0;
  }
}

// ---- accesses

[[noreturn]] void report_outside(const char* address, unsigned bytes, const char* verb,
                                 const Access& now) {
  // The array it is nearest to.
  const Range* nearest = nullptr;
  size_t distance = 0;
  for (size_t r = 1; r < ranges.size(); ++r) {
    const Range& range = ranges[r];
    if (range.shared && range.block != moments[now.moment].block) continue;
    const size_t away = address < range.begin ? size_t(range.begin - address)
                                              : size_t(std::max<long>(0, address - range.end));
    if (!nearest || away < distance) nearest = &range, distance = away;
  }
  const size_t count = nearest ? size_t(nearest->end - nearest->begin) / nearest->element : 0;
  stop(describe_moment(now.moment) + " " + verb + "s " + std::to_string(bytes) +
       " bytes beside an array at " + place(now.site) +
       (nearest ? ", " + element(*nearest, address) + " of " + std::to_string(count) + " elements"
                : ""));
}

void access(char* address, unsigned bytes, bool writes, bool atomic, void* from) {
  if (!running) return;
  const size_t offset = size_t(address - arena);
  Access now = {running->moment,
                uint32_t(reinterpret_cast<uintptr_t>(from) - code_base) | (atomic ? kAtomic : 0)};
  const char* verb = writes ? "write" : "read";
  if (offset >= arena_bytes) {
    // Local variables, arguments, constants.
    return;
  }
  const uint16_t number = pages[offset / kPage];
  Range* range = &ranges[number];
  if (!number || address < range->begin || address + bytes > range->end)
    report_outside(address, bytes, verb, now);
  if (range->shared && range->block != moments[now.moment].block)
    stop(describe_moment(now.moment) + " " + verb + "s shared memory of another block at " +
         place(now.site));
  const size_t begin = size_t(address - range->begin), mask = (size_t(1) << range->shift) - 1;
  if ((begin | bytes) & mask) split_cells(*range);
  const size_t last = (begin + bytes - 1) >> range->shift;
  for (size_t i = begin >> range->shift; i <= last; ++i) {
    const char* at = std::max<const char*>(address, range->begin + (i << range->shift));
    writes ? write(*range, i, at, now) : read(*range, i, at, now);
  }
  if (launch_now->counts) note_request(*range, address, bytes, now);
}

/// Bytes of 0xff: NaN in every float type, -1 in the integers.
void poison(char* begin, size_t bytes) { memset(begin, 0xff, bytes); }

uint16_t add_range(size_t first_page, size_t bytes, size_t element, const char* name) {
  Range range = {};
  range.begin = arena + first_page * kPage;
  range.end = range.begin + bytes;
  range.element = std::max<size_t>(1, element);
  while (range.shift < 2 && range.element % (size_t(2) << range.shift) == 0) ++range.shift;
  range.name = name;
  range.cell_count = (bytes >> range.shift) + 1;
  range.cells = make_cells(range.cell_count);
  ranges.push_back(range);
  const auto number = static_cast<uint16_t>(ranges.size() - 1);
  for (size_t p = first_page; p < first_page + (bytes + kPage - 1) / kPage; ++p) pages[p] = number;
  UNPOISON(range.begin, bytes);
  return number;
}

size_t pages_for(size_t bytes) { return (bytes + kPage - 1) / kPage + kGuardPages; }

char* shared(int which, size_t bytes, size_t element, const char* name) {
  Slot& slot = slots[running->slot];
  auto known = slot.arrays.find(which);
  if (known == slot.arrays.end()) {
    if (slot.next_page + pages_for(bytes) > slot.first_page + kSharedPages)
      stop("more shared memory than a block has, with " + std::to_string(bytes) + " bytes for " +
           name);
    known = slot.arrays.emplace(which, add_range(slot.next_page, bytes, element, name)).first;
    slot.next_page += pages_for(bytes);
    Range& range = ranges[known->second];
    range.shared = range.unwritten = true;
    range.block = slot.block;
    poison(range.begin, bytes);
  }
  return ranges[known->second].begin;
}

}  // namespace

void begin(const Launch& launch, std::vector<char*>& pointers, const void* code) {
  launch_now = &launch;
  Dl_info info;
  code_base = dladdr(code, &info) ? reinterpret_cast<uintptr_t>(info.dli_fbase) : 0;
  size_t total = kGuardPages;
  for (size_t i = 0; launch.arrays && i < launch.argument_count; ++i)
    if (launch.arrays[i].data) total += pages_for(launch.arrays[i].bytes);
  const size_t shared_from = total;
  total += kMostBlocks * kSharedPages;
  if (total * kPage > arena_bytes) {
    if (arena) munmap(arena, arena_bytes);
    arena_bytes = total * kPage;
    void* memory = mmap(nullptr, arena_bytes, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) abort();
    arena = static_cast<char*>(memory);
  }
  POISON(arena, arena_bytes);
  pages.assign(arena_bytes / kPage, 0);
  ranges.assign(1, Range());
  moments.assign(1, Moment());
  pointers.assign(launch.argument_count, nullptr);
  size_t page = kGuardPages;
  for (size_t i = 0; launch.arrays && i < launch.argument_count; ++i) {
    const Array& array = launch.arrays[i];
    if (!array.data) continue;
    Range& range = ranges[add_range(page, array.bytes, array.element, array.name)];
    range.defined = array.defined;
    range.unwritten = array.defined != nullptr;
    memcpy(range.begin, array.data, array.bytes);
    pointers[i] = range.begin;
    page += pages_for(array.bytes);
  }
  for (unsigned s = 0; s < kMostBlocks; ++s) {
    slots[s] = Slot();
    slots[s].first_page = slots[s].next_page = shared_from + s * kSharedPages;
    requests[s].sites.clear();
  }
}

void end() {
  size_t number = 1;
  for (size_t i = 0; launch_now->arrays && i < launch_now->argument_count; ++i) {
    const Array& array = launch_now->arrays[i];
    if (!array.data) continue;
    const Range& range = ranges[number++];
    memcpy(array.data, range.begin, array.bytes);
    for (size_t b = 0; range.defined && b < array.bytes; ++b)
      if (range.cells[b >> range.shift].writes.last.moment) range.defined[b] = 1;
  }
  for (Range& range : ranges) std::free(range.cells);
  ranges.clear();
  launch_now = nullptr;
}

void begin_block(unsigned slot, unsigned block) {
  slots[slot].block = block;
  for (const auto& array : slots[slot].arrays) {
    Range& range = ranges[array.second];
    range.block = block;
    memset(range.cells, 0, range.cell_count * sizeof(Cell));
    poison(range.begin, size_t(range.end - range.begin));
  }
}

void end_block(unsigned slot) {
  if (!launch_now->counts) return;
  for (auto& [place, site] : requests[slot].sites) {
    for (const Request& request : site.requests) {
      launch_now->counts->atomics += request.atomic;
      request.shared ? count_wavefronts(request, *launch_now->counts)
                     : count_sectors(request, *launch_now->counts);
    }
  }
  requests[slot].sites.clear();
}

unsigned new_moment(const Moment& moment) {
  moments.push_back(moment);
  return static_cast<unsigned>(moments.size() - 1);
}

void set_running(const Running* now) { running = now; }

char* shared_array(int which, size_t bytes, size_t element, const char* name) {
  return shared(which, bytes, element, name);
}

char* dynamic_shared(const char* name, size_t element) {
  return shared(-1, launch_now->dynamic_shared_bytes, element, name);
}

void watch(void* address, size_t bytes, bool writes, bool atomic, void* from) {
  access(static_cast<char*>(address), static_cast<unsigned>(bytes), writes, atomic, from);
}

}  // namespace emulator::memory

// ---- what -fsanitize=thread calls

#define WATCH(bytes, writes, atomic) \
  emulator::memory::watch(address, bytes, writes, atomic, __builtin_return_address(0))
#define WATCHES(bytes)                                                             \
  void __tsan_read##bytes(void* address) { WATCH(bytes, false, false); }           \
  void __tsan_write##bytes(void* address) { WATCH(bytes, true, false); }           \
  void __tsan_unaligned_read##bytes(void* address) { WATCH(bytes, false, false); } \
  void __tsan_unaligned_write##bytes(void* address) { WATCH(bytes, true, false); } \
  /* Never torn nor left out, as the first load of a compare-and-swap loop. */     \
  void __tsan_volatile_read##bytes(void* address) {                                \
    emulator::maybe_yield();                                                       \
    WATCH(bytes, false, true);                                                     \
  }                                                                                \
  void __tsan_volatile_write##bytes(void* address) { WATCH(bytes, true, false); }

extern "C" {
WATCHES(1)
WATCHES(2)
WATCHES(4)
WATCHES(8)
WATCHES(16)
void __tsan_read_range(void* address, size_t bytes) { WATCH(bytes, false, false); }
void __tsan_write_range(void* address, size_t bytes) { WATCH(bytes, true, false); }
void __tsan_init() {}
}
