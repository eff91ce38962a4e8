#include "libmeg/core/version.h"

namespace meg {

std::string_view version() { return MEG_VERSION; }

}  // namespace meg
