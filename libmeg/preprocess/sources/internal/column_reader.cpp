#include "libmeg/preprocess/sources/internal/column_reader.h"

#include <dlfcn.h>

#include "libmeg/base/version.h"
#include "libmeg/preprocess/sources/internal/column_module.h"

namespace meg::preprocess {
namespace {

Result<const ColumnModule*> load_module() {
  void* const library = ::dlopen(kColumnModuleFile, RTLD_NOW | RTLD_LOCAL);
  void* const symbol = library == nullptr ? nullptr : ::dlsym(library, kColumnModuleSymbol);
  if (symbol == nullptr) {
    const char* const reason = ::dlerror();
    return make_error(StatusCode::kUnsupported,
                      "expected {}, which reads it (built where scripts/setup.sh has installed "
                      "pyarrow), found {}",
                      kColumnModuleFile, reason == nullptr ? "none" : reason);
  }
  const auto* const module = static_cast<const ColumnModule*>(symbol);
  if (module->version == version()) return module;
  return make_error(StatusCode::kUnsupported, "expected {} of libmeg {}, found libmeg {}'s",
                    kColumnModuleFile, version(), module->version);
}

/// The module for this file; opened once in a process, and then never closed.
Result<const ColumnModule*> module_for(const io::FileDescriptor& file, ColumnFormat format) {
  if (!is_column_format_read(format)) {
    return make_error(StatusCode::kUnsupported, "{}: {} files are not supported", file.path(),
                      column_format_name(format));
  }
  static const Result<const ColumnModule*> module = load_module();
  if (module.has_value()) return *module;
  return module.error().with_prefix(
      fmt::format("{}: {} file", file.path(), column_format_name(format)));
}

}  // namespace

Result<std::unique_ptr<ColumnReader>> ColumnReader::open(const io::FileDescriptor& file,
                                                         ColumnFormat format,
                                                         const std::vector<std::string>& keys,
                                                         size_t chunk_bytes) {
  MEG_ASSIGN_OR_RETURN(const ColumnModule* const module, module_for(file, format));
  return module->open(file, format, keys, chunk_bytes);
}

Result<int64_t> count_groups(const io::FileDescriptor& file, ColumnFormat format) {
  MEG_ASSIGN_OR_RETURN(const ColumnModule* const module, module_for(file, format));
  return module->count(file, format);
}

}  // namespace meg::preprocess
