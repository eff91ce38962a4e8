#include "libmeg/base/status.h"

#include <cerrno>
#include <system_error>

namespace meg {

Status Status::with_prefix(std::string_view where) const {
  if (ok()) return *this;
  return Status(code_, fmt::format("{}: {}", where, message_));
}

Status errno_error(int error_number, std::string_view what) {
  StatusCode code = StatusCode::kIoError;
  switch (error_number) {
    case ENOENT:
    case ENOTDIR:
      code = StatusCode::kNotFound;
      break;
    // Codes by what a caller would do: another path, more room, or nothing that helps.
    case ENOSPC:
    case EDQUOT:
    case EFBIG:
    case ENOMEM:
      code = StatusCode::kResourceExhausted;
      break;
    default:
      break;
  }
  // Avoid strerror(), whose buffer threads share.
  return make_error(code, "{}: {}", what, std::generic_category().message(error_number));
}

}  // namespace meg
