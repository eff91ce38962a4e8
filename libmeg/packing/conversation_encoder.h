#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "libmeg/base/dtype.h"
#include "libmeg/base/result.h"
#include "libmeg/chat/chat_template.h"
#include "libmeg/packing/conversation.h"
#include "libmeg/tokenizer/interface/tokenizer.h"

namespace meg::packing {

/// Which tokens a model learns to predict.
enum class LossOn {
  kAssistant,  ///< Those of Conversation::answers.
  kLastTurn,   ///< Those of the last of them.
  kAll,
};

/// Turns conversations into tokens and a mask of those that the model learns. Belongs to one
/// thread; must not outlive the template and the tokenizer.
///
/// Where the template has `generation` blocks, they are what the assistant says. Where it has none,
/// an answer is what rendering the messages up to it adds to rendering those before it with
/// `add_generation_prompt`; both must be beginnings of the text of the whole conversation, or else
/// it is refused: then no text is that answer's own. A token that an answer shares with what is
/// around it counts to the answer. Mirrors transformers'
/// PreTrainedTokenizerBase.apply_chat_template with return_assistant_tokens_mask.
class ConversationEncoder {
 public:
  ConversationEncoder(const chat::ChatTemplate& chat_template,
                      const tokenizer::Tokenizer& tokenizer, DType dtype, LossOn loss_on);

  /// Appends the conversation's tokens, and for each of them 1 or 0 to `mask`. Errors:
  /// kCorruption with `byte 1: ` in front, those of the template among them; the tokenizer's.
  Status encode(const Conversation& conversation, tokenizer::TokenBuffer& tokens,
                std::vector<uint8_t>& mask);

 private:
  using Spans = std::vector<std::pair<size_t, size_t>>;  // bytes [begin, end) of a text

  Result<chat::RenderedChat> render(const Conversation& conversation, size_t messages,
                                    bool add_generation_prompt) const;
  Result<Spans> answers_of(const Conversation& conversation, const chat::RenderedChat& whole) const;
  Result<Spans> marked_answer(const Conversation& conversation, size_t answer,
                              const chat::RenderedChat& whole) const;
  Result<Spans> unmarked_answer(const Conversation& conversation, size_t answer,
                                const chat::RenderedChat& whole) const;
  Status encode_text(std::string text, tokenizer::TokenBuffer& tokens);
  Result<size_t> token_of_border(const std::string& text, size_t border,
                                 const tokenizer::TokenBuffer& tokens, int64_t first);
  bool find_token_begins(const std::string& text, const tokenizer::TokenBuffer& tokens,
                         int64_t first);
  bool is_special(int32_t id) const;

  const chat::ChatTemplate& template_;
  const tokenizer::Tokenizer& tokenizer_;
  const LossOn loss_on_;
  std::unique_ptr<tokenizer::TokenEncoder> encoder_;
  tokenizer::TokenBuffer prefix_;
  std::vector<int32_t> special_ids_;  // sorted
  std::vector<size_t> begins_;        // of the tokens of a text, bytes
};

}  // namespace meg::packing
