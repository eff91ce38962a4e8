#include "libmeg/model/hybrid_pattern.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <utility>

#include "libmeg/megatron/argument_table.h"
#include "libmeg/model/layer_lists.h"
#include "libmeg/text/printable.h"

namespace meg::model {
namespace {

Status check_num_layers(const HybridPattern& pattern, const megatron::ArgumentValues& args) {
  const megatron::FieldValue layers = args.field("num_layers").value_or(megatron::FieldValue());
  const int64_t expected = 2 * pattern.num_layers();
  if (!args.given("num_layers") || layers == megatron::FieldValue(expected)) return {};
  return make_error(StatusCode::kInvalidArgument,
                    "`num_layers`: expected {}, the layers of `hybrid_layer_pattern`, found {}",
                    expected, megatron::field_text(layers));
}

Status check_experts(const HybridPattern& pattern, const megatron::ArgumentValues& args) {
  if (pattern.has_experts() == args.has_any({"num_experts"})) return {};
  return pattern.has_experts()
             ? Status(StatusCode::kInvalidArgument,
                      "`hybrid_layer_pattern`: experts (E) need `num_experts`")
             : Status(StatusCode::kInvalidArgument,
                      "`num_experts`: expected experts (E) in `hybrid_layer_pattern`, found none");
}

}  // namespace

int64_t HybridPattern::num_layers() const {
  return std::accumulate(segments.begin(), segments.end(), int64_t{0});
}

bool HybridPattern::has_experts() const { return std::ranges::count(moe_layers, true) > 0; }

megatron::FieldValue HybridPattern::moe_layer_freq() const {
  const bool is_mixed = has_experts() && std::ranges::count(moe_layers, false) > 0;
  return is_mixed ? layer_list_field(moe_layers) : megatron::FieldValue(int64_t{1});
}

Result<HybridPattern> parse_hybrid_pattern(std::string_view text) {
  constexpr std::string_view kDense = "*-", kExperts = "*E";
  HybridPattern pattern{.segments = {0}};
  for (std::string_view rest = text; !rest.empty();) {
    const bool has_experts = rest.starts_with(kExperts);
    if (has_experts || rest.starts_with(kDense)) {
      ++pattern.segments.back();
      pattern.moe_layers.push_back(has_experts);
      rest.remove_prefix(kDense.size());
    } else if (rest.starts_with('|')) {
      pattern.segments.push_back(0);
      rest.remove_prefix(1);
    } else {
      pattern.segments.clear();
      break;
    }
  }
  if (pattern.num_layers() > 0) return pattern;
  return make_error(StatusCode::kUnsupported,
                    "expected alternating attention and MLP, as in *-*- or *-*E, for the layers of "
                    "a GPT model, found {}",
                    text::printable(text));
}

std::string hybrid_pattern_text(const HybridPattern& pattern) {
  std::string text;
  size_t layer = 0;
  for (size_t i = 0; i < pattern.segments.size(); ++i) {
    if (i > 0) text += '|';
    for (int64_t n = 0; n < pattern.segments[i]; ++n, ++layer) {
      text += layer < pattern.moe_layers.size() && pattern.moe_layers[layer] ? "*E" : "*-";
    }
  }
  return text;
}

Result<std::optional<HybridPattern>> take_hybrid_pattern(megatron::ArgumentValues& args) {
  const megatron::FieldLookup fields = args.lookup();
  megatron::FieldReader reader(fields);
  HybridArgs hybrid;
  hybrid.take_fields(reader);
  MEG_RETURN_IF_ERROR(reader.status());
  const std::optional<std::string>& older = hybrid.hybrid_override_pattern;
  if (hybrid.hybrid_layer_pattern.has_value() && older.has_value()) {
    return Status(StatusCode::kInvalidArgument,
                  "`hybrid_override_pattern`: cannot be combined with `hybrid_layer_pattern`, its "
                  "newer name");
  }
  const std::optional<std::string> text = older.has_value() ? older : hybrid.hybrid_layer_pattern;
  if (!text.has_value()) {
    if (!hybrid.is_hybrid_model) return std::optional<HybridPattern>();
    return Status(
        StatusCode::kUnsupported,
        "`is_hybrid_model`: expected `hybrid_layer_pattern`, found none, which stands for "
        "Mamba layers: they are not supported");
  }
  Result<HybridPattern> pattern = parse_hybrid_pattern(*text);
  if (!pattern.has_value()) {
    return pattern.error().with_prefix(older.has_value() ? "`hybrid_override_pattern`"
                                                         : "`hybrid_layer_pattern`");
  }
  MEG_RETURN_IF_ERROR(check_num_layers(*pattern, args));
  MEG_RETURN_IF_ERROR(check_experts(*pattern, args));
  args.give(*megatron::find_argument(megatron::ArgumentFamily::kTraining, "num_layers"),
            pattern->num_layers());
  args.set("moe_layer_freq", pattern->moe_layer_freq());
  args.set("hybrid_layer_pattern", {});
  args.set("hybrid_override_pattern", {});
  args.set("is_hybrid_model", false);
  return std::optional(*std::move(pattern));
}

Status take_hybrid_segments(const HybridPattern& pattern, megatron::ArgumentValues& args) {
  for (const char* field :
       {"decoder_first_pipeline_num_layers", "decoder_last_pipeline_num_layers",
        "account_for_embedding_in_pipeline_split", "account_for_loss_in_pipeline_split",
        "pipeline_model_parallel_layout", "num_layers_per_virtual_pipeline_stage",
        "num_virtual_stages_per_pipeline_rank"}) {
    if (!args.has_any({field})) continue;
    return make_error(StatusCode::kInvalidArgument,
                      "`{}`: cannot be combined with `hybrid_layer_pattern`, where | ends a stage",
                      field);
  }
  const auto segments = static_cast<int64_t>(pattern.segments.size());
  if (segments == 1) return {};
  const megatron::FieldLookup fields = args.lookup();
  const int64_t stages =
      megatron::FieldReader(fields).size("pipeline_model_parallel_size").value_or(1);
  if (stages == 1 || segments % stages != 0) {
    return make_error(StatusCode::kInvalidArgument,
                      "`hybrid_layer_pattern`: expected {} pipeline segment{}, as "
                      "`pipeline_model_parallel_size` says, found {}",
                      stages == 1 ? std::string("1") : fmt::format("a multiple of {}", stages),
                      stages == 1 ? "" : "s", segments);
  }
  std::string layout = "E";
  for (size_t i = 0; i < pattern.segments.size(); ++i) {
    if (i > 0) layout += '|';
    layout.append(static_cast<size_t>(pattern.segments[i]), 't');
  }
  args.set("pipeline_model_parallel_layout", layout + "L");
  return {};
}

}  // namespace meg::model
