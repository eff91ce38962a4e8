#include "tools/common/flags/flag_spec.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>

#include "libmeg/base/result.h"
#include "libmeg/megatron/python_number.h"
#include "libmeg/text/ascii.h"
#include "libmeg/text/printable.h"
#include "tools/common/flags/flag_error.h"

// A flag is bound to a variable by a pointer of its type. Check, Store, Show and Hold are the four
// things done with it: each is a visitor with one case for a type of variable, so that a type which
// one of them forgets does not compile.

namespace meg::tools {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

/// min and max of any type; what is as far as the type goes is no limit.
template <class T>
std::string allowed_numbers(T min, T max, T lowest, T highest) {
  if (max == highest) return fmt::format("at least {}", min);
  if (min == lowest) return fmt::format("at most {}", max);
  return fmt::format("{} to {}", min, max);
}

template <class T>
Result<T> convert(const FlagSpec& spec, std::string_view text);

template <>
Result<int64_t> convert(const FlagSpec& spec, std::string_view text) {
  MEG_ASSIGN_OR_RETURN(const int64_t number, megatron::python_int(text));
  if (number < spec.min || number > spec.max) {
    using Limits = std::numeric_limits<int64_t>;
    return flag_error("expected {}, found {}",
                      allowed_numbers(spec.min, spec.max, Limits::min(), Limits::max()), number);
  }
  return number;
}

template <>
Result<double> convert(const FlagSpec& spec, std::string_view text) {
  MEG_ASSIGN_OR_RETURN(const double number, megatron::python_float(text));
  // Written so that NaN is outside of any limits.
  if (spec.real_limits && !(number >= spec.real_min && number <= spec.real_max)) {
    return flag_error("expected {}, found {}",
                      allowed_numbers(spec.real_min, spec.real_max, -kInfinity, kInfinity), text);
  }
  return number;
}

template <>
Result<bool> convert(const FlagSpec& /*spec*/, std::string_view text) {
  std::string word(text);
  // ASCII alone: words for yes and no are English whatever the locale.
  std::transform(word.begin(), word.end(), word.begin(), text::ascii_lower);
  for (const char* yes : {"true", "yes", "on", "t", "y", "1"}) {
    if (word == yes) return true;
  }
  for (const char* no : {"false", "no", "off", "f", "n", "0"}) {
    if (word == no) return false;
  }
  return flag_error("expected true or false, found {}", text::printable(text));
}

template <>
Result<std::string> convert(const FlagSpec& spec, std::string_view text) {
  const auto& choices = spec.choices;
  if (choices.empty() || std::find(choices.begin(), choices.end(), text) != choices.end()) {
    return std::string(text);
  }
  return flag_error("expected one of {}, found {}", fmt::join(spec.listed(), ", "),
                    text::printable(text));
}

/// Converts as its row's type says. Choices hold for numbers too.
Result<megatron::FieldValue> convert_field(const FlagSpec& spec, megatron::ArgumentType type,
                                           std::string_view text) {
  MEG_ASSIGN_OR_RETURN(std::string word, convert<std::string>(spec, text));
  const auto widen = [](auto value) -> Result<megatron::FieldValue> {
    if (!value.has_value()) return value.error();
    return megatron::FieldValue(*std::move(value));
  };
  switch (type) {
    case megatron::ArgumentType::kBool:
      return widen(convert<bool>(spec, text));
    case megatron::ArgumentType::kInteger:
      return widen(convert<int64_t>(spec, text));
    case megatron::ArgumentType::kReal:
      return widen(convert<double>(spec, text));
    case megatron::ArgumentType::kText:
      break;
  }
  return megatron::FieldValue(std::move(word));
}

/// What is wrong with a value, by the kind of variable that it goes to.
struct Check {
  const FlagSpec& spec;
  std::string_view value;

  Status operator()(std::monostate) const { return Status(); }

  Status operator()(const std::vector<std::string>*) const {
    return convert<std::string>(spec, value).status();
  }

