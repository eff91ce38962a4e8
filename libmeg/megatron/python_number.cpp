#include "libmeg/megatron/python_number.h"

#include <charconv>
#include <string>
#include <system_error>

#include "libmeg/text/ascii.h"
#include "libmeg/text/printable.h"
#include "libmeg/text/whitespace.h"

// int() and float() of Python as argparse applies them: with a plus sign, whitespace around and
// underscores between digits, which from_chars does not read. What Python refuses must be refused,
// or the same command line would mean something else there.

namespace meg::megatron {
namespace {

/// The text as std::from_chars reads it, which knows no plus, no whitespace and no underscores;
/// empty, which is not a number, where an underscore does not stand between two digits.
std::string plain_number(std::string_view text) {
  text = text::trimmed(text);
  if (text.starts_with('+') && !text.starts_with("+-")) text.remove_prefix(1);
  std::string plain;
  for (size_t i = 0; i < text.size(); ++i) {
    const bool is_between = i > 0 && i + 1 < text.size() && text::is_ascii_digit(text[i - 1]) &&
                            text::is_ascii_digit(text[i + 1]);
    if (text[i] != '_') {
      plain += text[i];
    } else if (!is_between) {
      return {};
    }
  }
  return plain;
}

template <class T>
std::errc read(const std::string& plain, T* number) {
  const char* const end = plain.data() + plain.size();
  const auto [read_to, error] = std::from_chars(plain.data(), end, *number);
  return error == std::errc() && read_to != end ? std::errc::invalid_argument : error;
}

}  // namespace

Result<int64_t> python_int(std::string_view text) {
  int64_t number = 0;
  const std::errc error = read(plain_number(text), &number);
  if (error == std::errc()) return number;
  if (error == std::errc::result_out_of_range) {
    // Told apart: the text is an integer, and in Python it would do.
    return make_error(StatusCode::kOutOfRange, "expected an integer of 64 bits, found {}",
                      text::printable(text));
  }
  return make_error(StatusCode::kInvalidArgument, "expected an integer, found {}",
                    text::printable(text));
}

Result<double> python_float(std::string_view text) {
  double number = 0;
  const std::string plain = plain_number(text);
  // C++ has nan(payload), Python has not.
  const bool has_payload = plain.find('(') != plain.npos;
  if (!has_payload && read(plain, &number) == std::errc()) return number;
  return make_error(StatusCode::kInvalidArgument, "expected a number, found {}",
                    text::printable(text));
}

}  // namespace meg::megatron
