#include "libmeg/checkpoint/dialects/mp_rank/internal/flat_state.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <numeric>

#include "libmeg/base/float_convert.h"
#include "libmeg/checkpoint/dialects/mp_rank/internal/checkpoint_args.h"

namespace meg::checkpoint {
namespace {

/// Where parameters begin: at multiples of so many elements since core 0.8, before anywhere.
constexpr std::array<int64_t, 2> kAlignments = {64, 1};
/// What buckets are padded to multiples of since core 0.8, and for the bandwidth of NCCL.
constexpr int64_t kBucketAlignment = 128;
constexpr int64_t kBandwidthAlignment = 1 << 16;
/// Padding of buckets whose data-parallel size is not known is shorter than this.
constexpr int64_t kMaxPadding = 1 << 17;
constexpr const char* kUnpaddedKey = "per_bucket_numel_unpadded";

class StateParser {
 public:
  StateParser(const PickleGraph& graph, const std::function<const TensorView*(PickleId)>& tensor,
              const std::string& where)
      : graph_(graph), tensor_(tensor), where_(where) {}

  Result<std::vector<FlatState>> parse(PickleId root) {
    const PickleNode& node = graph_.node(root);
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
    std::vector<TensorView> tensors;
    for (const PickleId id : is_list ? node.children : std::vector{value}) {
      const TensorView* view = tensor_(id);
      if (view == nullptr || view->dtype != DType::kFloat32 || !view->is_contiguous()) {
        return unsupported(fmt::format("{}: {}: expected tensors of float32", state->name, kind),
                           id);
      }
      tensors.push_back(*view);
    }
    std::vector<int64_t> lengths;
    for (const TensorView& view : tensors) lengths.push_back(view.numel());
    if (!state->kinds.empty() && lengths != state->lengths) {
      return make_error(StatusCode::kCorruption,
                        "{}: {}: {}: expected {} elements as of {}, found {}", where_, state->name,
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
  const std::function<const TensorView*(PickleId)>& tensor_;
  const std::string& where_;
  std::optional<PickleId> unpadded_;
  bool is_coalesced_ = false;
  std::vector<FlatState> found_;
};

using Places = std::vector<FlatBuffer::Place>;

std::vector<Places> places_in_vector(const FlatState& state,
                                     std::span<const FlatParameter> parameters,
                                     const FlatRun& run) {
  const FlatBuffer buffer = lay_out_flat_buffer(parameters, {});
  const int64_t padding = state.lengths[0] - buffer.elements();
  const int64_t most = run.data_parallel_size.value_or(kMaxPadding);
  if (padding < 0 || padding >= most) return {};
  return {buffer.places};
}

std::vector<Places> places_in_buckets(const FlatState& state,
                                      std::span<const FlatParameter> parameters,
                                      const FlatRun& run) {
  const int64_t padding = run.data_parallel_size.value_or(kMaxPadding);
  std::vector<Places> found;
  for (const int64_t alignment : kAlignments) {
    // A bucket before a shared embedding counts with what aligns that.
    auto places = state.unpadded.has_value()
                      ? fill_flat_buckets(parameters, *state.unpadded, alignment, kMaxPadding, 1)
                      : fill_flat_buckets(parameters, state.lengths, alignment, padding, padding);
    if (places.has_value()) found.push_back(*std::move(places));
  }
  return found;
}

/// Buckets stand one after another without their padding; where they end only the run's rules say.
std::vector<Places> places_in_coalesced(const FlatState& state,
                                        std::span<const FlatParameter> parameters,
                                        const FlatRun& run) {
  std::vector<Places> found;
  for (const FlatBufferRules& rules : run.possible_rules()) {
    const FlatBuffer buffer = lay_out_flat_buffer(parameters, rules);
    if (buffer.elements() != state.lengths[0]) continue;
    Places places = buffer.coalesced_places();
    if (std::find(found.begin(), found.end(), places) == found.end()) {
      found.push_back(std::move(places));
    }
  }
  return found;
}

/// Whether a float32 rounds to these bytes: to nearest even, or half away from zero as kernels that
/// keep the lower half of the master beside the weight do.
bool rounds_to(float master, DType dtype, std::span<const std::byte> weight) {
  const auto rounds = [&](float value) {
    std::array<std::byte, 4> rounded;
    const auto into = std::span(rounded).first(weight.size());
    const Status done =
        convert_floats(DType::kFloat32, std::as_bytes(std::span(&value, 1)), dtype, into);
    return done.ok() && std::memcmp(into.data(), weight.data(), weight.size()) == 0;
  };
  if (rounds(master)) return true;
  float wide = 0;
  const Status done =
      convert_floats(dtype, weight, DType::kFloat32, std::as_writable_bytes(std::span(&wide, 1)));
  if (!done.ok()) return false;
  if (std::isnan(master) || std::isnan(wide)) return std::isnan(master) && std::isnan(wide);
  // A master half way between two weights, rounded away from zero: one step towards the weight it
  // rounds there to nearest as well.
  return rounds(std::nextafter(master, wide));
}

}  // namespace

/// args do not name the revision of core, and rules changed between revisions. So every combination
/// is tried, and those of equal length as the buffer are told apart by the numbers
/// (is_master_of()).
std::vector<FlatBufferRules> FlatRun::possible_rules() const {
  const int64_t size = data_parallel_size.value_or(1);
  const int64_t divisor = std::lcm(size, kBucketAlignment);
  std::vector<FlatBufferRules> found;
  for (const std::optional<int64_t> bucket : {bucket_size, std::optional<int64_t>()}) {
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

FlatRun FlatRun::of(const PickleGraph& graph, std::optional<PickleId> args, int64_t parameters) {
  FlatRun run;
  if (!args.has_value()) return run;
  const auto says = [&](std::string_view name) {
    const std::optional<PickleId> id = find_arg(graph, *args, name);
    return id.has_value() && graph.as_bool(*id).value_or(false);
  };
  const auto size = [&](std::string_view name) {
    const std::optional<int64_t> value = int_arg(graph, *args, name);
    constexpr int64_t kMost = 1 << 20;
    return value.has_value() && *value > 0 && *value <= kMost ? value : std::nullopt;
  };
  const int64_t replicas = size("data_parallel_size").value_or(1);
  if (size("data_parallel_size").has_value()) {
    run.data_parallel_size = replicas * size("context_parallel_size").value_or(1);
  }
  run.pads_for_bandwidth = says("ddp_pad_buckets_for_high_nccl_busbw");
  if (!says("overlap_grad_reduce")) return run;
  run.bucket_size = int_arg(graph, *args, "ddp_bucket_size");
  if (const std::optional<int64_t> buckets = size("ddp_num_buckets")) {
    run.bucket_size = parameters / *buckets;
  }
  // As Megatron chooses it where nobody does.
  constexpr int64_t kLeast = 40'000'000, kPerRank = 1'000'000;
  if (!run.bucket_size.has_value()) {
    run.bucket_size = std::max(kLeast, kPerRank * replicas);
  }
  return run;
}

Result<std::vector<FlatState>> parse_flat_states(
    const PickleGraph& graph, PickleId root,
    const std::function<const TensorView*(PickleId)>& tensor, const std::string& where) {
  return StateParser(graph, tensor, where).parse(root);
}

std::vector<Places> possible_places(const FlatState& state,
                                    std::span<const FlatParameter> parameters, const FlatRun& run) {
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

/// Samples at both ends and in the middle: a wrong layout shifts whole parameters, so a few numbers
/// tell, and reading everything twice would cost as much as converting it.
Result<bool> is_master_of(const TensorSource& master, const TensorSource& weight) {
  constexpr int64_t kSample = 16;
  const DType dtype = weight.dtype();
  const int64_t count = std::min(kSample, weight.elements());
  const auto item = static_cast<size_t>(dtype_size(dtype));
  std::vector<float> masters(static_cast<size_t>(count));
  std::vector<std::byte> weights(masters.size() * item);
  const int64_t last = weight.elements() - count;
  for (const int64_t first : {int64_t{0}, last / 2, last}) {
    MEG_RETURN_IF_ERROR(master.read(first, std::as_writable_bytes(std::span(masters))));
    MEG_RETURN_IF_ERROR(weight.read(first, weights));
    for (size_t i = 0; i < masters.size(); ++i) {
      if (!rounds_to(masters[i], dtype, std::span(weights).subspan(i * item, item))) return false;
    }
  }
  return true;
}

}  // namespace meg::checkpoint
