#include "libmeg/packing/internal/conversation_reader.h"

#include <algorithm>
#include <cstring>

#include "libmeg/packing/conversation.h"

namespace meg::packing {

void ConversationReader::begin_part(int64_t /*number*/) {
  tokens_.clear();
  mask_.clear();
  lengths_.clear();
  outcomes_.clear();
}

Status ConversationReader::begin_document(std::string_view json, bool /*has_list*/,
                                          const dataset::DocumentPlace& /*place*/) {
  const int64_t tokens = tokens_.size();
  const size_t masks = mask_.size();
  const Result<Outcome> outcome = take(json);
  const bool is_packed =
      outcome.has_value() && (*outcome == Outcome::kPacked || *outcome == Outcome::kTruncated);
  if (is_packed) {
    lengths_.push_back(static_cast<int32_t>(tokens_.size() - tokens));
  } else {
    tokens_.truncate(tokens);
    mask_.resize(masks);
  }
  if (outcome.has_value()) outcomes_.push_back(*outcome);
  return outcome.status();
}

Result<ConversationReader::Outcome> ConversationReader::take(std::string_view json) {
  MEG_ASSIGN_OR_RETURN(const Conversation conversation, read_conversation(json));
  if (conversation.messages().empty()) return Outcome::kEmpty;
  if (conversation.answers.empty() && options_.loss_on != LossOn::kAll) {
    return Outcome::kNoAssistant;
  }
  const int64_t first = tokens_.size();
  MEG_RETURN_IF_ERROR(encoder_.encode(conversation, tokens_, mask_));
  const Outcome outcome = cut_to_length(first);
  // Nothing predicts the first token.
  const auto begin = mask_.begin() + first;
  const bool has_loss = begin != mask_.end() && std::find(begin + 1, mask_.end(), 1) != mask_.end();
  return has_loss || outcome == Outcome::kTooLong ? outcome : Outcome::kNoLoss;
}

/// Of the conversation that begins at token `first`, the last one.
ConversationReader::Outcome ConversationReader::cut_to_length(int64_t first) {
  const int64_t most = options_.sequence_length + 1;
  const int64_t surplus = tokens_.size() - first - most;
  if (surplus <= 0) return Outcome::kPacked;
  if (options_.truncation == Truncation::kDrop) return Outcome::kTooLong;
  if (options_.truncation == Truncation::kLeft) {
    const auto item = static_cast<size_t>(tokens_.item_size());
    const auto kept = tokens_.bytes().last(static_cast<size_t>(most) * item);
    cut_.assign(kept.begin(), kept.end());
    tokens_.truncate(first);
    for (int64_t i = 0; i < most; ++i) {
      int32_t id = 0;
      std::memcpy(&id, cut_.data() + static_cast<size_t>(i) * item, item);
      tokens_.push_back(id);
    }
    mask_.erase(mask_.begin() + first, mask_.begin() + first + surplus);
  } else {
    tokens_.truncate(first + most);
    mask_.resize(static_cast<size_t>(first + most));
  }
  return Outcome::kTruncated;
}

Status ConversationReader::visit(std::string_view /*text*/) { return Status(); }

void ConversationReader::count(Outcome outcome) {
  ++summary_.conversations;
  switch (outcome) {
    case Outcome::kTruncated:
      ++summary_.truncated;
      break;
    case Outcome::kEmpty:
      ++summary_.empty;
      break;
    case Outcome::kNoAssistant:
      ++summary_.without_assistant;
      break;
    case Outcome::kNoLoss:
      ++summary_.without_loss;
      break;
    case Outcome::kTooLong:
      ++summary_.too_long;
      break;
    case Outcome::kPacked:
      break;
  }
}

Result<bool> ConversationReader::settle() {
  size_t packed = 0;
  for (const Outcome outcome : outcomes_) {
    if (summary_.conversations == options_.max_documents) break;
    count(outcome);
    if (outcome == Outcome::kPacked || outcome == Outcome::kTruncated) ++packed;
  }
  lengths_.resize(packed);
  first_token_ = spool_.reserve(lengths_);
  return summary_.conversations != options_.max_documents;
}

Status ConversationReader::pack() {
  int64_t tokens = 0;
  for (const int32_t length : lengths_) tokens += length;
  tokens_.truncate(tokens);
  mask_.resize(static_cast<size_t>(tokens));
  return spool_.write_at(first_token_, tokens_.bytes(), mask_);
}

}  // namespace meg::packing
