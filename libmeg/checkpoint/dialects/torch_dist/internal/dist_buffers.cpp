#include "libmeg/checkpoint/dialects/torch_dist/internal/dist_buffers.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "libmeg/checkpoint/state/piece.h"
#include "libmeg/text/printable.h"

namespace meg::checkpoint {
namespace {

using Source = std::shared_ptr<const TensorSource>;

constexpr std::string_view kBufferName = ".gbuf_idx_";
constexpr std::string_view kBucketName = ".bucket_idx_";

/// The only value of a dict; nullopt where there are more or fewer.
std::optional<PickleId> only_value(const PickleGraph& graph, PickleId dict) {
  const std::span<const PickleId> pairs = graph.pairs(dict);
  return pairs.size() == 2 ? std::optional(pairs[1]) : std::nullopt;
}

/// The only element of a list or tuple; the node itself where it is neither.
std::optional<PickleId> only_element(const PickleGraph& graph, std::optional<PickleId> id) {
  if (!id.has_value()) return std::nullopt;
  const PickleNode& node = graph.node(*id);
  if (node.kind != PickleKind::kList && node.kind != PickleKind::kTuple) return id;
  return node.children.size() == 1 ? std::optional(node.children[0]) : std::nullopt;
}

const DistObject* find_object(const DistFolder& folder, const std::string& key) {
  for (const DistObject& object : folder.metadata().objects) {
    if (object.name.starts_with(key + "/shard_")) return &object;
  }
  return nullptr;
}

}  // namespace

Status DistBuffers::unsupported(std::string_view what) const {
  return make_error(StatusCode::kUnsupported,
                    "{}: {}: {}: the distributed optimizer's buffers of such a run are not "
                    "supported yet",
                    folder_->path(), prefix_, what);
}

Result<DistBuffers> DistBuffers::open(const DistFolder& folder, int64_t rank) {
  DistBuffers buffers(folder, fmt::format("{}{}", kDistBufferPrefix, rank));
  const DistObject* object = find_object(folder, buffers.prefix_ + ".param_state");
  if (object != nullptr) {
    MEG_RETURN_IF_ERROR(buffers.read_object(*object));
  } else {
    MEG_RETURN_IF_ERROR(buffers.read_tensors());
    MEG_RETURN_IF_ERROR(buffers.read_lengths());
  }
  return buffers;
}

/// PREFIX.gbuf_idx_0.dtype_(torch.bfloat16, torch.float32).bucket_idx_3.exp_avg
Status DistBuffers::read_tensors() {
  const std::string start = fmt::format("{}{}", prefix_, kBufferName);
  std::string buffer;
  std::map<std::string, std::map<size_t, Source>> found;
  for (const DistTensor& tensor : folder_->metadata().tensors) {
    if (!tensor.name.starts_with(start)) continue;
    const std::string_view name = tensor.name;
    const size_t at = name.find(kBucketName);
    const size_t dot = at == name.npos ? at : name.find('.', at + kBucketName.size());
    if (dot == name.npos) return unsupported(text::printable(name, 200));
    if (buffer.empty()) buffer = name.substr(0, at);
    if (buffer != name.substr(0, at)) return unsupported("several buffers");
    const std::string_view number =
        name.substr(at + kBucketName.size(), dot - at - kBucketName.size());
    size_t bucket = 0;
    const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), bucket);
    if (error != std::errc() || end != number.data() + number.size() || tensor.shape.size() != 1) {
      return unsupported(text::printable(name, 200));
    }
    MEG_ASSIGN_OR_RETURN(Source source, folder_->box_source(tensor, Box::whole(tensor.shape)));
    found[std::string(name.substr(dot + 1))].emplace(bucket, std::move(source));
  }
  for (auto& [kind, buckets] : found) {
    std::vector<int64_t> lengths;
    for (const auto& [bucket, source] : buckets) {
      if (bucket != lengths.size()) return unsupported("buckets that are not numbered from 0 on");
      lengths.push_back(source->elements());
      sources_[kind].push_back(source);
    }
    if (state_.lengths.empty()) state_.lengths = lengths;
    if (state_.lengths != lengths) return unsupported("buckets of other lengths for " + kind);
  }
  state_.form = FlatState::Form::kBuckets;
  if (!sources_.empty()) return {};
  return make_error(StatusCode::kNotFound, "{}: expected {}0..., found none", folder_->path(),
                    start);
}

