#include "libmeg/checkpoint/dialects/mp_rank/internal/optimizer/flat_state.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <numeric>

#include "libmeg/checkpoint/container/torch_file/tensor_view.h"
#include "libmeg/checkpoint/dialects/mp_rank/internal/args/checkpoint_args.h"

// Reads distrib_optim.pt, whose forms FORMAT.md lists: one vector, a tensor for each bucket, or
// concatenated buckets. Which rules laid the buffer out depends on the revision and the flags of
// the run, which the file does not name. So possible layouts are computed, and the one whose
// masters fit the weights is taken.

namespace meg::checkpoint {
namespace {

/// Alignment of parameters in elements: since core 0.8, and before, when there was none.
constexpr std::array<int64_t, 2> kAlignments = {64, 1};
/// What buckets are padded to multiples of since core 0.8, and for the bandwidth of NCCL.
constexpr int64_t kBucketAlignment = 128;
constexpr int64_t kBandwidthAlignment = 1 << 16;
/// Padding of buckets whose data-parallel size is not known is shorter than this.
constexpr int64_t kMaxPadding = 1 << 17;
constexpr const char* kUnpaddedKey = "per_bucket_numel_unpadded";

using TensorOf = std::function<std::shared_ptr<const TensorSource>(PickleId)>;

class StateParser {
 public:
  StateParser(const PickleGraph& graph, const TensorOf& tensor, const std::string& where)
      : graph_(graph), tensor_(tensor), where_(where) {}

  Result<std::vector<FlatState>> parse(PickleId root) {
    const PickleNode& node = graph_.node(root);
    // Core wraps the optimizer in a list of one where it chains optimizers.
    if (node.kind == PickleKind::kList && node.children.size() == 1) root = node.children[0];
    if (graph_.node(root).kind != PickleKind::kDict) {
      return unsupported("expected the buffers of one optimizer", root);
    }
    unpadded_ = graph_.find(root, kUnpaddedKey);
    is_coalesced_ = graph_.find(root, "buckets_coalesced").has_value();
    const std::span<const PickleId> pairs = graph_.pairs(root);
    for (size_t i = 0; i + 1 < pairs.size(); i += 2) {
      const std::optional<int64_t> buffer = graph_.as_int(pairs[i]);
      if (!buffer.has_value()) continue;
      // Numbers count buffers over all chunks: a hole would give later parameters the states of
      // others.
      if (*buffer != static_cast<int64_t>(found_.size())) {
        return unsupported(fmt::format("expected buffer {} next", found_.size()), pairs[i]);
      }
      MEG_RETURN_IF_ERROR(add_buffer(pairs[i + 1]));
    }
    if (found_.empty()) return unsupported("expected numbered buffers", root);
    return std::move(found_);
  }

 private:
  Status unsupported(std::string_view expected, PickleId found) const {
    return make_error(StatusCode::kUnsupported, "{}: {}, found {}", where_, expected,
                      graph_.describe(found, 100));
  }

  /// {dtype: {kind: tensor or list of tensors, numel_unpadded: ...}}
  Status add_buffer(PickleId dict) {
    const std::span<const PickleId> types = graph_.pairs(dict);
    if (types.size() != 2) return unsupported("expected a buffer of one type", dict);
    FlatState& state = found_.emplace_back();
    state.name = fmt::format("[{}][{}]", found_.size() - 1, graph_.describe(types[0], 60));
    if (state.name.find("uint8") != std::string::npos) {
      return make_error(StatusCode::kUnsupported, "{}: {}: parameters of fp8 are not supported yet",
                        where_, state.name);
    }
    const std::span<const PickleId> pairs = graph_.pairs(types[1]);
    for (size_t i = 0; i + 1 < pairs.size(); i += 2) {
      const std::optional<std::string_view> key = graph_.as_string(pairs[i]);
      if (key == "numel_unpadded") {
        state.unpadded = {graph_.as_int(pairs[i + 1]).value_or(-1)};
      } else {
        MEG_RETURN_IF_ERROR(add_kind(std::string(key.value_or("")), pairs[i + 1], &state));
      }
    }
    if (state.kinds.empty()) return unsupported("expected tensors", types[1]);
    if (state.form == FlatState::Form::kBuckets) read_unpadded(&state);
    return check(state);
  }

