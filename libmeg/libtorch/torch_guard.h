#pragma once

#include <c10/util/Exception.h>

#include <algorithm>
#include <exception>
#include <new>
#include <string>
#include <utility>

#include "libmeg/base/status.h"

namespace meg::libtorch {

/// LibTorch's text of an error in one line.
inline std::string one_line(std::string text) {
  while (!text.empty() && text.back() == '\n') text.pop_back();
  std::replace(text.begin(), text.end(), '\n', ' ');
  return text;
}

/// Carries a Status through LibTorch's calls to the next torch_guard.
class StatusError : public std::exception {
 public:
  explicit StatusError(Status status) : status_(std::move(status)) {}

  const Status& status() const { return status_; }

  const char* what() const noexcept override { return status_.message().c_str(); }

 private:
  Status status_;
};

inline void throw_if_error(const Status& status) {
  if (!status.ok()) throw StatusError(status);
}

/// Runs `work` and converts LibTorch's exceptions to a Status. LibTorch reports failure by
/// exceptions, so every public function of a component below the LibTorch boundary is wrapped in
/// such a guard. work: callable without arguments that returns a Status.
template <class Work>
Status torch_guard(Work&& work) {
  try {
    return std::forward<Work>(work)();
  } catch (const StatusError& error) {
    return error.status();
  } catch (const std::bad_alloc&) {
    return make_error(StatusCode::kResourceExhausted, "out of memory");
  } catch (const c10::OutOfMemoryError& error) {
    return make_error(StatusCode::kResourceExhausted, "LibTorch: {}",
                      one_line(error.what_without_backtrace()));
  } catch (const c10::Error& error) {
    // A CPU's allocator has no exception of its own.
    const std::string text = one_line(error.what_without_backtrace());
    const bool is_memory = text.find("DefaultCPUAllocator") != std::string::npos;
    return make_error(is_memory ? StatusCode::kResourceExhausted : StatusCode::kInternal,
                      "LibTorch: {}", text);
  } catch (const std::exception& error) {
    return make_error(StatusCode::kInternal, "{}", one_line(error.what()));
  } catch (...) {
    return make_error(StatusCode::kInternal, "unknown exception");
  }
}

}  // namespace meg::libtorch
