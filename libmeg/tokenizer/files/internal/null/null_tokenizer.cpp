#include "libmeg/tokenizer/files/internal/null/null_tokenizer.h"

#include <fmt/ranges.h>

#include <charconv>
#include <iterator>
#include <mutex>

#include "libmeg/text/printable.h"
#include "libmeg/text/whitespace.h"

namespace meg::tokenizer {
namespace {

/// Hands each word between spaces to `visit` until it returns false.
template <class Visit>
void visit_words(std::string_view text, const Visit& visit) {
  for (bool more = true; more;) {
    const size_t space = text.find(' ');
    more = visit(text.substr(0, space)) && space != std::string_view::npos;
    if (more) text.remove_prefix(space + 1);
  }
}

class NullTokenizer : public Tokenizer {
 public:
  NullTokenizer(int32_t vocab_size, std::optional<int32_t> eod, std::optional<int32_t> pad)
      : vocab_size_(vocab_size), eod_(eod), pad_(pad) {}

  int64_t vocab_size() const override { return vocab_size_; }

  std::optional<int32_t> eod() const override { return eod_; }

  std::optional<int32_t> pad() const override { return pad_; }

  int32_t max_id() const override { return vocab_size_ - 1; }

  std::optional<std::string_view> token_bytes(int32_t id) const override {
    if (id < 0 || id >= vocab_size_) return std::nullopt;
    std::call_once(numbers_made_, [this] {
      for (int32_t each = 0; each < vocab_size_; ++each) {
        // Eight places hold every id below open_null()'s limit of 2^24, so a number is found by its
        // place. Made only when somebody asks for the text of a token: encoding never does.
        fmt::format_to(std::back_inserter(numbers_), "{:8} ", each);
      }
    });
    const std::string_view number =
        std::string_view(numbers_).substr(size_t{9} * static_cast<size_t>(id), 9);
    return number.substr(number.find_first_not_of(' '));
  }

  std::unique_ptr<TokenEncoder> new_encoder(DType) const override {
    return std::make_unique<Encoder>(*this);
  }

 private:
  Result<std::string> decode_text(std::span<const int32_t> ids, bool) const override {
    return fmt::format("{}", fmt::join(ids, " "));
  }

  class Encoder : public TokenEncoder {
   public:
    explicit Encoder(const NullTokenizer& tokenizer) : tokenizer_(tokenizer) {}

    Status encode(std::string_view text, TokenBuffer& tokens) override {
      Status status;
      visit_words(text, [&](std::string_view word) {
        if (const std::optional<int32_t> id = tokenizer_.id_of(word)) {
          tokens.push_back(*id);
          return true;
        }
        status = make_error(StatusCode::kInvalidArgument,
                            "NullTokenizer: expected ids below {} with single spaces between, "
                            "found {}",
                            tokenizer_.vocab_size_, text::printable(word));
        return false;
      });
      return status;
    }

   private:
    const NullTokenizer& tokenizer_;
  };

  std::optional<int32_t> id_of(std::string_view word) const {
    word = text::trimmed(word);
    int32_t id = 0;
    const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), id);
    if (error != std::errc() || end != word.data() + word.size()) return std::nullopt;
    if (id < 0 || id >= vocab_size_) return std::nullopt;
    return id;
  }

  const int32_t vocab_size_;
  const std::optional<int32_t> eod_, pad_;
  mutable std::once_flag numbers_made_;
  mutable std::string numbers_;  // 9 bytes an id
};

/// An id that a flag names; -1 means none.
Result<std::optional<int32_t>> read_id(int64_t id, int64_t vocab_size, std::string_view flag) {
  if (id == -1) return std::optional<int32_t>();
  if (id >= 0 && id < vocab_size) return std::optional(static_cast<int32_t>(id));
  return make_error(StatusCode::kInvalidArgument, "{}: expected an id below {}, found {}", flag,
                    vocab_size, id);
}

}  // namespace

Result<std::unique_ptr<Tokenizer>> open_null(const TokenizerOptions& options) {
  const megatron::MegatronVersion version =
      options.version.value_or(megatron::newest_megatron_version());
  const int64_t size = options.vocab_size.value_or(0) + (version.null_tokenizer_adds_eod ? 1 : 0);
  constexpr int64_t kMost = int64_t{1} << 24;  // far above any vocabulary
  if (options.vocab_size.value_or(0) < 1 || size > kMost) {
    return make_error(StatusCode::kInvalidArgument,
                      "NullTokenizer: `vocab_size`: expected 1 to {}, found {}", kMost,
                      options.vocab_size.value_or(0));
  }
  MEG_ASSIGN_OR_RETURN(
      const std::optional<int32_t> eod,
      read_id(options.null_tokenizer_eod_id.value_or(size - 1), size, "`null_tokenizer_eod_id`"));
  MEG_ASSIGN_OR_RETURN(
      const std::optional<int32_t> pad,
      read_id(options.null_tokenizer_pad_id.value_or(-1), size, "`null_tokenizer_pad_id`"));
  return std::unique_ptr<Tokenizer>(
      std::make_unique<NullTokenizer>(static_cast<int32_t>(size), eod, pad));
}

}  // namespace meg::tokenizer