  Status add_kind(const std::string& kind, PickleId value, FlatState* state) {
    const PickleNode& node = graph_.node(value);
    const bool is_list = node.kind == PickleKind::kList;
    state->form = is_list         ? FlatState::Form::kBuckets
                  : is_coalesced_ ? FlatState::Form::kCoalesced
                                  : FlatState::Form::kVector;
    std::vector<std::shared_ptr<const TensorSource>> tensors;
    std::vector<int64_t> lengths;
    for (const PickleId id : is_list ? node.children : std::vector{value}) {
      std::shared_ptr<const TensorSource> tensor = tensor_(id);
      if (tensor == nullptr || tensor->dtype() != DType::kFloat32) {
        return unsupported(fmt::format("{}: {}: expected tensors of float32", state->name, kind),
                           id);
      }
      lengths.push_back(tensor->elements());
      tensors.push_back(std::move(tensor));
    }
    // All kinds share one layout: it is found once.
    if (!state->kinds.empty() && lengths != state->lengths) {
      return make_error(StatusCode::kCorruption,
                        "{}: {}: {}: expected {} elements as for {}, found {}", where_, state->name,
                        kind, shape_text(state->lengths), state->kinds.begin()->first,
                        shape_text(lengths));
    }
    state->lengths = std::move(lengths);
    state->kinds[kind] = std::move(tensors);
    return Status();
  }

  /// [{dtype: [elements, ...]}, ...]: a dict a buffer.
  void read_unpadded(FlatState* state) {
    if (!unpadded_.has_value()) return;
    const std::vector<PickleId>& buffers = graph_.node(*unpadded_).children;
    const size_t index = found_.size() - 1;
    if (graph_.node(*unpadded_).kind != PickleKind::kList || index >= buffers.size()) return;
    const std::span<const PickleId> types = graph_.pairs(buffers[index]);
    if (types.size() != 2) return;
    std::vector<int64_t> elements;
    for (const PickleId id : graph_.node(types[1]).children) {
      elements.push_back(graph_.as_int(id).value_or(-1));
    }
    state->unpadded = std::move(elements);
  }

  Status check(const FlatState& state) const {
    for (const char* kind : {"param", "exp_avg", "exp_avg_sq"}) {
      if (state.kinds.contains(kind)) continue;
      return make_error(StatusCode::kCorruption, "{}: {}: expected {}, found none", where_,
                        state.name, kind);
    }
    if (!state.unpadded.has_value()) return Status();
    bool fits = state.unpadded->size() == state.lengths.size();
    for (size_t i = 0; fits && i < state.lengths.size(); ++i) {
      fits = (*state.unpadded)[i] >= 0 && (*state.unpadded)[i] <= state.lengths[i];
    }
    if (fits) return Status();
    return make_error(StatusCode::kCorruption, "{}: {}: expected buckets of {} elements, found {}",
                      where_, state.name, shape_text(*state.unpadded), shape_text(state.lengths));
  }

