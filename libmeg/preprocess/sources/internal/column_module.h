#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "libmeg/base/result.h"
#include "libmeg/preprocess/sources/internal/column_reader.h"

namespace meg::preprocess {

/// The interface of the module that is linked with Arrow (arrow/). It is opened only when an input
/// needs it, because Arrow's libraries take longer to load than the rest of a program's start.
struct ColumnModule {
  std::string_view version;  ///< meg::version() of its build
  decltype(&ColumnReader::open) open;
  decltype(&count_groups) count;
};

/// Lies beside the libraries of an installed libmeg; found through the run path of the program.
inline constexpr char kColumnModuleFile[] = "libmeg_arrow_module.so";

/// The module's one symbol, a ColumnModule.
inline constexpr char kColumnModuleSymbol[] = "meg_column_module";

}  // namespace meg::preprocess
