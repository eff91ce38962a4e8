#include "tools/common/build_info.h"

#include "meg_commit.h"

namespace meg::tools {

std::string_view build_info() { return "commit " MEG_COMMIT ", " MEG_LIBTORCH ", " MEG_CUDA; }

}  // namespace meg::tools
