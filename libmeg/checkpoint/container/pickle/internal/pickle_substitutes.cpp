#include "libmeg/checkpoint/container/pickle/internal/pickle_substitutes.h"

#include <algorithm>

#include "libmeg/text/utf8.h"

namespace meg::checkpoint {

void PickleSubstitutes::global(std::string_view module, std::string_view name) {
  const auto [entry, is_new] = globals_.try_emplace({std::string(module), std::string(name)});
  if (is_new) {
    output_.global(module, name);
    entry->second = output_.put();
  } else {
    output_.get(entry->second);
  }
}

void PickleSubstitutes::bytes(std::string_view bytes) {
  if (bytes.empty()) {
    global("__builtin__", "bytes");
    output_.opcode(PickleOpcode::kEmptyTuple);
  } else {
    global("_codecs", "encode");
    std::string text;
    // Each byte as the code point of its value, which is what Latin-1 is.
    for (const char byte : bytes) text::append_code_point(static_cast<unsigned char>(byte), text);
    output_.text(text);
    output_.put();
    latin1();
    output_.opcode(PickleOpcode::kTuple2);
    output_.put();
  }
  output_.opcode(PickleOpcode::kReduce);
}

void PickleSubstitutes::latin1() {
  if (latin1_ >= 0) return output_.get(static_cast<uint32_t>(latin1_));
  output_.text("latin1");
  latin1_ = output_.put();
}

void PickleSubstitutes::byte_array(std::string_view bytes) {
  global("__builtin__", "bytearray");
  if (bytes.empty()) {
    output_.opcode(PickleOpcode::kEmptyTuple);
  } else {
    this->bytes(bytes);
    output_.put();
    output_.opcode(PickleOpcode::kTuple1);
    output_.put();
  }
  output_.opcode(PickleOpcode::kReduce);
}

void PickleSubstitutes::path(std::string_view module, std::string_view path) {
  const auto dots = std::count(path.begin(), path.end(), '.');
  // getattr(getattr(Outer, "Inner"), "Innermost"): the functions are written from the outside in,
  // then the names from the inside out.
  for (auto at = dots; at > 0; --at) global("__builtin__", "getattr");
  global(module, path.substr(0, path.find('.')));
  for (auto at = dots; at > 0; --at) {
    path.remove_prefix(path.find('.') + 1);
    output_.text(path.substr(0, path.find('.')));
    output_.put();
    output_.opcode(PickleOpcode::kTuple2);
    output_.put();
    output_.opcode(PickleOpcode::kReduce);
    if (at > 1) output_.put();
  }
}

}  // namespace meg::checkpoint
