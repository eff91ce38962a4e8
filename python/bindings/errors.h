#pragma once

#include <nanobind/nanobind.h>

#include <utility>

#include "libmeg/base/result.h"
#include "libmeg/base/status.h"

namespace meg::python {

/// An error on its way to Python, where it is raised as the class of its code (libmeg/errors.py).
struct Failure {
  Status status;
};

/// Throws Failure for an error.
inline void check(Status status) {
  if (!status.ok()) throw Failure{std::move(status)};
}

/// Throws Failure for what a caller's argument is.
template <class... Args>
[[noreturn]] void refuse(fmt::format_string<Args...> format, Args&&... args) {
  throw Failure{make_error(StatusCode::kInvalidArgument, format, std::forward<Args>(args)...)};
}

/// The value of a Result; throws Failure for an error.
template <class T>
T value_of(Result<T> result) {
  check(result.status());
  return *std::move(result);
}

/// Makes Python raise what Failure says.
void bind_errors(nanobind::module_& module);

}  // namespace meg::python
