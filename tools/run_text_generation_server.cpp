// Serves text generation with a trained model over HTTP. Stands for Megatron-LM
// tools/run_text_generation_server.py.

#include <fmt/format.h>

#include <csignal>
#include <ctime>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "libmeg/chat/chat_template.h"
#include "libmeg/generation/model_engine.h"
#include "tools/common/byte_size.h"
#include "tools/common/flag_groups/inference_flags.h"
#include "tools/common/flag_groups/text_server_flags.h"
#include "tools/common/interruption.h"
#include "tools/common/model_run.h"
#include "tools/common/passive_openmp.h"
#include "tools/common/report.h"

namespace meg::tools {
namespace {

struct Arguments {
  InferenceFlags inference;
  TextServerFlags server;
  int64_t max_batch_size = 16;
};

std::optional<int> parse(int argc, const char* const* argv, Arguments& arguments) {
  Flags flags("run_text_generation_server",
              "serves text generation with a trained GPT model over HTTP, with PUT /api as in "
              "Megatron's server.");
  flags.examples(
      {"run_text_generation_server --load checkpoints --vocab-file gpt2-vocab.json --merge-file "
       "gpt2-merges.txt --port 5000",
       "run_text_generation_server --load checkpoints --vocab-file gpt2-vocab.json --merge-file "
       "gpt2-merges.txt --bf16 --host 0.0.0.0 --allowed-hosts node17"});
  declare_text_server_flags(flags, arguments.server);
  flags
      .value("--max-batch-size", &arguments.max_batch_size, "N",
             "texts to generate at once; each needs memory")
      .range(1, 4096);
  constexpr std::string_view kOfRequests = "set by each request";
  declare_inference_flags(flags, megatron::ArgumentFamily::kTextGeneration,
                          {{"prompts", kOfRequests},
                           {"num_tokens_to_generate", kOfRequests},
                           {"return_log_probs", kOfRequests}},
                          arguments.inference);
  if (const std::optional<int> code = flags.parse(argc, argv)) return code;
  for (const Status& usage : {finish_inference_flags(flags, arguments.inference),
                              check_text_server_flags(arguments.server)}) {
    if (usage.ok()) continue;
    return fail_usage(usage);
  }
  return std::nullopt;
}

/// `354,871,296`
std::string grouped(int64_t number) {
  if (number < 1000) return std::to_string(number);
  return grouped(number / 1000) + fmt::format(",{:03}", number % 1000);
}

std::string_view dtype_name(at::ScalarType type) {
  return type == at::kHalf ? "fp16" : type == at::kBFloat16 ? "bf16" : "fp32";
}

/// What a user wants to know of a model before asking it. Sizes are those of this rank.
std::vector<std::pair<std::string, std::string>> facts_of(const Arguments& arguments,
                                                          const app::LoadedModel& loaded,
                                                          const serving::GenerationEngine& engine) {
  const nn::GptModel& model = loaded.model;
  const model::GptConfig& config = model.config();
  const auto element = static_cast<int64_t>(c10::elementSize(model.options().params_dtype));
  const model::ParallelSizes& sizes = model.part().sizes;
  const int64_t ranks = sizes.tensor_model_parallel_size * sizes.pipeline_model_parallel_size;
  const int64_t of_token = 2 * config.num_layers * config.num_query_groups * config.kv_channels;
  const int64_t tokens = engine.counters().max_held_tokens;
  std::vector<std::pair<std::string, std::string>> facts;
  if (loaded.iteration) facts.emplace_back("iteration", std::to_string(*loaded.iteration));
  facts.emplace_back("layout", loaded.layout);
  facts.emplace_back("parameters",
                     grouped(model.parameter_count()) +
                         (ranks == 1 ? "" : fmt::format(" on this of {} ranks", ranks)));
  facts.emplace_back(
      "model", fmt::format("{} layers, hidden size {}, {} heads, {} positions", config.num_layers,
                           config.hidden_size, config.num_attention_heads, loaded.sequence_length));
  facts.emplace_back("tokenizer",
                     fmt::format("{}, {} tokens", arguments.inference.tokenizer.tokenizer_type,
                                 loaded.tokenizer->vocab_size()));
  facts.emplace_back("computes in",
                     fmt::format("{} on {}", dtype_name(model.options().params_dtype),
                                 model.options().device.str()));
  facts.emplace_back("memory of weights", byte_size_text(model.parameter_count() * element));
  facts.emplace_back(
      "memory of cache",
      fmt::format("{} for {} tokens", byte_size_text(of_token * tokens * element / ranks),
                  grouped(tokens)));
  return facts;
}

/// The checkpoint's folder, as a person calls it.
std::string folder_name(const InferenceFlags& inference) {
  const std::filesystem::path folder = std::filesystem::path(inference.load) / "";
  return folder.parent_path().filename().string();
}

Result<std::string> write_conversation(const chat::ChatTemplate& chat,
                                       const serving::Conversation& conversation) {
  nlohmann::ordered_json variables = conversation.variables;
  nlohmann::ordered_json& messages = variables["messages"];
  for (const serving::ChatMessage& message : conversation.messages) {
    messages.push_back({{"role", message.role}, {"content", message.content}});
  }
  variables["add_generation_prompt"] = conversation.add_generation_prompt;
  if (conversation.continue_final_message) return chat.render_to_continue(std::move(variables));
  MEG_ASSIGN_OR_RETURN(chat::RenderedChat rendered, chat.render(variables));
  return std::move(rendered.text);
}

/// How the folder of the tokenizer's files says that conversations are written; empty where it says
/// nothing.
serving::ChatTemplate chat_template(const tokenizer::TokenizerOptions& tokenizer) {
  const std::string& file =
      tokenizer.tokenizer_model.empty() ? tokenizer.vocab_file : tokenizer.tokenizer_model;
  if (file.empty()) return {};
  std::error_code absent;
  const std::filesystem::path path(file);
  const bool is_folder = std::filesystem::is_directory(path, absent);
  const auto found = chat::ChatTemplate::open((is_folder ? path : path.parent_path()).string());
  if (!found.has_value()) {
    warning(fmt::format("{} (chat is refused)", found.error().message()));
    return {};
  }
  if (!found->has_value()) return {};
  return [chat = **found](const serving::Conversation& conversation) -> Result<std::string> {
    Result<std::string> text = write_conversation(chat, conversation);
    if (!text.has_value()) return text.error().with_prefix("messages: chat template");
    return text;
  };
}

Status serve(const Arguments& arguments, app::LoadedModel& loaded,
             const parallel::ParallelState& ranks) {
  generation::EngineOptions options;
  options.max_slots = arguments.max_batch_size;
  options.max_sequence_length = loaded.sequence_length;
  serving::ServedModel served;
  served.openai.id = folder_name(arguments.inference);
  served.openai.positions = loaded.sequence_length;
  served.openai.chat_template = chat_template(arguments.inference.tokenizer);
  served.openai.created = std::time(nullptr);
  served.name = served.openai.id;
  if (loaded.iteration) served.name += fmt::format(" at iteration {}", *loaded.iteration);
  served.tokenizer = loaded.tokenizer.get();
  MEG_ASSIGN_OR_RETURN(served.engine, generation::create_generation_engine(
                                          loaded.model, *loaded.tokenizer, options, ranks));
  served.openai.facts = facts_of(arguments, loaded, *served.engine);
  // Served nevertheless, so that /health can be asked what is wrong.
  if (const Status failure = served.engine->failure(); !failure.ok()) warning(failure.message());
  return serve_texts(arguments.server, std::move(served), arguments.inference.load,
                     arguments.inference.seed);
}

/// A launcher sends its signals to all ranks; the first one ends what the others do.
Status follow_server(nn::GptModel& model, const parallel::ParallelState& ranks) {
  stop_at_signals();
  MEG_RETURN_IF_ERROR(generation::follow_generation_engine(model, ranks));
  take_as_regular_end(SIGTERM);
  return {};
}

int main(int argc, const char* const* argv) {
  Arguments arguments;
  if (const std::optional<int> code = parse(argc, argv, arguments)) return *code;
  return run_model(arguments.inference,
                   {.lead =
                        [&](app::LoadedModel& loaded, const parallel::ParallelState& ranks) {
                          return serve(arguments, loaded, ranks);
                        },
                    .follow = follow_server});
}

}  // namespace
}  // namespace meg::tools

int main(int argc, char** argv) { return meg::tools::run_passively(argc, argv, meg::tools::main); }
