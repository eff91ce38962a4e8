#include "libmeg/model/pipeline_layout.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "libmeg/model/internal/pipeline_layout_text.h"
#include "libmeg/model/internal/proposals.h"

namespace meg::model {
namespace {

Status check_chunks(int64_t num_layers, int64_t chunks) {
  if (chunks >= 1 && chunks <= num_layers) return {};
  return make_error(StatusCode::kInvalidArgument,
                    "virtual-pipeline-model-parallel-size: expected 1 to {} (num_layers), found {}",
                    num_layers, chunks);
}

/// The interleaved schedule needs two stages at least, as Megatron asserts.
bool has_stages_for(int64_t chunks, int64_t stages) { return stages >= (chunks > 1 ? 2 : 1); }

/// What there is to split, for messages.
std::string places_text(int64_t num_layers, const PipelineSplit& split) {
  std::string text = fmt::format("num_layers {}", num_layers);
  if (split.account_for_embedding_in_pipeline_split) text += " and the embedding";
  if (split.account_for_loss_in_pipeline_split) text += " and the loss";
  return text;
}

Status check_one_kind(const PipelineSplit& split) {
  const bool has_ends = split.decoder_first_pipeline_num_layers.has_value() ||
                        split.decoder_last_pipeline_num_layers.has_value();
  const bool accounts =
      split.account_for_embedding_in_pipeline_split || split.account_for_loss_in_pipeline_split;
  if (split.pipeline_model_parallel_layout.has_value() && (has_ends || accounts)) {
    return Status(StatusCode::kInvalidArgument,
                  "pipeline-model-parallel-layout: cannot be combined with decoder-first- and "
                  "decoder-last-pipeline-num-layers and account-for-...");
  }
  if (!has_ends || !accounts) return {};
  return Status(StatusCode::kInvalidArgument,
                "decoder-first- and decoder-last-pipeline-num-layers: cannot be combined with "
                "account-for-embedding- and account-for-loss-in-pipeline-split");
}

}  // namespace

Result<PipelineLayout> PipelineLayout::create(int64_t num_layers, const ParallelSizes& sizes) {
  const PipelineSplit& split = sizes.split;
  PipelineLayout layout(sizes);
  MEG_RETURN_IF_ERROR(check_one_kind(split));
  if (split.pipeline_model_parallel_layout.has_value()) {
    MEG_RETURN_IF_ERROR(layout.split_as_told(num_layers, split));
  } else if (split.decoder_first_pipeline_num_layers.has_value() ||
             split.decoder_last_pipeline_num_layers.has_value()) {
    MEG_RETURN_IF_ERROR(layout.split_around_ends(num_layers, split));
  } else {
    MEG_RETURN_IF_ERROR(layout.split_evenly(num_layers, split));
  }
  return layout;
}

Status PipelineLayout::split_evenly(int64_t num_layers, const PipelineSplit& split) {
  const int64_t places = split.places(num_layers);
  const auto fits = [&](int64_t stages) {
    return has_stages_for(chunks_, stages) && stages <= places / chunks_ &&
           places % (stages * chunks_) == 0;
  };
  MEG_RETURN_IF_ERROR(check_chunks(num_layers, chunks_));
  if (!fits(stages_)) {
    const std::string all = places_text(num_layers, split);
    if (chunks_ > 1) {
      return make_error(StatusCode::kInvalidArgument,
                        "pipeline-model-parallel-size: {} with {} virtual stages each: expected at "
                        "least 2 whose product divides {}; sizes up to {} that do: {}",
                        stages_, chunks_, all, kLargestProposal, proposals(fits));
    }
    return make_error(StatusCode::kInvalidArgument,
                      "pipeline-model-parallel-size: {} does not divide {}; sizes up to {} that "
                      "do: {}",
                      stages_, all, kLargestProposal, proposals(fits));
  }
  first_ = middle_ = last_ = places / (stages_ * chunks_);
  embedding_takes_a_place_ = split.account_for_embedding_in_pipeline_split;
  loss_takes_a_place_ = split.account_for_loss_in_pipeline_split;
  return {};
}

Status PipelineLayout::split_around_ends(int64_t num_layers, const PipelineSplit& split) {
  MEG_RETURN_IF_ERROR(check_chunks(num_layers, chunks_));
  const auto& first = split.decoder_first_pipeline_num_layers;
  const auto& last = split.decoder_last_pipeline_num_layers;
  const int64_t between = stages_ - (first.has_value() ? 1 : 0) - (last.has_value() ? 1 : 0);
  const auto refused = [&](std::string_view expected) {
    return make_error(StatusCode::kInvalidArgument,
                      "decoder-first-pipeline-num-layers {}, decoder-last-pipeline-num-layers {}: "
                      "expected {} of num_layers {} and {} stages with {} virtual stages each",
                      first.has_value() ? fmt::to_string(*first) : "None",
                      last.has_value() ? fmt::to_string(*last) : "None", expected, num_layers,
                      stages_, chunks_);
  };
  if (!has_stages_for(chunks_, stages_)) return refused("a stage more");
  for (const auto& end : {first, last}) {
    if (end.has_value() && (*end < 1 || *end > num_layers || *end % chunks_ != 0)) {
      return refused("1 or more layers that the virtual stages divide");
    }
  }
  const int64_t rest = num_layers - first.value_or(0) - last.value_or(0);
  if (rest < 0 || between < 0 || (between == 0) != (rest == 0) ||
      (between > 0 && rest % (between * chunks_) != 0)) {
    return refused("layers for the other stages that divide evenly among them");
  }
  // Megatron divides by zero there.
  if (between == 0 && stages_ > 1 && chunks_ > 1) {
    return refused("a stage between those two, where there are virtual stages,");
  }
  middle_ = between > 0 ? rest / between / chunks_ : 0;
  first_ = first.has_value() ? *first / chunks_ : stages_ == 1 ? num_layers : middle_;
  last_ = last.has_value() ? *last / chunks_ : middle_;
  return {};
}

Status PipelineLayout::split_as_told(int64_t num_layers, const PipelineSplit& split) {
  MEG_ASSIGN_OR_RETURN(const std::vector<std::string> told,
                       parse_pipeline_layout(*split.pipeline_model_parallel_layout));
  MEG_RETURN_IF_ERROR(check_pipeline_layout(told, num_layers));
  const auto found = static_cast<int64_t>(told.size());
  // Both are at most as many as were found: their product fits.
  const bool fits = chunks_ >= 1 && has_stages_for(chunks_, stages_) && stages_ <= found &&
                    chunks_ <= found && stages_ * chunks_ == found;
  if (!fits) {
    return make_error(StatusCode::kInvalidArgument,
                      "pipeline-model-parallel-layout: expected {} pipeline stages with {} virtual "
                      "stages each, found {} in all",
                      stages_, chunks_, found);
  }
  for (const std::string& stage : told) {
    ends_.push_back((ends_.empty() ? 0 : ends_.back()) +
                    std::count(stage.begin(), stage.end(), kDecoderLayer));
  }
  return {};
}

int64_t PipelineLayout::first_layer(int64_t stage, int64_t chunk) const {
  if (is_first(stage, chunk)) return 0;
  if (!ends_.empty()) return ends_[static_cast<size_t>(chunk * stages_ + stage - 1)];
  const int64_t before = stage == 0 ? 0 : first_ + (stage - 1) * middle_;
  return chunk * layers_of_round() + before - (embedding_takes_a_place_ ? 1 : 0);
}

int64_t PipelineLayout::layers(int64_t stage, int64_t chunk) const {
  if (!ends_.empty()) {
    return ends_[static_cast<size_t>(chunk * stages_ + stage)] - first_layer(stage, chunk);
  }
  const int64_t places = stage == 0 ? first_ : stage == stages_ - 1 ? last_ : middle_;
  return places - (embedding_takes_a_place_ && is_first(stage, chunk) ? 1 : 0) -
         (loss_takes_a_place_ && is_last(stage, chunk) ? 1 : 0);
}

}  // namespace meg::model
