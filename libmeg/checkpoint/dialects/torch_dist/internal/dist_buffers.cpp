#include "libmeg/checkpoint/dialects/torch_dist/internal/dist_buffers.h"

#include <fmt/format.h>

#include <charconv>
#include <map>
#include <memory>
#include <optional>
#include <utility>

#include "libmeg/checkpoint/state/piece.h"
#include "libmeg/text/printable.h"

// Such buffers have no names of parameters: they are one object (dp_zero_gather_scatter), or
// tensors named by buffer, dtype and bucket (dp_reshardable). Either becomes the FlatState that
// readers of distrib_optim.pt use as well.

namespace meg::checkpoint {
namespace {

using Source = std::shared_ptr<const TensorSource>;

/// The only value of a dict; nullopt where there are more or fewer.
std::optional<PickleId> only_value(const PickleGraph& graph, PickleId dict) {
  const std::span<const PickleId> pairs = graph.pairs(dict);
  return pairs.size() == 2 ? std::optional(pairs[1]) : std::nullopt;
}

bool is_sequence(const PickleNode& node) {
  return node.kind == PickleKind::kList || node.kind == PickleKind::kTuple;
}

/// The only element of a list or tuple, in which Megatron wraps some values; the node itself where
/// it is neither.
PickleId unwrapped(const PickleGraph& graph, PickleId id) {
  const PickleNode& node = graph.node(id);
  return is_sequence(node) && node.children.size() == 1 ? node.children[0] : id;
}

const DistObject* find_object(const DistFolder& folder, const std::string& key) {
  for (const DistObject& object : folder.metadata().objects) {
    if (object.name.starts_with(key + "/shard_")) return &object;
  }
  return nullptr;
}

/// Reads the number in `name` at `at` and moves `at` past it.
std::optional<size_t> take_number(std::string_view name, size_t* at) {
  size_t number = 0;
  const char* end = name.data() + name.size();
  const auto [stop, error] = std::from_chars(name.data() + *at, end, number);
  if (error != std::errc()) return std::nullopt;
  *at = static_cast<size_t>(stop - name.data());
  return number;
}

/// PREFIX.gbuf_idx_0.dtype_(torch.bfloat16, torch.float32).bucket_idx_3.exp_avg
struct BucketName {
  size_t buffer = 0;
  std::string dtype;
  size_t bucket = 0;
  std::string kind;
};

/// start: the position of the buffer's number.
std::optional<BucketName> parse_bucket_name(std::string_view name, size_t start) {
  constexpr std::string_view kBucket = ".bucket_idx_";
  BucketName found;
  size_t at = start;
  const std::optional<size_t> buffer = take_number(name, &at);
  const size_t dot = name.find(kBucket, at);
  if (!buffer.has_value() || dot == name.npos) return std::nullopt;
  found.buffer = *buffer;
  found.dtype = name.substr(at, dot - at);
  at = dot + kBucket.size();
  const std::optional<size_t> bucket = take_number(name, &at);
  if (!bucket.has_value() || at >= name.size() || name[at] != '.') return std::nullopt;
  found.bucket = *bucket;
  found.kind = name.substr(at + 1);
  return found;
}

class BufferReader {
 public:
  BufferReader(const DistFolder& folder, const std::string& prefix)
      : folder_(folder), prefix_(prefix) {}

  Result<std::vector<FlatState>> read() {
    const DistObject* object = find_object(folder_, prefix_ + ".param_state");
    if (object != nullptr) return read_object(*object);
    MEG_RETURN_IF_ERROR(find_tensors());
    MEG_RETURN_IF_ERROR(read_tensors());
    MEG_RETURN_IF_ERROR(read_lengths());
    return std::move(states_);
  }

 private:
  /// A tensor's buckets by their numbers, of one kind of state.
  using Buckets = std::map<size_t, const DistTensor*>;

  Status unsupported(std::string_view what) const {
    return make_error(
        StatusCode::kUnsupported,
        "{}: {}: {}: the distributed optimizer's buffers of such a run are not supported yet",
        folder_.path(), prefix_, what);
  }

  Status find_tensors() {
    const std::string start = prefix_ + ".gbuf_idx_";
    for (const DistTensor& tensor : folder_.metadata().tensors) {
      if (!tensor.name.starts_with(start)) continue;
      const std::optional<BucketName> name = parse_bucket_name(tensor.name, start.size());
      if (!name.has_value() || tensor.shape.size() != 1) {
        return unsupported(text::printable(tensor.name, 200));
      }
      const auto [dtype, is_new] = dtypes_.try_emplace(name->buffer, name->dtype);
      if (dtype->second != name->dtype) return unsupported("several types in a buffer");
      found_[name->buffer][name->kind][name->bucket] = &tensor;
    }
    if (!found_.empty()) return {};
    return make_error(StatusCode::kNotFound, "{}: expected {}0..., found none", folder_.path(),
                      start);
  }

