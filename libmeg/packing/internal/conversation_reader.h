#pragma once

#include <cstdint>
#include <mutex>
#include <vector>

#include "libmeg/packing/internal/token_spool.h"
#include "libmeg/packing/pack_dataset.h"
#include "libmeg/preprocess/read_texts.h"

namespace meg::packing {

/// Reads the conversations of parts of the input into the spool, for one thread. What several share
/// (spool, summary) is only touched in turn.
class ConversationReader : public preprocess::TextVisitor {
 public:
  ConversationReader(const PackOptions& options, const chat::ChatTemplate& chat_template,
                     const tokenizer::Tokenizer& tokenizer, DType dtype, TokenSpool& spool,
                     PackSummary& summary)
      : options_(options),
        encoder_(chat_template, tokenizer, dtype, options.loss_on),
        tokens_(dtype),
        spool_(spool),
        summary_(summary) {}

  void begin_part(int64_t number) override;
  Status begin_document(std::string_view json, bool has_list,
                        const dataset::DocumentPlace& place) override;
  Status visit(std::string_view text) override;
  Result<bool> settle() override;
  Status pack() override;

 private:
  enum class Outcome : uint8_t { kPacked, kTruncated, kEmpty, kNoAssistant, kNoLoss, kTooLong };

  Result<Outcome> take(std::string_view json);
  Outcome cut_to_length(int64_t first);
  void count(Outcome outcome);

  const PackOptions& options_;
  ConversationEncoder encoder_;
  tokenizer::TokenBuffer tokens_;
  std::vector<uint8_t> mask_;
  std::vector<std::byte> cut_;
  std::vector<int32_t> lengths_;
  std::vector<Outcome> outcomes_;  // of the part's conversations
  TokenSpool& spool_;
  PackSummary& summary_;
  int64_t first_token_ = 0;
};

}  // namespace meg::packing
