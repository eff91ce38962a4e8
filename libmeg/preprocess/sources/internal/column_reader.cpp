#include "libmeg/preprocess/sources/internal/column_reader.h"

#include <dlfcn.h>

#include "libmeg/base/load_module.h"
#include "libmeg/base/python_packages.h"
#include "libmeg/preprocess/sources/internal/column_module.h"

namespace meg::preprocess {
namespace {

Result<const ColumnModule*> open_column_module() {
  auto module = load_module<ColumnModule>(kColumnModuleFile, kColumnModuleSymbol, MEG_ARROW_REMEDY);
#ifdef MEG_PARQUET_LIBRARY
  // Where the module's run path leads to no Arrow, one that is loaded already serves it.
  for (const std::string& folder : python_package_folders("pyarrow")) {
    if (module.has_value()) break;
    const std::string library = folder + "/" MEG_PARQUET_LIBRARY;
    if (::dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL) == nullptr) continue;
    module = load_module<ColumnModule>(kColumnModuleFile, kColumnModuleSymbol, MEG_ARROW_REMEDY);
  }
#endif
  return module;
}

/// The module for this file.
Result<const ColumnModule*> module_for(const InputFile& file, ColumnFormat format) {
  if (!is_column_format_read(format)) {
    return make_error(StatusCode::kUnsupported, "{}: {} files are not supported", file.name(),
                      column_format_name(format));
  }
  // Opened once per process, the error kept as well: a missing module does not appear while a
  // program runs.
  static const Result<const ColumnModule*> module = open_column_module();
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
