// Any bytes as a line of fine-tuning data: an error of one line, or tokens of which those of the
// answers, and no others, are learned.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "libmeg/packing/builtin_templates.h"
#include "libmeg/packing/conversation.h"
#include "libmeg/packing/conversation_encoder.h"
#include "tests/fuzz/fuzz_check.h"
#include "tests/preprocess/byte_tokenizer.h"

namespace {

using meg::packing::Conversation;

/// Encodes with a token for each byte; false where the conversation is refused.
bool encode(const Conversation& conversation, std::string_view name, meg::packing::LossOn loss_on,
            std::string& text, std::string& learned) {
  static const meg::test::ByteTokenizer tokenizer;
  const auto chat_template = meg::packing::builtin_template(name);
  meg::packing::ConversationEncoder encoder(*chat_template, tokenizer, meg::DType::kUint16,
                                            loss_on);
  meg::tokenizer::TokenBuffer tokens(meg::DType::kUint16);
  std::vector<uint8_t> mask;
  const meg::Status status = encoder.encode(conversation, tokens, mask);
  if (!status.ok()) {
    MEG_FUZZ_CHECK(status.message().find('\n') == std::string::npos);
    return false;
  }
  MEG_FUZZ_CHECK(static_cast<size_t>(tokens.size()) == mask.size());
  for (size_t i = 0; i < mask.size(); ++i) {
    MEG_FUZZ_CHECK(mask[i] <= 1);
    const char byte = static_cast<char>(tokens.at(static_cast<int64_t>(i)));
    text += byte;
    if (mask[i] == 1) learned += byte;
  }
  return true;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using meg::packing::LossOn;
  const auto conversation =
      meg::packing::read_conversation({reinterpret_cast<const char*>(data), size});
  if (!conversation.has_value()) {
    MEG_FUZZ_CHECK(conversation.error().message().find('\n') == std::string::npos);
    return 0;
  }
  const auto& messages = conversation->messages();
  std::string answers;
  std::string last;
  for (const size_t answer : conversation->answers) {
    MEG_FUZZ_CHECK(answer < messages.size() && messages[answer]["role"] == "assistant");
    const auto content = messages[answer].find("content");
    if (content == messages[answer].end() || !content->is_string()) return 0;
    last = content->get<std::string>() + "<|im_end|>";
    answers += last;
  }
  std::string text;
  std::string learned;
  if (encode(*conversation, "chatml", LossOn::kAssistant, text, learned)) {
    MEG_FUZZ_CHECK(learned == answers);
  }
  text.clear();
  learned.clear();
  if (encode(*conversation, "chatml", LossOn::kLastTurn, text, learned)) {
    MEG_FUZZ_CHECK(learned == last);
  }
  text.clear();
  learned.clear();
  if (encode(*conversation, "mistral", LossOn::kAll, text, learned)) {
    MEG_FUZZ_CHECK(learned == text);
  }
  return 0;
}