  Status operator()(const ArgumentField& field) const {
    return convert_field(spec, field.row->type, value).status();
  }

  template <class T>
  Status operator()(const std::optional<T>*) const {
    return convert<T>(spec, value).status();
  }

  template <class T>
  Status operator()(const T*) const {
    return convert<T>(spec, value).status();
  }
};

/// Stores the checked values of one flag into the variable that its spec points to.
struct Store {
  const FlagSpec& spec;
  const std::vector<std::string>& values;

  void operator()(std::monostate) const {}

  void operator()(bool* target) const { *target = true; }

  void operator()(std::vector<std::string>* target) const { *target = values; }

  void operator()(const ArgumentField& field) const {
    // A value, even if it equals the default, counts as given: --use-checkpoint-args asks for that.
    field.values->give(*field.row, argument_value(*field.row));
  }

  template <class T>
  void operator()(std::optional<T>* target) const {
    *target = *convert<T>(spec, values[0]);
  }

  template <class T>
  void operator()(T* target) const {
    *target = *convert<T>(spec, values[0]);
  }

  megatron::FieldValue argument_value(const megatron::ArgumentRow& row) const {
    if (spec.arity == Arity::kSwitch) {
      // store_true, store_false and store_const say in the table what they store.
      return megatron::parse_python_value(row.stored)
          .value_or(megatron::FieldValue(std::string(row.stored)));
    }
    if (spec.arity == Arity::kList) return values;
    return *convert_field(spec, row.type, values[0]);
  }
};

/// What a bound variable holds, as text; empty where there is nothing to show.
struct Show {
  std::string operator()(std::monostate) const { return ""; }

  std::string operator()(const bool*) const { return ""; }

  std::string operator()(const std::string* value) const { return *value; }

  std::string operator()(const std::vector<std::string>* values) const { return (*this)(*values); }

  std::string operator()(const std::vector<std::string>& values) const {
    return fmt::format("{}", fmt::join(values, " "));
  }

  std::string operator()(const ArgumentField& field) const {
    if (field.row->arity == megatron::ArgumentArity::kSwitch) return "";
    const std::optional<megatron::FieldValue> value = field.values->field(field.row->dest);
    return value.has_value() ? std::visit(*this, *value) : "";
  }

  std::string operator()(bool value) const { return value ? "true" : "false"; }

  std::string operator()(const std::string& value) const { return value; }

  template <class T>
  std::string operator()(const std::optional<T>* value) const {
    return value->has_value() ? (*this)(&**value) : "";
  }

  template <class T>
  std::string operator()(const T* number) const {
    return fmt::format("{}", *number);
  }

  std::string operator()(int64_t number) const { return fmt::format("{}", number); }

  std::string operator()(double number) const { return fmt::format("{}", number); }
};

/// What a bound variable holds, as a value that can be compared.
struct Hold {
  using Value = std::optional<megatron::FieldValue>;

  Value operator()(std::monostate) const { return std::nullopt; }

  Value operator()(const ArgumentField& field) const {
    return field.values->field(field.row->dest);
  }

  template <class T>
  Value operator()(const std::optional<T>* value) const {
    return value->has_value() ? megatron::FieldValue(**value) : megatron::FieldValue();
  }

  template <class T>
  Value operator()(const T* value) const {
    return megatron::FieldValue(*value);
  }
};

}  // namespace

std::string complaint(const FlagSpec& spec, std::string_view value) {
  return std::visit(Check{spec, value}, spec.target).message();
}

void store_values(const FlagSpec& spec, const std::vector<std::string>& values) {
  std::visit(Store{spec, values}, spec.target);
}

std::string current_value(const FlagSpec& spec) { return std::visit(Show{}, spec.target); }

std::optional<megatron::FieldValue> held_value(const FlagSpec& spec) {
  return std::visit(Hold{}, spec.target);
}

}  // namespace meg::tools