  const PickleGraph& graph_;
  const TensorOf& tensor_;
  const std::string& where_;
  std::optional<PickleId> unpadded_;
  bool is_coalesced_ = false;
  std::vector<FlatState> found_;
};

void add_places(std::vector<FlatBuffer::Place> places, int64_t alignment,
                std::vector<FlatPlaces>* found) {
  const auto known = std::find_if(found->begin(), found->end(),
                                  [&](const FlatPlaces& way) { return way.places == places; });
  if (known == found->end()) {
    found->push_back({.places = std::move(places), .alignment = alignment});
  } else if (known->alignment != alignment) {
    known->alignment.reset();
  }
}

std::vector<FlatPlaces> places_in_vector(const FlatState& state,
                                         std::span<const FlatParameter> parameters,
                                         const FlatRun& run) {
  // Without rules there is one bucket, and nothing is aligned.
  const FlatBuffer buffer = lay_out_flat_buffer(parameters, {});
  const int64_t padding = state.lengths[0] - buffer.elements();
  const int64_t most = run.data_parallel_size.value_or(kMaxPadding);
  if (padding < 0 || padding >= most) return {};
  return {{.places = buffer.places, .alignment = 1}};
}

std::vector<FlatPlaces> places_in_buckets(const FlatState& state,
                                          std::span<const FlatParameter> parameters,
                                          const FlatRun& run) {
  const int64_t padding = run.data_parallel_size.value_or(kMaxPadding);
  std::vector<FlatPlaces> found;
  for (const int64_t alignment : kAlignments) {
    // Lengths without padding must be filled to the last element, save for a bucket before a shared
    // embedding, which counts with what aligns that. Padded ones may have room below the padding.
    auto places = state.unpadded.has_value()
                      ? fill_flat_buckets(parameters, *state.unpadded, alignment, kMaxPadding, 1)
                      : fill_flat_buckets(parameters, state.lengths, alignment, padding, padding);
    if (places.has_value()) add_places(*std::move(places), alignment, &found);
  }
  return found;
}

/// Buckets are concatenated without their padding; only the run's rules tell where they end.
std::vector<FlatPlaces> places_in_coalesced(const FlatState& state,
                                            std::span<const FlatParameter> parameters,
                                            const FlatRun& run) {
  int64_t elements = 0;
  for (const FlatParameter& parameter : parameters) elements += parameter.elements;
  std::vector<FlatPlaces> found;
  // Lengths cannot tell rules apart that end with the same number of elements: all of them are
  // tried.
  for (const FlatBufferRules& rules : run.possible_rules(elements)) {
    const FlatBuffer buffer = lay_out_flat_buffer(parameters, rules);
    if (buffer.elements() != state.lengths[0]) continue;
    add_places(buffer.coalesced_places(), rules.alignment, &found);
  }
  return found;
}

}  // namespace

/// args do not name the revision of core, and rules changed between revisions. So every combination
/// is tried, and the numbers decide among those that give the buffer's length
/// (cut_flat_states()).
std::vector<FlatBufferRules> FlatRun::possible_rules(int64_t elements) const {
  const std::optional<int64_t> chosen =
      num_buckets.has_value() ? std::optional(elements / *num_buckets) : bucket_size;
  const int64_t size = data_parallel_size.value_or(1);
  const int64_t divisor = std::lcm(size, kBucketAlignment);
  std::vector<FlatBufferRules> found;
  for (const std::optional<int64_t> bucket : {chosen, std::optional<int64_t>()}) {
    for (const bool splits : {true, false}) {
      for (const int64_t split_divisor : {int64_t{1}, size}) {
        found.push_back({.alignment = kAlignments[0],
                         .bucket_divisor =
                             pads_for_bandwidth ? std::lcm(divisor, kBandwidthAlignment) : divisor,
                         .bucket_size = bucket,
                         .splits_shared_embedding = splits,
                         .split_divisor = split_divisor});
      }
      found.push_back({.alignment = 1,
                       .bucket_divisor = size,
                       .bucket_size = bucket,
                       .splits_shared_embedding = splits,
                       .split_divisor = 1});
    }
  }
  return found;
}

FlatRun FlatRun::of_experts(int64_t tensor_model_parallel_size, int64_t expert_tensor_parallel_size,
                            int64_t expert_model_parallel_size) const {
  FlatRun run = *this;
  if (run.data_parallel_size.has_value()) {
    run.data_parallel_size =
        std::max<int64_t>(1, *data_parallel_size * tensor_model_parallel_size /
                                 expert_tensor_parallel_size / expert_model_parallel_size);
  }
  return run;
}

FlatRun FlatRun::of(const PickleGraph& graph, std::optional<PickleId> args) {
  FlatRun run;
  if (!args.has_value()) return run;
  const auto says = [&](std::string_view name) {
    const std::optional<PickleId> id = find_arg(graph, *args, name);
    return id.has_value() && graph.as_bool(*id).value_or(false);
  };
  const auto size = [&](std::string_view name) { return size_arg(graph, *args, name); };
  const int64_t replicas = size("data_parallel_size").value_or(1);
  if (size("data_parallel_size").has_value()) {
    run.data_parallel_size = replicas * size("context_parallel_size").value_or(1);
  }
  run.pads_for_bandwidth = says("ddp_pad_buckets_for_high_nccl_busbw");
  if (!says("overlap_grad_reduce")) return run;
  run.bucket_size = int_arg(graph, *args, "ddp_bucket_size");
  run.num_buckets = size("ddp_num_buckets");
  // Megatron's default.
  constexpr int64_t kLeast = 40'000'000, kPerRank = 1'000'000;
  if (!run.bucket_size.has_value()) {
    run.bucket_size = std::max(kLeast, kPerRank * replicas);
  }
  return run;
}

Result<std::vector<FlatState>> parse_flat_states(const PickleGraph& graph, PickleId root,
                                                 const TensorOf& tensor, const std::string& where) {
  return StateParser(graph, tensor, where).parse(root);
}

std::vector<FlatPlaces> possible_places(const FlatState& state,
                                        std::span<const FlatParameter> parameters,
                                        const FlatRun& run) {
  switch (state.form) {
    case FlatState::Form::kVector:
      return places_in_vector(state, parameters, run);
    case FlatState::Form::kBuckets:
      return places_in_buckets(state, parameters, run);
    case FlatState::Form::kCoalesced:
      return places_in_coalesced(state, parameters, run);
  }
  return {};
}

}  // namespace meg::checkpoint
