#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

namespace meg::test {

/// Writes a SentencePiece model byte by byte, so that a test can say what is wrong in it.
class TinyModel {
 public:
  // Types of pieces.
  static constexpr int kNormal = 1;
  static constexpr int kUnknown = 2;
  static constexpr int kControl = 3;
  static constexpr int kUserDefined = 4;
  static constexpr int kUnused = 5;
  static constexpr int kByte = 6;

  TinyModel& piece(std::string_view text, float score = 0, int type = kNormal) {
    uint32_t bits;
    std::memcpy(&bits, &score, sizeof(bits));
    std::string message = bytes(1, text) + static_cast<char>(2 << 3 | 5);
    for (int i = 0; i < 4; ++i) message += static_cast<char>(bits >> (8 * i));
    pieces_ += bytes(1, message + number(3, static_cast<uint64_t>(type)));
    return *this;
  }

  /// Fields of trainer_spec and normalizer_spec, such as (35, 1): byte_fallback.
  TinyModel& trainer(int field, uint64_t value) {
    trainer_ += number(field, value);
    return *this;
  }

  TinyModel& normalizer(int field, uint64_t value) {
    normalizer_ += number(field, value);
    return *this;
  }

  TinyModel& charsmap(std::string_view map) {
    normalizer_ += bytes(2, map);
    return *this;
  }

  std::string serialized() const { return pieces_ + bytes(2, trainer_) + bytes(3, normalizer_); }

 private:
  static std::string varint(uint64_t value) {
    std::string written;
    for (; value > 0x7F; value >>= 7) written += static_cast<char>(value | 0x80);
    return written + static_cast<char>(value);
  }

  static std::string number(int field, uint64_t value) {
    return varint(static_cast<uint64_t>(field) << 3) + varint(value);
  }

  static std::string bytes(int field, std::string_view content) {
    return varint(static_cast<uint64_t>(field) << 3 | 2) + varint(content.size()) +
           std::string(content);
  }

  std::string pieces_, trainer_, normalizer_;
};

/// <unk>, <s>, </s>, "▁", and letters and words of "abc". type: of the model, 1 is unigram, 2 BPE.
inline TinyModel abc_model(uint64_t type) {
  TinyModel model;
  model.piece("<unk>", 0, TinyModel::kUnknown);
  model.piece("<s>", 0, TinyModel::kControl).piece("</s>", 0, TinyModel::kControl);
  model.piece("\xE2\x96\x81", -3).piece("a", -4).piece("b", -5).piece("c", -6);
  model.piece("ab", -1).piece("abc", -2).piece(
      "\xE2\x96\x81"
      "ab",
      -2.5f);
  return model.trainer(3, type);
}

}  // namespace meg::test
