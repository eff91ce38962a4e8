// Says where pipeline layouts place layers: for each line of standard input, NUM_LAYERS STAGES
// CHUNKS FIRST LAST EMBEDDING LOSS LAYOUT (- where a field is None), a line of FIRST_LAYER:LAYERS
// for each chunk of each stage in turn, or of the error.

#include <fmt/format.h>

#include <iostream>
#include <optional>
#include <sstream>
#include <string>

#include "libmeg/model/pipeline_layout.h"

namespace {

using meg::model::ParallelSizes;
using meg::model::PipelineLayout;

std::optional<int64_t> number_of(const std::string& word) {
  return word == "-" ? std::nullopt : std::optional<int64_t>(std::stoll(word));
}

std::string answer(const std::string& line) {
  std::istringstream words(line);
  int64_t num_layers = 0;
  ParallelSizes sizes;
  std::string first, last, layout;
  words >> num_layers >> sizes.pipeline_model_parallel_size >>
      sizes.virtual_pipeline_model_parallel_size >> first >> last >>
      sizes.split.account_for_embedding_in_pipeline_split >>
      sizes.split.account_for_loss_in_pipeline_split >> layout;
  sizes.split.decoder_first_pipeline_num_layers = number_of(first);
  sizes.split.decoder_last_pipeline_num_layers = number_of(last);
  if (layout != "-") sizes.split.pipeline_model_parallel_layout = layout;
  const meg::Result<PipelineLayout> found = PipelineLayout::create(num_layers, sizes);
  if (!found) return "error: " + found.status().message();
  std::string text;
  for (int64_t stage = 0; stage < found->stages(); ++stage) {
    for (int64_t chunk = 0; chunk < found->chunks(); ++chunk) {
      text += fmt::format("{}:{} ", found->first_layer(stage, chunk), found->layers(stage, chunk));
    }
  }
  return text;
}

}  // namespace

int main() {
  for (std::string line; std::getline(std::cin, line);) fmt::print("{}\n", answer(line));
}
