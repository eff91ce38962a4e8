#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "libmeg/checkpoint/container/pickle/internal/pickle_input.h"
#include "libmeg/checkpoint/container/pickle/internal/pickle_machine.h"
#include "libmeg/checkpoint/container/pickle/pickle_opcode.h"

namespace meg::checkpoint {

/// Runs the opcodes that push the number, text or bytes that follow the opcode.
class PickleLiterals {
 public:
  /// Both arguments must outlive this object.
  PickleLiterals(PickleInput& input, PickleMachine& machine) : input_(input), machine_(machine) {}

  /// nullopt: the opcode is none of these, and nothing was read.
  std::optional<Status> run(PickleOpcode opcode);

 private:
  std::optional<Status> run_number(PickleOpcode opcode);
  std::optional<Status> run_text(PickleOpcode opcode);

  template <class Number>
  Status push_number(std::string_view what);

  /// Python 2's str: text where it is UTF-8, else bytes.
  Status push_python2_string(std::string text);
  Status push_utf8(const Result<std::string_view>& bytes);
  Status push_bytes(PickleKind kind, const Result<std::string_view>& bytes);
  Status push_int_line();
  Status push_long_line();
  Status push_float_line();
  Status push_binary_float();
  Status push_string_line();
  Status push_unicode_line();

  PickleInput& input_;
  PickleMachine& machine_;
};

}  // namespace meg::checkpoint
