#include "tools/common/flag_spec.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <limits>
#include <optional>
#include <string>
#include <system_error>

#include "libmeg/core/nearest_name.h"
#include "libmeg/core/printable.h"
#include "libmeg/core/result.h"

namespace meg::tools {
namespace {

char plain_dash(char c) { return c == '_' ? '-' : c; }

std::string with_plain_dashes(std::string_view name) {
  std::string plain(name);
  std::transform(plain.begin(), plain.end(), plain.begin(), plain_dash);
  return plain;
}

std::string_view without_plus(std::string_view text) {
  const bool plus = text.size() > 1 && text[0] == '+' && text[1] != '-';
  return plus ? text.substr(1) : text;
}

std::string allowed_integers(const FlagSpec& spec) {
  if (spec.max == std::numeric_limits<int64_t>::max()) return fmt::format("at least {}", spec.min);
  return fmt::format("{} to {}", spec.min, spec.max);
}

Result<int64_t> to_integer(const FlagSpec& spec, std::string_view text) {
  const std::string_view digits = without_plus(text);
  int64_t number = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
  if (error == std::errc::result_out_of_range) {
    return make_error(StatusCode::kInvalidArgument, "{}: expected an integer of 64 bits, found {}",
                      spec.name, printable(text));
  }
  if (error != std::errc() || end != digits.data() + digits.size()) {
    return make_error(StatusCode::kInvalidArgument, "{}: expected an integer, found {}", spec.name,
                      printable(text));
  }
  if (number < spec.min || number > spec.max) {
    return make_error(StatusCode::kInvalidArgument, "{}: expected {}, found {}", spec.name,
                      allowed_integers(spec), number);
  }
  return number;
}

Result<double> to_real(const FlagSpec& spec, std::string_view text) {
  const std::string_view digits = without_plus(text);
  double number = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
  if (error != std::errc() || end != digits.data() + digits.size()) {
    return make_error(StatusCode::kInvalidArgument, "{}: expected a number, found {}", spec.name,
                      printable(text));
  }
  if (spec.real_limits && !(number >= spec.real_min && number <= spec.real_max)) {
    return make_error(StatusCode::kInvalidArgument, "{}: expected {} to {}, found {}", spec.name,
                      spec.real_min, spec.real_max, text);
  }
  return number;
}

Status check_choice(const FlagSpec& spec, std::string_view text) {
  if (spec.choices.empty()) return Status();
  if (std::find(spec.choices.begin(), spec.choices.end(), text) != spec.choices.end()) {
    return Status();
  }
  return make_error(StatusCode::kInvalidArgument, "{}: expected one of {}, found {}", spec.name,
                    fmt::join(spec.choices, ", "), printable(text));
}

/// Stores the values of one flag into the variable that its spec points to.
struct Store {
  const FlagSpec& spec;
  const std::vector<std::string_view>& values;

  Status operator()(std::monostate) const { return Status(); }

  Status operator()(bool* target) const {
    *target = true;
    return Status();
  }

  Status operator()(std::string* target) const {
    MEG_RETURN_IF_ERROR(check_choice(spec, values[0]));
    *target = values[0];
    return Status();
  }

  Status operator()(int64_t* target) const {
    MEG_ASSIGN_OR_RETURN(*target, to_integer(spec, values[0]));
    return Status();
  }

  Status operator()(double* target) const {
    MEG_ASSIGN_OR_RETURN(*target, to_real(spec, values[0]));
    return Status();
  }

  Status operator()(std::vector<std::string>* target) const {
    for (const std::string_view value : values) MEG_RETURN_IF_ERROR(check_choice(spec, value));
    target->assign(values.begin(), values.end());
    return Status();
  }

  template <class T>
  Status operator()(std::optional<T>* target) const {
    return (*this)(&target->emplace());
  }
};

/// What a bound variable holds, as text; empty where there is nothing to show.
struct Show {
  std::string operator()(std::monostate) const { return ""; }

  std::string operator()(const bool*) const { return ""; }

  std::string operator()(const std::string* value) const { return *value; }

  std::string operator()(const std::vector<std::string>* values) const {
    return fmt::format("{}", fmt::join(*values, " "));
  }

  template <class T>
  std::string operator()(const std::optional<T>* value) const {
    return value->has_value() ? (*this)(&**value) : "";
  }

  template <class T>
  std::string operator()(const T* number) const {
    return fmt::format("{}", *number);
  }
};

}  // namespace

bool same_flag_name(std::string_view a, std::string_view b) {
  return a.size() == b.size() && begins_flag_name(a, b);
}

bool begins_flag_name(std::string_view typed, std::string_view name) {
  return typed.size() <= name.size() &&
         std::equal(typed.begin(), typed.end(), name.begin(),
                    [](char x, char y) { return plain_dash(x) == plain_dash(y); });
}

const FlagSpec* nearest_flag(const FlagTable& table, std::string_view typed) {
  std::vector<std::string> plain;
  for (const auto& spec : table.flags) plain.push_back(with_plain_dashes(spec->name));
  const std::vector<std::string_view> names(plain.begin(), plain.end());
  const std::optional<size_t> nearest = nearest_name(with_plain_dashes(typed), names);
  return nearest.has_value() ? table.flags[*nearest].get() : nullptr;
}

Status store_values(const FlagSpec& spec, const std::vector<std::string_view>& values) {
  return std::visit(Store{spec, values}, spec.target);
}

std::string current_value(const FlagSpec& spec) { return std::visit(Show{}, spec.target); }

}  // namespace meg::tools
