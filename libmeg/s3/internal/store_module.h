#pragma once

#include <memory>
#include <string_view>

#include "libmeg/base/result.h"
#include "libmeg/s3/object_store.h"

namespace meg::s3 {

/// The interface of the module that is linked with libcurl (module/). It is opened only when an
/// address is used, because libcurl's libraries take longer to load than the rest of a program's
/// start.
struct StoreModule {
  std::string_view version;  ///< meg::version() of its build
  Result<std::unique_ptr<ObjectStore>> (*open)();
};

/// Lies beside the libraries of an installed libmeg; found through the run path of the program.
inline constexpr char kStoreModuleFile[] = "libmeg_s3_module.so";

/// The module's one symbol, a StoreModule.
inline constexpr char kStoreModuleSymbol[] = "meg_store_module";

}  // namespace meg::s3
