#include "libmeg/preprocess/sources/internal/column_reader.h"

#include "libmeg/base/load_module.h"
#include "libmeg/preprocess/sources/internal/column_module.h"

namespace meg::preprocess {
namespace {

/// The module for this file.
Result<const ColumnModule*> module_for(const InputFile& file, ColumnFormat format) {
  if (!is_column_format_read(format)) {
    return make_error(StatusCode::kUnsupported, "{}: {} files are not supported", file.name(),
                      column_format_name(format));
  }
  // Opened once per process, the error kept as well: a missing module does not appear while a
  // program runs.
  static const Result<const ColumnModule*> module =
      load_module<ColumnModule>(kColumnModuleFile, kColumnModuleSymbol, "pyarrow");
  if (module.has_value()) return *module;
  return module.error().with_prefix(
      fmt::format("{}: {} file", file.name(), column_format_name(format)));
}

}  // namespace

Result<std::unique_ptr<ColumnReader>> ColumnReader::open(const InputFile& file, ColumnFormat format,
                                                         const std::vector<std::string>& keys,
                                                         size_t chunk_bytes) {
  MEG_ASSIGN_OR_RETURN(const ColumnModule* const module, module_for(file, format));
  return module->open(file, format, keys, chunk_bytes);
}

Result<int64_t> count_groups(const InputFile& file, ColumnFormat format) {
  MEG_ASSIGN_OR_RETURN(const ColumnModule* const module, module_for(file, format));
  return module->count(file, format);
}

}  // namespace meg::preprocess
