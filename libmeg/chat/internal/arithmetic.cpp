#include "libmeg/chat/internal/arithmetic.h"

#include <cmath>
#include <cstdint>

namespace meg::chat {
namespace {

Status overflow(std::string_view operation) {
  return make_error(StatusCode::kOutOfRange, "{}: expected integers of 64 bits", operation);
}

Result<Value> integer_power(int64_t base, int64_t exponent) {
  if (exponent < 0)
    return Value(std::pow(static_cast<double>(base), static_cast<double>(exponent)));
  if (base == 0 || base == 1) return Value(exponent == 0 ? int64_t{1} : base);
  if (base == -1) return Value(exponent % 2 == 0 ? int64_t{1} : int64_t{-1});
  int64_t power = 1;
  for (int64_t i = 0; i < exponent; ++i) {
    if (__builtin_mul_overflow(power, base, &power)) return overflow("**");
  }
  return Value(power);
}

Result<Value> integer_arithmetic(std::string_view name, int64_t a, int64_t b) {
  int64_t made = 0;
  if (name == "+") {
    if (__builtin_add_overflow(a, b, &made)) return overflow(name);
  } else if (name == "-") {
    if (__builtin_sub_overflow(a, b, &made)) return overflow(name);
  } else if (name == "*") {
    if (__builtin_mul_overflow(a, b, &made)) return overflow(name);
  } else if (name == "**") {
    return integer_power(a, b);
  } else if (b == 0) {
    return make_error(StatusCode::kInvalidArgument, "{}: division by zero", name);
  } else if (name == "/") {
    return Value(static_cast<double>(a) / static_cast<double>(b));
  } else if (a == INT64_MIN && b == -1) {
    return overflow(name);
  } else {
    const int64_t remainder = a % b;
    const bool is_below = remainder != 0 && (remainder < 0) != (b < 0);
    if (name == "//") {
      made = a / b - (is_below ? 1 : 0);
    } else {
      made = remainder + (is_below ? b : 0);
    }
  }
  return Value(made);
}

Result<Value> real_arithmetic(std::string_view name, double a, double b) {
  if (name == "+") return Value(a + b);
  if (name == "-") return Value(a - b);
  if (name == "*") return Value(a * b);
  if (name == "**") return Value(std::pow(a, b));
  if (b == 0) return make_error(StatusCode::kInvalidArgument, "{}: division by zero", name);
  if (name == "/") return Value(a / b);
  double remainder = std::fmod(a, b);
  if (remainder != 0 && (remainder < 0) != (b < 0)) remainder += b;
  if (name == "%") return Value(remainder);
  return Value(std::round((a - remainder) / b));
}

}  // namespace

Result<Value> arithmetic(std::string_view name, const Value& a, const Value& b) {
  if (a.integer() && b.integer()) return integer_arithmetic(name, *a.integer(), *b.integer());
  return real_arithmetic(name, *a.number(), *b.number());
}

}  // namespace meg::chat
