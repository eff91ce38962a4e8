#include "libmeg/base/version.h"

namespace meg {

std::string_view version() { return MEG_VERSION; }

}  // namespace meg