/// [{(param dtype, grad dtype): [elements, ...]}], a number a bucket.
Status DistBuffers::read_lengths() {
  const DistObject* object = find_object(*folder_, prefix_ + ".per_bucket_numel_unpadded");
  if (object == nullptr) return unsupported("no per_bucket_numel_unpadded");
  MEG_ASSIGN_OR_RETURN(const TorchFileParts parts, folder_->read_value(object->blob, object->name));
  const PickleGraph& graph = parts.graph;
  const auto dict = only_element(graph, only_element(graph, parts.root));
  const auto lengths = dict.has_value() ? only_value(graph, *dict) : std::nullopt;
  if (!lengths.has_value() || graph.node(*lengths).children.size() != state_.lengths.size()) {
    return unsupported("per_bucket_numel_unpadded " + graph.describe(parts.root, 80));
  }
  std::vector<int64_t>& unpadded = state_.unpadded.emplace();
  for (size_t i = 0; i < state_.lengths.size(); ++i) {
    const int64_t elements = graph.as_int(graph.node(*lengths).children[i]).value_or(-1);
    unpadded.push_back(elements);
    if (elements >= 0 && elements <= state_.lengths[i]) continue;
    return make_error(StatusCode::kCorruption, "{}: {}: bucket {}: expected {} elements, found {}",
                      folder_->path(), prefix_, i, elements, state_.lengths[i]);
  }
  return {};
}

Status DistBuffers::read_object(const DistObject& object) {
  MEG_ASSIGN_OR_RETURN(const TorchFileParts parts, folder_->read_value(object.blob, object.name));
  const auto tensor = [&parts](PickleId id) -> const TensorView* {
    const auto view = parts.tensors.views.find(id);
    return view == parts.tensors.views.end() ? nullptr : &view->second;
  };
  const std::optional<PickleId> root = only_element(parts.graph, parts.root);
  MEG_ASSIGN_OR_RETURN(std::vector<FlatState> states,
                       parse_flat_states(parts.graph, root.value_or(parts.root), tensor,
                                         fmt::format("{}: {}", folder_->path(), object.name)));
  if (states.size() != 1) return unsupported("several buffers");
  state_ = std::move(states.front());
  for (const auto& [kind, views] : state_.kinds) {
    for (const TensorView& view : views) {
      sources_[kind].push_back(folder_->view_source(parts, view, object));
    }
  }
  return {};
}

/// The name of the first parameter whose master does not fit its weight; "" where all do.
Result<std::string> DistBuffers::first_stranger(std::span<const Parameter> parameters,
                                                std::span<const FlatBuffer::Place> places) const {
  const auto masters = sources_.find("param");
  if (masters == sources_.end()) return std::string();
  for (size_t i = 0; i < places.size(); ++i) {
    if (parameters[i].flat.elements == 0) continue;
    const Source master =
        part_of(masters->second[places[i].bucket], places[i].first, parameters[i].flat.elements);
    MEG_ASSIGN_OR_RETURN(const bool fits, is_master_of(*master, *parameters[i].weight));
    if (!fits) return parameters[i].name;
  }
  return std::string();
}

Result<std::map<std::string, std::vector<DistBuffers::Source>>> DistBuffers::cut(
    std::span<const Parameter> parameters, const FlatRun& run) const {
  std::vector<FlatParameter> flat;
  for (const Parameter& parameter : parameters) flat.push_back(parameter.flat);
  std::string stranger;
  for (const std::vector<FlatBuffer::Place>& places : possible_places(state_, flat, run)) {
    MEG_ASSIGN_OR_RETURN(stranger, first_stranger(parameters, places));
    if (!stranger.empty()) continue;
    std::map<std::string, std::vector<Source>> found;
    for (const auto& [kind, sources] : sources_) {
      for (size_t i = 0; i < places.size(); ++i) {
        found[kind].push_back(
            part_of(sources[places[i].bucket], places[i].first, flat[i].elements));
      }
    }
    return found;
  }
  if (!stranger.empty()) {
    return make_error(StatusCode::kCorruption,
                      "{}: {}: param: expected the fp32 weights of {}, found other numbers",
                      folder_->path(), prefix_, stranger);
  }
  return unsupported(fmt::format("{} parameters do not fill {} buckets, the first of {} elements",
                                 flat.size(), state_.lengths.size(), state_.lengths[0]));
}

}  // namespace meg::checkpoint
