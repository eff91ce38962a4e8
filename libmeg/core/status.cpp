#include "libmeg/core/status.h"

#include <cerrno>
#include <system_error>

namespace meg {

Status Status::with_prefix(std::string_view where) const {
  if (ok()) return *this;
  return Status(code_, fmt::format("{}: {}", where, message_));
}

std::string_view status_code_name(StatusCode code) {
  switch (code) {
    case StatusCode::kOk:
      return "ok";
    case StatusCode::kInvalidArgument:
      return "invalid argument";
    case StatusCode::kNotFound:
      return "not found";
    case StatusCode::kCorruption:
      return "corruption";
    case StatusCode::kUnsupported:
      return "unsupported";
    case StatusCode::kIoError:
      return "input/output error";
    case StatusCode::kOutOfRange:
      return "out of range";
    case StatusCode::kResourceExhausted:
      return "resource exhausted";
    case StatusCode::kCancelled:
      return "cancelled";
    case StatusCode::kInternal:
      return "internal error";
  }
  return "unknown";
}

Status errno_error(int error_number, std::string_view what) {
  StatusCode code = StatusCode::kIoError;
  switch (error_number) {
    case ENOENT:
    case ENOTDIR:
      code = StatusCode::kNotFound;
      break;
    case ENOSPC:
    case EDQUOT:
    case EFBIG:
    case ENOMEM:
      code = StatusCode::kResourceExhausted;
      break;
    default:
      break;
  }
  return make_error(code, "{}: {}", what, std::generic_category().message(error_number));
}

}  // namespace meg
