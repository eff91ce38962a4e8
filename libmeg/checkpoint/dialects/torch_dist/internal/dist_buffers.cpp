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
/// Where parameters begin in a buffer: at multiples of so many elements, before core 0.5 anywhere.
constexpr int64_t kAlignments[] = {64, 1};

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

int64_t round_up(int64_t value, int64_t to) { return (value + to - 1) / to * to; }

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
    if (error != std::errc() || end != number.data() + number.size() ||
        bucket > folder_->metadata().tensors.size() || tensor.shape.size() != 1) {
      return unsupported(text::printable(name, 200));
    }
    if (bucket >= buckets_.size()) buckets_.resize(bucket + 1);
    MEG_ASSIGN_OR_RETURN(Source source, folder_->box_source(tensor, Box::whole(tensor.shape)));
    buckets_[bucket].kinds.emplace(name.substr(dot + 1), std::move(source));
  }
  if (!buckets_.empty()) return {};
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
  if (!lengths.has_value() || graph.node(*lengths).children.size() != buckets_.size()) {
    return unsupported("per_bucket_numel_unpadded " + graph.describe(parts.root, 80));
  }
  for (size_t i = 0; i < buckets_.size(); ++i) {
    buckets_[i].elements = graph.as_int(graph.node(*lengths).children[i]).value_or(-1);
    for (const auto& [kind, source] : buckets_[i].kinds) {
      if (buckets_[i].elements >= 0 && buckets_[i].elements <= source->elements()) continue;
      return make_error(StatusCode::kCorruption,
                        "{}: {}: bucket {}: expected {} elements of {}, found {}", folder_->path(),
                        prefix_, i, buckets_[i].elements, kind, source->elements());
    }
  }
  return {};
}

/// [{'buckets_coalesced': True, 0: {(param dtype, grad dtype): {'param': ..., 'numel_unpadded':
/// ...}}}]
Status DistBuffers::read_object(const DistObject& object) {
  MEG_ASSIGN_OR_RETURN(const TorchFileParts parts, folder_->read_value(object.blob, object.name));
  const PickleGraph& graph = parts.graph;
  const std::optional<PickleId> dict = only_element(graph, parts.root);
  std::optional<PickleId> buffer;
  const std::span<const PickleId> pairs =
      dict.has_value() ? graph.pairs(*dict) : std::span<const PickleId>();
  for (size_t i = 0; i + 1 < pairs.size(); i += 2) {
    if (!graph.as_int(pairs[i]).has_value()) continue;
    if (buffer.has_value()) return unsupported("several buffers");
    buffer = only_value(graph, pairs[i + 1]);
  }
  if (!buffer.has_value()) return unsupported("param_state " + graph.describe(parts.root, 80));
  return add_object_tensors(parts, *buffer, object);
}

Status DistBuffers::add_object_tensors(const TorchFileParts& parts, PickleId dict,
                                       const DistObject& object) {
  const PickleGraph& graph = parts.graph;
  const std::optional<PickleId> length = graph.find(dict, "numel_unpadded");
  Bucket bucket;
  bucket.elements = length.has_value() ? graph.as_int(*length).value_or(-1) : -1;
  const std::span<const PickleId> pairs = graph.pairs(dict);
  for (size_t i = 0; i + 1 < pairs.size(); i += 2) {
    const auto view = parts.tensors.views.find(pairs[i + 1]);
    const std::optional<std::string_view> kind = graph.as_string(pairs[i]);
    if (view == parts.tensors.views.end() || !kind.has_value()) continue;
    if (bucket.elements < 0 || bucket.elements > view->second.numel()) {
      return unsupported("param_state " + graph.describe(dict, 80));
    }
    bucket.kinds.emplace(*kind, folder_->view_source(parts, view->second, object));
  }
  if (bucket.kinds.empty()) return unsupported("param_state " + graph.describe(dict, 80));
  buckets_.push_back(std::move(bucket));
  return {};
}

/// Whether parameters that begin at multiples of `alignment` fill every bucket to its last element.
bool DistBuffers::place(const std::vector<int64_t>& elements, int64_t alignment,
                        std::vector<Place>* places) const {
  places->assign(elements.size(), {});
  size_t bucket = 0;
  int64_t end = 0;
  for (size_t i = elements.size(); i-- > 0;) {
    if (bucket < buckets_.size() && end == buckets_[bucket].elements) {
      ++bucket;
      end = 0;
    }
    const int64_t first = round_up(end, alignment);
    if (bucket >= buckets_.size() || first > buckets_[bucket].elements ||
        elements[i] > buckets_[bucket].elements - first) {
      return false;
    }
    (*places)[i] = {bucket, first};
    end = first + elements[i];
  }
  return bucket + 1 == buckets_.size() && end == buckets_[bucket].elements;
}

Result<std::map<std::string, std::vector<Source>>> DistBuffers::cut(
    const std::vector<int64_t>& elements) const {
  std::vector<Place> places;
  const bool fits =
      std::any_of(std::begin(kAlignments), std::end(kAlignments),
                  [&](int64_t alignment) { return place(elements, alignment, &places); });
  if (!fits) {
    return unsupported(fmt::format("{} parameters do not fill {} buckets, the first of {} elements",
                                   elements.size(), buckets_.size(), buckets_[0].elements));
  }
  std::map<std::string, std::vector<Source>> found;
  for (const auto& [kind, ignored] : buckets_[0].kinds) {
    for (size_t i = 0; i < elements.size(); ++i) {
      const auto& kinds = buckets_[places[i].bucket].kinds;
      const auto source = kinds.find(kind);
      if (source == kinds.end()) return unsupported("buckets of other kinds");
      found[kind].push_back(part_of(source->second, places[i].first, elements[i]));
    }
  }
  return found;
}

}  // namespace meg::checkpoint
