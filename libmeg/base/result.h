#pragma once

#include <cassert>
#include <utility>
#include <variant>

#include "libmeg/base/status.h"

namespace meg {

/// A value, or the Status that explains why there is none. Member names follow std::expected.
template <class T>
class [[nodiscard]] Result {
 public:
  using value_type = T;

  Result(T value)
      : state_(std::in_place_index<0>, std::move(value)) {}  // NOLINT(google-explicit-constructor)

  /// error must not be ok.
  Result(Status error)
      : state_(std::in_place_index<1>, std::move(error)) {  // NOLINT(google-explicit-constructor)
    assert(!std::get<1>(state_).ok());
  }

  bool has_value() const { return state_.index() == 0; }

  explicit operator bool() const { return has_value(); }

  T& value() & { return *std::get_if<0>(&state_); }

  const T& value() const& { return *std::get_if<0>(&state_); }

  T&& value() && { return std::move(*std::get_if<0>(&state_)); }

  T& operator*() & { return value(); }

  const T& operator*() const& { return value(); }

  T&& operator*() && { return std::move(*this).value(); }

  T* operator->() { return &value(); }

  const T* operator->() const { return &value(); }

  /// May be called only where has_value() is false.
  const Status& error() const { return *std::get_if<1>(&state_); }

  /// ok() where there is a value, else the error.
  Status status() const { return has_value() ? Status() : error(); }

 private:
  std::variant<T, Status> state_;
};

}  // namespace meg

#define MEG_CONCAT_INNER(a, b) a##b
#define MEG_CONCAT(a, b) MEG_CONCAT_INNER(a, b)
#define MEG_ASSIGN_OR_RETURN_INNER(result, declaration, expression) \
  auto result = (expression);                                       \
  if (!result.has_value()) return result.error();                   \
  declaration = std::move(result).value()

/// Declares or assigns `declaration` from `expression` (a Result), or returns its error.
#define MEG_ASSIGN_OR_RETURN(declaration, expression) \
  MEG_ASSIGN_OR_RETURN_INNER(MEG_CONCAT(meg_result_, __LINE__), declaration, expression)
