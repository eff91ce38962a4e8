#pragma once

#include <string_view>

#include "libmeg/base/result.h"

namespace meg {

/// Opens a module of libmeg, a library that is linked with what only some inputs need, through the
/// run path of the program, and gives the address of one of its symbols; kUnsupported where there
/// is none. It is never closed. needs: what it is built with, for the error.
Result<const void*> open_module(const char* file, const char* symbol, std::string_view needs);

/// kUnsupported where the module of `file` belongs to another libmeg.
Status check_module_version(std::string_view file, std::string_view found);

/// The module's table: its `version` is the meg::version() that the module was built with, as both
/// sides share C++ types.
template <class Table>
Result<const Table*> load_module(const char* file, const char* symbol, std::string_view needs) {
  MEG_ASSIGN_OR_RETURN(const void* const found, open_module(file, symbol, needs));
  const auto* const table = static_cast<const Table*>(found);
  MEG_RETURN_IF_ERROR(check_module_version(file, table->version));
  return table;
}

}  // namespace meg
