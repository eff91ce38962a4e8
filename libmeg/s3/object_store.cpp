#include "libmeg/s3/object_store.h"

#include "libmeg/base/load_module.h"
#include "libmeg/s3/internal/store_module.h"

namespace meg::s3 {
namespace {

Result<std::unique_ptr<ObjectStore>> open_store() {
  MEG_ASSIGN_OR_RETURN(const StoreModule* const module,
                       load_module<StoreModule>(kStoreModuleFile, kStoreModuleSymbol,
                                                "it is built if scripts/setup.sh has installed "
                                                "libcurl4-openssl-dev and libpugixml-dev"));
  return module->open();
}

}  // namespace

bool is_address(std::string_view path) { return path.starts_with("s3://"); }

Result<const ObjectStore*> object_store() {
  // Open it once a process: the module, the settings and the open connections are the same for all.
  static const Result<std::unique_ptr<ObjectStore>> store = open_store();
  if (!store.has_value()) return store.error();
  return store->get();
}

}  // namespace meg::s3
