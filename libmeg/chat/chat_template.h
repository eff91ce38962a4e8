#pragma once

#include <cstddef>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "libmeg/base/result.h"

namespace meg::chat {

/// A conversation as text.
struct RenderedChat {
  std::string text;
  /// Bytes [begin, end) of `text` that the template's `generation` blocks made: what the assistant
  /// says, where the template marks it.
  std::vector<std::pair<size_t, size_t>> generated;
};

/// A chat template of a tokenizer: what turns a conversation into the text that a model was trained
/// on. Templates are programs in Jinja; here they are interpreted, with what transformers gives
/// them and nothing else: no files, no Python, limited steps and memory. What of Jinja is missing
/// is refused by name. Any number of threads may render one template. Mirrors transformers'
/// utils/chat_template_utils.py: render_jinja_template.
class ChatTemplate {
 public:
  /// folder: of a tokenizer whose special tokens are variables, as in open(); empty: none.
  /// Errors: kInvalidArgument with the line where the source is no template; kUnsupported; those of
  /// the folder's file.
  static Result<ChatTemplate> parse(std::string_view source, const std::string& folder = "");

  /// The template of a tokenizer's folder: chat_template.jinja, or `chat_template` in
  /// tokenizer_config.json (of several ones `default`), with the special tokens of that file
  /// (`bos_token` ...) as variables. nullopt where the folder has none. Errors: those of the files.
  static Result<std::optional<ChatTemplate>> open(const std::string& folder);

  /// Whether the source has `generation` blocks.
  bool marks_generation() const;

  /// variables: a JSON object with `messages` (a list of {"role", "content"}) and whatever else the
  /// template looks at: `add_generation_prompt`, `tools`, `documents` ...; the last two are None
  /// unless given, and so are numbers beyond 64 bits refused.
  /// Errors: kInvalidArgument with the template's line and reason (of raise_exception among
  /// others), kUnsupported, kResourceExhausted where it does not come to an end within the limits.
  Result<RenderedChat> render(const nlohmann::ordered_json& variables) const;

  /// The conversation up to where the content of its last message ends, which must be a string:
  /// what a model continues. Errors also where the template does not write that content. Mirrors
  /// transformers' apply_chat_template(continue_final_message=True).
  Result<std::string> render_to_continue(nlohmann::ordered_json variables) const;

 private:
  struct Parsed;

  explicit ChatTemplate(std::shared_ptr<const Parsed> parsed) : parsed_(std::move(parsed)) {}

  std::shared_ptr<const Parsed> parsed_;
};

}  // namespace meg::chat
