#include "libmeg/dataset/internal/libmeg_file.h"

#include <simdjson.h>

#include <string_view>
#include <utility>

#include "libmeg/dataset/internal/dataset_file.h"
#include "libmeg/text/json/json_text.h"

namespace meg::dataset {
namespace {

using simdjson::SUCCESS;

constexpr size_t kMaxBytes = size_t{1} << 20;

Status corrupt(const std::string& path, std::string_view expected) {
  return make_error(StatusCode::kCorruption, "{}: expected {}, found none", path, expected);
}

Result<std::string> read_text(const simdjson::dom::element& tokenizer, const char* key,
                              const std::string& path) {
  std::string_view text;
  if (tokenizer[key].get(text) != SUCCESS || text.empty()) {
    return corrupt(path, fmt::format("a string \"tokenizer\".\"{}\"", key));
  }
  return std::string(text);
}

Result<DatasetTokenizer> read_tokenizer(const simdjson::dom::element& tokenizer,
                                        const std::string& path) {
  DatasetTokenizer read;
  MEG_ASSIGN_OR_RETURN(read.type, read_text(tokenizer, "type", path));
  MEG_ASSIGN_OR_RETURN(read.identity, read_text(tokenizer, "identity", path));
  if (tokenizer["vocab_size"].get(read.vocab_size) != SUCCESS || read.vocab_size < 1) {
    return corrupt(path, "an integer \"tokenizer\".\"vocab_size\" from 1");
  }
  return read;
}

Result<ShardRun> read_run(const simdjson::dom::element& shard, const std::string& path) {
  ShardRun run;
  simdjson::dom::object fields;
  if (shard.get(fields) != SUCCESS) return corrupt(path, "an object \"shard\"");
  for (const auto& [name, value] : fields) {
    std::string_view text;
    if (value.get(text) != SUCCESS) return corrupt(path, "strings in \"shard\"");
    run.emplace_back(name, text);
  }
  return run;
}

Result<ViewOf> read_view(const simdjson::dom::element& view, const std::string& path) {
  std::string_view bin;
  ViewOf read;
  if (view["bin"].get(bin) != SUCCESS || view["bytes"].get(read.bytes) != SUCCESS) {
    return corrupt(path, "a \"view\" with \"bin\" and \"bytes\"");
  }
  read.bin = bin;
  std::string_view blocks;
  if (view["blocks"].get(blocks) == SUCCESS) read.blocks = blocks;
  return read;
}

}  // namespace

Result<LibmegFile> read_libmeg_file(const std::string& prefix) {
  const std::string path = dataset_tokenizer_path(prefix);
  LibmegFile read;
  MEG_ASSIGN_OR_RETURN(const std::optional<io::MappedFile> file, map_if_there(path));
  if (!file.has_value()) return read;
  if (file->size() > kMaxBytes) return corrupt(path, "at most a MiB of JSON");
  simdjson::dom::parser parser;
  simdjson::dom::element root, tokenizer, shard, view;
  const std::string_view text = file->text();
  const bool is_json = parser.parse(text.data(), text.size()).get(root) == SUCCESS;
  const bool has_tokenizer = is_json && root["tokenizer"].get(tokenizer) == SUCCESS;
  const bool has_shard = is_json && root["shard"].get(shard) == SUCCESS;
  const bool has_view = is_json && root["view"].get(view) == SUCCESS;
  if (!has_tokenizer && !has_shard && !has_view) {
    return corrupt(path, "a JSON object with a \"tokenizer\", a \"shard\" or a \"view\"");
  }
  if (has_tokenizer) {
    MEG_ASSIGN_OR_RETURN(read.tokenizer, read_tokenizer(tokenizer, path));
  }
  if (has_shard) {
    MEG_ASSIGN_OR_RETURN(read.shard_run, read_run(shard, path));
  }
  if (has_view) {
    MEG_ASSIGN_OR_RETURN(read.view, read_view(view, path));
  }
  return read;
}

std::string libmeg_json(const LibmegFile& file) {
  text::JsonText json;
  json.begin_object();
  if (file.tokenizer) {
    json.key("tokenizer");
    json.begin_object();
    json.key("type");
    json.string(file.tokenizer->type);
    json.key("identity");
    json.string(file.tokenizer->identity);
    json.key("vocab_size");
    json.number(file.tokenizer->vocab_size);
    json.end_object();
  }
  if (!file.shard_run.empty()) {
    json.key("shard");
    json.begin_object();
    for (const auto& [name, value] : file.shard_run) {
      json.key(name);
      json.string(value);
    }
    json.end_object();
  }
  if (file.view) {
    json.key("view");
    json.begin_object();
    json.key("bin");
    json.string(file.view->bin);
    json.key("bytes");
    json.number(file.view->bytes);
    if (!file.view->blocks.empty()) {
      json.key("blocks");
      json.string(file.view->blocks);
    }
    json.end_object();
  }
  json.end_object();
  return json.text() + "\n";
}

}  // namespace meg::dataset
