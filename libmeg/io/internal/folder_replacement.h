#pragma once

#include <string>

#include "libmeg/base/result.h"

namespace meg::io {

/// What became of the folder that was there before.
struct FolderReplacement {
  std::string older;  ///< Where it is now; empty where there was none.
};

/// Renames folder `from` to `to`, both in the same folder. Where `to` exists they change places in
/// one step, and the older one is then at `from`. Filesystems without that step (NFS, for one), or
/// can_exchange = false, need two: first the older one is renamed to `<from>.older`, where it stays
/// should the process be killed right then.
Result<FolderReplacement> replace_folder(const std::string& from, const std::string& to,
                                         bool can_exchange = true);

}  // namespace meg::io
