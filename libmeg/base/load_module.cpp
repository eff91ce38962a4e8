#include "libmeg/base/load_module.h"

#include <dlfcn.h>

#include "libmeg/base/version.h"

namespace meg {

Result<const void*> open_module(const char* file, const char* symbol, std::string_view remedy) {
  void* const library = ::dlopen(file, RTLD_NOW | RTLD_LOCAL);
  const void* const found = library == nullptr ? nullptr : ::dlsym(library, symbol);
  if (found != nullptr) return found;
  const char* const reason = ::dlerror();
  return make_error(StatusCode::kUnsupported, "expected {}, which reads it ({}), found {}", file,
                    remedy, reason == nullptr ? "none" : reason);
}

Status check_module_version(std::string_view file, std::string_view found) {
  if (found == version()) return Status();
  return make_error(StatusCode::kUnsupported, "expected {} of libmeg {}, found libmeg {}'s", file,
                    version(), found);
}

}  // namespace meg
