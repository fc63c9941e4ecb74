#include "poly/isl.h"

#include <cstdlib>

namespace tc::poly {

isl::schedule_node_band tile(const isl::schedule_node_band& band,
                             const std::vector<int64_t>& sizes) {
  isl::ctx ctx = band.ctx();
  isl::val_list values(ctx, 0);
  for (int64_t size : sizes) values = values.add(isl::val(ctx, static_cast<long>(size)));
  isl::space space = isl::manage(isl_schedule_node_band_get_space(band.get()));
  return band.tile(isl::multi_val(space, values));
}

int64_t to_integer(const isl::val& value) { return isl_val_get_num_si(value.get()); }

std::string iterator_name(size_t position) { return "i" + std::to_string(position); }

std::string tuple_text(const std::string& id, size_t iterators) {
  std::string text;
  for (size_t k = 0; k < iterators; ++k) text += (k ? ", " : "") + iterator_name(k);
  return id + "[" + text + "]";
}

std::string to_string(const isl::schedule& schedule) {
  isl_printer* printer = isl_printer_to_str(isl_schedule_get_ctx(schedule.get()));
  printer = isl_printer_set_yaml_style(printer, ISL_YAML_STYLE_BLOCK);
  printer = isl_printer_print_schedule(printer, schedule.get());
  char* raw = isl_printer_get_str(printer);
  std::string text(raw ? raw : "");
  std::free(raw);
  isl_printer_free(printer);
  return text;
}

}  // namespace tc::poly
