#pragma once

#include <fmt/core.h>

#include <string>
#include <string_view>
#include <utility>

namespace meg {

/// The kind of an error, according to what a caller can do about it; the message has the details.
enum class StatusCode {
  kOk,
  kInvalidArgument,    ///< The caller's arguments are wrong.
  kNotFound,           ///< A file, key or entry does not exist.
  kCorruption,         ///< A file's content contradicts its format.
  kUnsupported,        ///< Valid, but not done by this version.
  kIoError,            ///< The operating system refused.
  kOutOfRange,         ///< An index or a number is outside its range.
  kResourceExhausted,  ///< No memory or disk left, or a limit reached.
  kCancelled,          ///< The caller asked for the work to stop.
  kInternal,           ///< A fault of libmeg itself.
};

/// "invalid_argument" for kInvalidArgument, and so on.
std::string_view status_code_name(StatusCode code);

/// Success, or an error with a one-line message: where, what, expected, found.
class [[nodiscard]] Status {
 public:
  Status() = default;

  Status(StatusCode code, std::string message) : code_(code), message_(std::move(message)) {}

  bool ok() const { return code_ == StatusCode::kOk; }

  StatusCode code() const { return code_; }

  const std::string& message() const { return message_; }

  /// The same error with `where + ": "` in front of its message; success stays success.
  Status with_prefix(std::string_view where) const;

 private:
  StatusCode code_ = StatusCode::kOk;
  std::string message_;
};

template <class... Args>
Status make_error(StatusCode code, fmt::format_string<Args...> format, Args&&... args) {
  return Status(code, fmt::vformat(format, fmt::make_format_args(args...)));
}

/// kNotFound for ENOENT and ENOTDIR, kResourceExhausted for ENOSPC, EDQUOT, EFBIG and ENOMEM, else
/// kIoError; the message is `what: <the system's text for error_number>`.
Status errno_error(int error_number, std::string_view what);

}  // namespace meg

/// Returns from the enclosing function when `expression` (a Status) is an error.
#define MEG_RETURN_IF_ERROR(expression)        \
  do {                                         \
    ::meg::Status meg_status_ = (expression);  \
    if (!meg_status_.ok()) return meg_status_; \
  } while (false)
