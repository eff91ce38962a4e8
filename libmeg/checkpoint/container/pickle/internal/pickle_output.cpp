#include "libmeg/checkpoint/container/pickle/internal/pickle_output.h"

#include <bit>

#include "libmeg/checkpoint/container/pickle/internal/pickle_integer.h"

// Where several opcodes can write a value, these functions use the one that CPython's pickler of
// protocol 2 chooses, so that a graph read from one of its files is written with the same bytes.

namespace meg::checkpoint {

/// The shortest form that CPython would choose; unlike BININT1 and BININT2, BININT has a sign.
void PickleOutput::integer(int64_t value) {
  if (value != static_cast<int32_t>(value)) {
    big_integer(twos_complement(value));
  } else if (value >= 0 && value < 0x100) {
    opcode(PickleOpcode::kBinInt1);
    number(static_cast<uint8_t>(value));
  } else if (value >= 0 && value < 0x10000) {
    opcode(PickleOpcode::kBinInt2);
    number(static_cast<uint16_t>(value));
  } else {
    opcode(PickleOpcode::kBinInt);
    number(static_cast<int32_t>(value));
  }
}

void PickleOutput::big_integer(std::string_view bytes) {
  if (bytes.size() < 256) {
    opcode(PickleOpcode::kLong1);
    number(static_cast<uint8_t>(bytes.size()));
  } else {
    opcode(PickleOpcode::kLong4);
    number(static_cast<uint32_t>(bytes.size()));
  }
  bytes_ += bytes;
}

void PickleOutput::real(double value) {
  opcode(PickleOpcode::kBinFloat);
  // The one big-endian number of the format.
  number(__builtin_bswap64(std::bit_cast<uint64_t>(value)));
}

void PickleOutput::text(std::string_view text) {
  opcode(PickleOpcode::kBinUnicode);
  // Protocol 2 has no form with a length of 8 bits; CPython writes this one, however short the text
  // is.
  number(static_cast<uint32_t>(text.size()));
  bytes_ += text;
}

void PickleOutput::global(std::string_view module, std::string_view name) {
  opcode(PickleOpcode::kGlobal);
  bytes_ += module;
  bytes_ += '\n';
  bytes_ += name;
  bytes_ += '\n';
}

uint32_t PickleOutput::put() {
  const uint32_t index = memo_size_++;
  if (index < 256) {
    opcode(PickleOpcode::kBinPut);
    number(static_cast<uint8_t>(index));
  } else {
    opcode(PickleOpcode::kLongBinPut);
    number(index);
  }
  return index;
}

void PickleOutput::get(uint32_t index) {
  if (index < 256) {
    opcode(PickleOpcode::kBinGet);
    number(static_cast<uint8_t>(index));
  } else {
    opcode(PickleOpcode::kLongBinGet);
    number(index);
  }
}

std::vector<std::byte> PickleOutput::bytes() const {
  const auto* begin = reinterpret_cast<const std::byte*>(bytes_.data());
  return {begin, begin + bytes_.size()};
}

}  // namespace meg::checkpoint
