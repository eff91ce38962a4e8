#pragma once

#include <chrono>
#include <memory>
#include <new>
#include <optional>
#include <string>
#include <string_view>
#include <thread>

#include "libmeg/tokenizer/interface/tokenizer.h"

namespace meg::test {

/// Every byte is a token, `end` ends documents: what a pipeline does with tokens can be read off.
class ByteTokenizer : public tokenizer::Tokenizer {
 public:
  /// A text with this in it throws std::bad_alloc.
  static constexpr std::string_view kOutOfMemory = "needs too much memory";

  /// A text with this in it takes 10 ms.
  static constexpr std::string_view kSlow = "takes its time";

  explicit ByteTokenizer(std::optional<int32_t> end = 256, int64_t vocab_size = 257)
      : end_(end), vocab_size_(vocab_size) {}

  int64_t vocab_size() const override { return vocab_size_; }

  std::optional<int32_t> eod() const override { return end_; }

  std::optional<std::string_view> token_bytes(int32_t) const override { return std::nullopt; }

  int32_t max_id() const override { return end_.value_or(255); }

  std::unique_ptr<tokenizer::TokenEncoder> new_encoder(DType dtype) const override {
    struct Encoder : tokenizer::TokenEncoder {
      explicit Encoder(bool wide) : wide_(wide) {}

      Status encode(std::string_view text, tokenizer::TokenBuffer& tokens) override {
        if (text.find(kOutOfMemory) != std::string_view::npos) throw std::bad_alloc();
        if (text.find(kSlow) != std::string_view::npos) {
          std::this_thread::sleep_for(std::chrono::milliseconds(10));
        }
        const auto count = static_cast<int64_t>(text.size());
        for (size_t i = 0; i < text.size(); ++i) {
          const auto id = static_cast<unsigned char>(text[i]);
          if (wide_) {
            tokens.grow<int32_t>(count)[i] = id;
          } else {
            tokens.grow<uint16_t>(count)[i] = id;
          }
        }
        tokens.commit(count);
        return {};
      }

      bool wide_;
    };

    return std::make_unique<Encoder>(dtype == DType::kInt32);
  }

 private:
  Result<std::string> decode_text(std::span<const int32_t> ids, bool) const override {
    std::string text;
    for (const int32_t id : ids) text += static_cast<char>(id);
    return text;
  }

  std::optional<int32_t> end_;
  int64_t vocab_size_;
};

}  // namespace meg::test
