#include "libmeg/checkpoint/container/pickle/internal/pickle_literals.h"

#include <bit>
#include <cstdint>
#include <utility>

#include "libmeg/checkpoint/container/pickle/internal/pickle_integer.h"
#include "libmeg/checkpoint/container/pickle/pickle_text.h"
#include "libmeg/text/utf8.h"

// Every value has several opcodes: text lines of protocol 0, which Python 2 wrote, and binary forms
// with counts of 1, 4 or 8 bytes. Lengths are compared with the rest of the input before
// anything is copied (PickleInput::counted).

namespace meg::checkpoint {

std::optional<Status> PickleLiterals::run(PickleOpcode opcode) {
  std::optional<Status> number = run_number(opcode);
  return number.has_value() ? number : run_text(opcode);
}

template <class Number>
Status PickleLiterals::push_number(std::string_view what) {
  MEG_ASSIGN_OR_RETURN(const Number number, input_.number<Number>(what));
  return machine_.push(machine_.graph().add_int(number));
}

std::optional<Status> PickleLiterals::run_number(PickleOpcode opcode) {
  switch (opcode) {
    case PickleOpcode::kInt:
      return push_int_line();
    case PickleOpcode::kLong:
      return push_long_line();
    case PickleOpcode::kFloat:
      return push_float_line();
    case PickleOpcode::kBinInt:
      return push_number<int32_t>("BININT");
    case PickleOpcode::kBinInt1:
      return push_number<uint8_t>("BININT1");
    case PickleOpcode::kBinInt2:
      return push_number<uint16_t>("BININT2");
    case PickleOpcode::kBinFloat:
      return push_binary_float();
    case PickleOpcode::kLong1: {
      MEG_ASSIGN_OR_RETURN(const std::string_view bytes, input_.counted<uint8_t>("LONG1"));
      return machine_.push_twos_complement(bytes);
    }
    case PickleOpcode::kLong4: {
      MEG_ASSIGN_OR_RETURN(const std::string_view bytes, input_.counted<uint32_t>("LONG4"));
      return machine_.push_twos_complement(bytes);
    }
    default:
      return std::nullopt;
  }
}

std::optional<Status> PickleLiterals::run_text(PickleOpcode opcode) {
  switch (opcode) {
    case PickleOpcode::kString:
      return push_string_line();
    case PickleOpcode::kBinString: {
      MEG_ASSIGN_OR_RETURN(const std::string_view bytes, input_.counted<uint32_t>("BINSTRING"));
      return push_python2_string(std::string(bytes));
    }
    case PickleOpcode::kShortBinString: {
      MEG_ASSIGN_OR_RETURN(const std::string_view bytes,
                           input_.counted<uint8_t>("SHORT_BINSTRING"));
      return push_python2_string(std::string(bytes));
    }
    case PickleOpcode::kUnicode:
      return push_unicode_line();
    case PickleOpcode::kShortBinUnicode:
      return push_utf8(input_.counted<uint8_t>("SHORT_BINUNICODE"));
    case PickleOpcode::kBinUnicode:
      return push_utf8(input_.counted<uint32_t>("BINUNICODE"));
    case PickleOpcode::kBinUnicode8:
      return push_utf8(input_.counted<uint64_t>("BINUNICODE8"));
    case PickleOpcode::kShortBinBytes:
      return push_bytes(PickleKind::kBytes, input_.counted<uint8_t>("SHORT_BINBYTES"));
    case PickleOpcode::kBinBytes:
      return push_bytes(PickleKind::kBytes, input_.counted<uint32_t>("BINBYTES"));
    case PickleOpcode::kBinBytes8:
      return push_bytes(PickleKind::kBytes, input_.counted<uint64_t>("BINBYTES8"));
    case PickleOpcode::kByteArray8:
      return push_bytes(PickleKind::kByteArray, input_.counted<uint64_t>("BYTEARRAY8"));
    default:
      return std::nullopt;
  }
}

Status PickleLiterals::push_binary_float() {
  MEG_ASSIGN_OR_RETURN(const auto big_endian, input_.number<uint64_t>("BINFLOAT"));
  const uint64_t bits = __builtin_bswap64(big_endian);
  return machine_.push(machine_.graph().add_float(std::bit_cast<double>(bits)));
}

Status PickleLiterals::push_int_line() {
  MEG_ASSIGN_OR_RETURN(const std::string_view digits, input_.line("INT"));
  // Protocol 0 writes False and True so, and the numbers 0 and 1 without the leading zero.
  if (digits == "00" || digits == "01") {
    return machine_.push(machine_.graph().add_bool(digits == "01"));
  }
  MEG_ASSIGN_OR_RETURN(const std::string bytes, twos_complement_of_decimal(digits));
  return machine_.push_twos_complement(bytes);
}

Status PickleLiterals::push_long_line() {
  MEG_ASSIGN_OR_RETURN(std::string_view digits, input_.line("LONG"));
  if (digits.ends_with('L')) digits.remove_suffix(1);
  MEG_ASSIGN_OR_RETURN(const std::string bytes, twos_complement_of_decimal(digits));
  return machine_.push_twos_complement(bytes);
}

Status PickleLiterals::push_float_line() {
  MEG_ASSIGN_OR_RETURN(const std::string_view digits, input_.line("FLOAT"));
  MEG_ASSIGN_OR_RETURN(const double value, decode_float(digits));
  return machine_.push(machine_.graph().add_float(value));
}

Status PickleLiterals::push_string_line() {
  MEG_ASSIGN_OR_RETURN(const std::string_view literal, input_.line("STRING"));
  MEG_ASSIGN_OR_RETURN(std::string text, decode_quoted_string(literal));
  return push_python2_string(std::move(text));
}

Status PickleLiterals::push_python2_string(std::string text) {
  // Python 2 did not say which of both it meant; torch reads such strings as UTF-8.
  const bool is_text = text::find_invalid_utf8(text) == std::string_view::npos;
  return machine_.push_text(is_text ? PickleKind::kString : PickleKind::kBytes, std::move(text));
}

Status PickleLiterals::push_unicode_line() {
  MEG_ASSIGN_OR_RETURN(const std::string_view escaped, input_.line("UNICODE"));
  MEG_ASSIGN_OR_RETURN(std::string text, decode_raw_unicode_escape(escaped));
  return machine_.push_text(PickleKind::kString, std::move(text));
}

Status PickleLiterals::push_utf8(const Result<std::string_view>& bytes) {
  if (!bytes) return bytes.error();
  MEG_ASSIGN_OR_RETURN(std::string text, decode_utf8(*bytes));
  return machine_.push_text(PickleKind::kString, std::move(text));
}

Status PickleLiterals::push_bytes(PickleKind kind, const Result<std::string_view>& bytes) {
  if (!bytes) return bytes.error();
  return machine_.push_text(kind, std::string(*bytes));
}

}  // namespace meg::checkpoint
