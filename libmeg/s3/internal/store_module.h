#pragma once

#include <memory>
#include <string_view>

#include "libmeg/base/result.h"
#include "libmeg/s3/object_store.h"

namespace meg::s3 {

/// What the module gives that is linked with libcurl (module/), and that is opened only when an
/// address is met: libcurl's libraries take longer to load than the rest of a program's start.
struct StoreModule {
  std::string_view version;  ///< meg::version() of its build
  Result<std::unique_ptr<ObjectStore>> (*open)();
};

/// Beside the libraries of an installed libmeg; found through the run path of the program.
inline constexpr char kStoreModuleFile[] = "libmeg_s3.so";

/// The module's one symbol, a StoreModule.
inline constexpr char kStoreModuleSymbol[] = "meg_store_module";

}  // namespace meg::s3
