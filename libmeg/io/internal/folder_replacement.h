#pragma once

#include <string>

#include "libmeg/base/result.h"

namespace meg::io {

/// What became of the folder that was there before.
struct FolderReplacement {
  std::string older;  ///< Where it is now; empty where there was none.
};

/// Renames folder `from` to `to`, both in the same folder. If `to` exists, they are exchanged in
/// one step, and the older folder is then at `from`. Without that step (on NFS, for example, or
/// with can_exchange = false) two are needed: first the older folder is renamed to `<from>.older`,
/// where it stays if the process is killed at that moment.
Result<FolderReplacement> replace_folder(const std::string& from, const std::string& to,
                                         bool can_exchange = true);

}  // namespace meg::io