  Status read_tensors() {
    for (const auto& [number, kinds] : found_) {
      if (number != states_.size()) return unsupported("buffers that are not numbered from 0");
      FlatState& state = states_.emplace_back();
      state.name = fmt::format("gbuf_idx_{}", number);
      state.form = FlatState::Form::kBuckets;
      for (const auto& [kind, buckets] : kinds) {
        MEG_RETURN_IF_ERROR(read_kind(kind, buckets, &state));
      }
    }
    return {};
  }

  Status read_kind(const std::string& kind, const Buckets& buckets, FlatState* state) const {
    std::vector<int64_t> lengths;
    for (const auto& [bucket, tensor] : buckets) {
      if (bucket != lengths.size()) return unsupported("buckets that are not numbered from 0");
      MEG_ASSIGN_OR_RETURN(Source source, folder_.box_source(*tensor, Box::whole(tensor->shape)));
      lengths.push_back(source->elements());
      state->kinds[kind].push_back(std::move(source));
    }
    if (state->lengths.empty()) state->lengths = lengths;
    if (state->lengths != lengths) return unsupported("buckets of different lengths for " + kind);
    return {};
  }

  /// [{(param dtype, grad dtype): [elements, ...]}, ...]: a dict a buffer, a number a bucket.
  Status read_lengths() {
    const DistObject* object = find_object(folder_, prefix_ + ".per_bucket_numel_unpadded");
    if (object == nullptr) return unsupported("no per_bucket_numel_unpadded");
    MEG_ASSIGN_OR_RETURN(const TorchFileParts parts,
                         folder_.read_value(object->blob, object->name));
    const PickleGraph& graph = parts.graph;
    PickleId root = unwrapped(graph, parts.root);
    std::vector<PickleId> dicts = {root};
    if (is_sequence(graph.node(root))) dicts = graph.node(root).children;
    if (dicts.size() != states_.size()) {
      return unsupported("per_bucket_numel_unpadded " + graph.describe(parts.root, 80));
    }
    for (size_t b = 0; b < states_.size(); ++b) {
      const std::optional<PickleId> lengths = only_value(graph, unwrapped(graph, dicts[b]));
      if (!lengths.has_value() ||
          graph.node(*lengths).children.size() != states_[b].lengths.size()) {
        return unsupported("per_bucket_numel_unpadded " + graph.describe(parts.root, 80));
      }
      MEG_RETURN_IF_ERROR(read_lengths(graph, *lengths, &states_[b]));
    }
    return {};
  }

  Status read_lengths(const PickleGraph& graph, PickleId lengths, FlatState* state) const {
    std::vector<int64_t>& unpadded = state->unpadded.emplace();
    for (size_t i = 0; i < state->lengths.size(); ++i) {
      const int64_t elements = graph.as_int(graph.node(lengths).children[i]).value_or(-1);
      unpadded.push_back(elements);
      if (elements >= 0 && elements <= state->lengths[i]) continue;
      return make_error(StatusCode::kCorruption,
                        "{}: {}.{}: bucket {}: expected {} elements, found {}", folder_.path(),
                        prefix_, state->name, i, elements, state->lengths[i]);
    }
    return {};
  }

  Result<std::vector<FlatState>> read_object(const DistObject& object) const {
    MEG_ASSIGN_OR_RETURN(const TorchFileParts parts, folder_.read_value(object.blob, object.name));
    const auto tensor = [&](PickleId id) -> Source {
      const auto view = parts.tensors.views.find(id);
      if (view == parts.tensors.views.end() || !view->second.is_contiguous()) return nullptr;
      return folder_.view_source(parts, view->second, object);
    };
    return parse_flat_states(parts.graph, unwrapped(parts.graph, parts.root), tensor,
                             fmt::format("{}: {}", folder_.path(), object.name));
  }

  const DistFolder& folder_;
  const std::string& prefix_;
  std::map<size_t, std::map<std::string, Buckets>> found_;  // by buffer and kind
  std::map<size_t, std::string> dtypes_;                    // of each buffer
  std::vector<FlatState> states_;
};

}  // namespace

Result<std::vector<FlatState>> read_dist_buffers(const DistFolder& folder,
                                                 const std::string& prefix) {
  return BufferReader(folder, prefix).read();
}

}  // namespace meg::checkpoint
