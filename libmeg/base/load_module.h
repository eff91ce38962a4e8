#pragma once

#include <string_view>

#include "libmeg/base/result.h"

namespace meg {

/// Opens a module of libmeg through the run path of the program and returns the address of one of
/// its symbols; kUnsupported if there is none. A module is a library linked with dependencies that
/// only some inputs need. It is never closed. remedy: what brings it, for the error.
Result<const void*> open_module(const char* file, const char* symbol, std::string_view remedy);

/// kUnsupported if the module in `file` belongs to a different version of libmeg.
Status check_module_version(std::string_view file, std::string_view found);

/// The module's table. Its `version` is the meg::version() that the module was built with, which
/// must match because both sides share C++ types.
template <class Table>
Result<const Table*> load_module(const char* file, const char* symbol, std::string_view remedy) {
  MEG_ASSIGN_OR_RETURN(const void* const found, open_module(file, symbol, remedy));
  const auto* const table = static_cast<const Table*>(found);
  MEG_RETURN_IF_ERROR(check_module_version(file, table->version));
  return table;
}

}  // namespace meg
