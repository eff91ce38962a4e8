// run_text_generation_server without a model: the same server, with a stand-in for the engine.

#include <chrono>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "libmeg/tokenizer/registry/open_tokenizer.h"
#include "tests/serving/stand_in_engine.h"
#include "tools/common/flag_groups/text_server_flags.h"
#include "tools/common/report.h"

namespace meg::test {
namespace {

Result<std::string> write_messages(const serving::Conversation& conversation) {
  std::string text;
  for (const auto& [role, content] : conversation.messages) {
    if (content == "refuse") return Status(StatusCode::kInvalidArgument, "messages are refused");
    text += role + ": " + content + "\n";
  }
  if (conversation.continue_final_message) text.pop_back();
  for (const auto& [name, value] : conversation.variables.items()) {
    text += name + "=" + value.dump() + "\n";
  }
  return text + (conversation.add_generation_prompt ? "assistant:" : "");
}

int main(int argc, const char* const* argv) {
  tools::Flags flags("stand_in_server", "serves texts that no model wrote.");
  tokenizer::TokenizerOptions files;
  files.tokenizer_type = "GPT2BPETokenizer";
  StandInOptions engine;
  tools::TextServerFlags server;
  flags.value("--vocab-file", &files.vocab_file, "FILE", "GPT-2's vocab.json").required();
  flags.value("--merge-file", &files.merge_file, "FILE", "GPT-2's merges.txt").required();
  flags.value("--max-position-embeddings", &engine.max_positions, "N", "positions");
  flags.value("--slots", &engine.slots, "N", "texts at a time");
  flags.value("--step-microseconds", &engine.step_microseconds, "N", "what a step takes");
  flags.value("--failing-step", &engine.failing_step, "N", "the step that is an error");
  int64_t grace_milliseconds = server.grace.count();
  flags.value("--grace-milliseconds", &grace_milliseconds, "N", "for running texts at the end");
  bool chat = false;
  flags.toggle("--chat", &chat, "messages are written as `role: content`, a line each");
  tools::declare_text_server_flags(flags, server);
  if (const std::optional<int> code = flags.parse(argc, argv)) return *code;
  if (const Status usage = tools::check_text_server_flags(server); !usage.ok()) {
    return tools::fail_usage(usage);
  }
  const auto tokenizer = tokenizer::open_tokenizer(files);
  if (!tokenizer.has_value()) return tools::fail(tokenizer.error());
  engine.vocab_size = (*tokenizer)->vocab_size();
  engine.eod = (*tokenizer)->eod().value_or(-1);
  serving::ServedModel model;
  model.name = "stand-in";
  model.tokenizer = tokenizer->get();
  model.openai.id = model.name;
  model.openai.positions = engine.max_positions;
  model.openai.facts = {
      {"iteration", "5"}, {"layout", "torch, tensor 2, pipeline 2"}, {"memory of weights", "none"}};
  if (chat) model.openai.chat_template = write_messages;
  model.engine = std::make_unique<StandInEngine>(engine);
  server.grace = std::chrono::milliseconds(grace_milliseconds);
  const Status status = tools::serve_texts(server, std::move(model), "", 1234);
  return status.ok() ? 0 : tools::fail(status);
}

}  // namespace
}  // namespace meg::test

int main(int argc, char** argv) { return meg::test::main(argc, argv); }
