// Parses the command lines of standard input with one set of flags, for argparse_test.py: each line
// is words parted by \x1f, each answer a line of JSON, null for a usage error.

#include <iostream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "tools/common/flags/flags.h"

namespace meg::tools {
namespace {

nlohmann::json optional_json(const auto& value) {
  return value.has_value() ? nlohmann::json(*value) : nlohmann::json();
}

/// What argparse_test.py declares alike. positionals: the program takes FIRST and REST... too.
nlohmann::json parse(const std::vector<const char*>& words, bool positionals) {
  std::optional<int64_t> num_layers, num_layers_per_stage;
  std::optional<double> lr;
  std::optional<std::string> data_cache_path;
  std::string style = "linear";
  std::vector<std::string> data_path, json_keys = {"text"}, rest;
  std::string first;
  bool bf16 = false;
  bool bf16_moments = false;
  Flags flags("probe", "parses");
  flags.value("--num-layers", &num_layers, "N", "");
  flags.value("--num-layers-per-stage", &num_layers_per_stage, "N", "");
  flags.value("--lr", &lr, "LR", "");
  flags.value("--lr-decay-style", &style, "STYLE", "").choices({"constant", "linear", "cosine"});
  flags.value("--data-cache-path", &data_cache_path, "DIR", "");
  flags.list("--data-path", &data_path, "PREFIX", "");
  flags.list("--json-keys", &json_keys, "KEY", "").choices({"text", "title", "-", ""});
  flags.toggle("--bf16", &bf16, "");
  flags.toggle("--bf16-moments", &bf16_moments, "");
  if (positionals) {
    flags.positional("FIRST", &first, "");
    flags.positional_list("REST", &rest, "").optional();
  }
  std::ostringstream ignored;
  if (flags.parse(static_cast<int>(words.size()), words.data(), ignored, ignored).has_value()) {
    return {};
  }
  nlohmann::json answer = {{"num_layers", optional_json(num_layers)},
                           {"num_layers_per_stage", optional_json(num_layers_per_stage)},
                           {"lr", optional_json(lr)},
                           {"lr_decay_style", style},
                           {"data_cache_path", optional_json(data_cache_path)},
                           {"data_path", data_path},
                           {"json_keys", json_keys},
                           {"bf16", bf16},
                           {"bf16_moments", bf16_moments}};
  if (positionals) answer.update({{"first", first}, {"rest", rest}});
  return answer;
}

std::vector<std::string> split(const std::string& line) {
  std::vector<std::string> words;
  std::istringstream text(line);
  for (std::string word; std::getline(text, word, '\x1f');) words.push_back(word);
  return words;
}

}  // namespace
}  // namespace meg::tools

int main(int argc, char**) {
  for (std::string line; std::getline(std::cin, line);) {
    const std::vector<std::string> words = meg::tools::split(line);
    std::vector<const char*> argv;
    for (const std::string& word : words) argv.push_back(word.c_str());
    std::cout << meg::tools::parse(argv, argc > 1).dump() << '\n';
  }
}
