#include "libmeg/preprocess/internal/run_settings.h"

#include "libmeg/base/version.h"
#include "libmeg/preprocess/run_journal.h"

namespace meg::preprocess {
namespace {

constexpr const char* kFormats[] = {"auto", "json", "csv", "txt"};      // by InputFormat
constexpr const char* kTxtDocuments[] = {"file", "line", "separated"};  // by TxtDocument

std::string one_line_of(const std::vector<std::string>& texts) {
  std::string all;
  for (const std::string& text : texts) all += (all.empty() ? "" : " ") + one_line(text);
  return all;
}

}  // namespace

std::vector<std::pair<std::string, std::string>> run_settings(const PreprocessOptions& options,
                                                              DType dtype) {
  const InputOptions& input = options.input;
  std::vector<std::pair<std::string, std::string>> settings = {
      // Another version may tokenize differently.
      {"libmeg", std::string(version())},
      {"json_keys", one_line_of(options.json_keys)},
      {"append_eod", fmt::format("{}", options.append_eod)},
      {"skip_empty_documents", fmt::format("{}", options.skip_empty_documents)},
      {"min_tokens", fmt::format("{}", options.min_tokens)},
  };
  if (const auto& sentences = options.sentences) {
    settings.emplace_back(
        "sentences", fmt::format("keep_newlines {}, max_characters {}", sentences->keep_newlines,
                                 sentences->max_characters));
  }
  settings.emplace_back("on_error", options.on_error == OnError::kSkip ? "skip" : "fail");
  settings.emplace_back("provenance", fmt::format("{}", options.provenance));
  settings.emplace_back("format", std::string(dataset::index_format_name(options.format)));
  settings.emplace_back("dtype", std::string(dtype_name(dtype)));
  settings.emplace_back("input_format", kFormats[static_cast<size_t>(input.format)]);
  settings.emplace_back("csv_columns", one_line_of(input.csv_columns));
  settings.emplace_back("csv_header", fmt::format("{}", input.csv_has_header));
  settings.emplace_back("txt_document", kTxtDocuments[static_cast<size_t>(input.txt_document)]);
  settings.emplace_back("txt_separator", one_line(input.txt_separator));
  return settings;
}

dataset::ShardRun shard_run(const PreprocessOptions& options, DType dtype,
                            const TextSource& source) {
  if (options.input.shard.count == 1) return {};
  dataset::ShardRun run = run_settings(options, dtype);
  run.insert(run.end(), options.shard_settings.begin(), options.shard_settings.end());
  run.emplace_back("inputs", source.shared_inputs());
  return run;
}

}  // namespace meg::preprocess
