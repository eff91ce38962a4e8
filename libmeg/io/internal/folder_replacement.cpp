#include "libmeg/io/internal/folder_replacement.h"

#include <fcntl.h>

#include <cerrno>
#include <cstdio>

namespace meg::io {
namespace {

Status rename_error(const std::string& to) { return errno_error(errno, "cannot rename to " + to); }

Result<FolderReplacement> replace_in_two_steps(const std::string& from, const std::string& to) {
  // The older tree goes beside the staging folder, whose name is unique, so its name is too. A
  // process that dies between the two renames leaves both trees, none of them under the final name.
  const std::string older = from + ".older";
  if (::rename(to.c_str(), older.c_str()) != 0) return rename_error(older);
  if (::rename(from.c_str(), to.c_str()) == 0) return FolderReplacement{older};
  // The older folder goes back, so that a failure leaves things as they were.
  const Status failed = rename_error(to);
  ::rename(older.c_str(), to.c_str());
  return failed;
}

}  // namespace

Result<FolderReplacement> replace_folder(const std::string& from, const std::string& to,
                                         bool can_exchange) {
  // An empty folder at `to` is replaced by this as well.
  if (::rename(from.c_str(), to.c_str()) == 0) return FolderReplacement{};
  // ENOTEMPTY or EEXIST: a folder with content; ENOTDIR: a symbolic link, which changes places as
  // well. Anything else is an error.
  if (errno != ENOTEMPTY && errno != EEXIST && errno != ENOTDIR) return rename_error(to);
  if (!can_exchange) return replace_in_two_steps(from, to);
  if (::renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), RENAME_EXCHANGE) == 0) {
    return FolderReplacement{from};
  }
  // What file systems and kernels without RENAME_EXCHANGE say.
  if (errno == EINVAL || errno == ENOSYS) return replace_in_two_steps(from, to);
  return rename_error(to);
}

}  // namespace meg::io
