#include "libmeg/base/status.h"

#include <cerrno>
#include <system_error>

namespace meg {

std::string_view status_code_name(StatusCode code) {
  switch (code) {
    case StatusCode::kOk:
      return "ok";
    case StatusCode::kInvalidArgument:
      return "invalid_argument";
    case StatusCode::kNotFound:
      return "not_found";
    case StatusCode::kCorruption:
      return "corruption";
    case StatusCode::kUnsupported:
      return "unsupported";
    case StatusCode::kIoError:
      return "io_error";
    case StatusCode::kOutOfRange:
      return "out_of_range";
    case StatusCode::kResourceExhausted:
      return "resource_exhausted";
    case StatusCode::kCancelled:
      return "cancelled";
    case StatusCode::kInternal:
      break;
  }
  return "internal";
}

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
