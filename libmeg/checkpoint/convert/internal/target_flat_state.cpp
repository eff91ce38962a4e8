#include "libmeg/checkpoint/convert/internal/target_flat_state.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <utility>

#include "libmeg/checkpoint/convert/internal/optimizer_part.h"
#include "libmeg/checkpoint/dialects/mp_rank/internal/optimizer/flat_buffer.h"

namespace meg::checkpoint {
namespace {

constexpr const char* kKinds[] = {"param", "exp_avg", "exp_avg_sq"};

/// How a revision keeps its buffers.
struct Revision {
  bool is_coalesced = true;  ///< Without the padding of buckets, as core does since 0.6.
  FlatBufferRules rules;
};

/// Writes the state that Megatron's data-parallel rank 0 gathers: for each chunk and type of
/// weights one buffer, with the parameters in reverse order (the order in which gradients become
/// ready) at the places given by the rules of the run's revision. A reader finds a parameter by
/// these rules alone, so a place that is off by one element would load other numbers without an
/// error. Hence everything that is not known for certain is refused.
class FlatStateBuilder {
 public:
  FlatStateBuilder(const MegatronCheckpoint& checkpoint, const TargetLayout& layout, int64_t stage,
                   const RankPlace& place, TransferBuilder* transfers)
      : checkpoint_(checkpoint),
        layout_(layout),
        stage_(layout.stages[static_cast<size_t>(stage)]),
        is_first_stage_(stage == 0),
        place_(place),
        transfers_(transfers) {}

  Result<TransferTargetFile> build(std::string path) {
    const std::vector<OptimizerPart> parts = optimizer_parts(layout_, place_.expert_rank);
    std::vector<PickleId> roots;
    for (const OptimizerPart& part : parts) {
      // Megatron gathers the state of parameters other than experts on the first of the
      // data-parallel ranks that share them.
      const bool is_elsewhere =
          !part.is_of_experts() && !layout_.ranks.is_first_of_tensor_rank(place_);
      if (is_elsewhere) {
        roots.push_back(graph().add_none());
      } else {
        MEG_ASSIGN_OR_RETURN(roots.emplace_back(), add_part(part));
      }
    }
    file_.content.root = parts.size() == 1 ? roots[0] : graph().add_list(std::move(roots));
    file_.path = std::move(path);
    MEG_ASSIGN_OR_RETURN(file_.layout, lay_out(file_.content, "distrib_optim"));
    return std::move(file_);
  }

 private:
  using Members = std::vector<const LogicalParameter*>;

  PickleGraph& graph() { return file_.content.graph(); }

  bool has(std::string_view field) const { return checkpoint_.described_arg(field).has_value(); }

  bool says(std::string_view field) const {
    const std::optional<megatron::FieldValue> value = checkpoint_.arg(field);
    const bool* yes = value.has_value() ? std::get_if<bool>(&*value) : nullptr;
    return yes != nullptr && *yes;
  }

  std::optional<int64_t> number(std::string_view field) const {
    return int_arg(checkpoint_, field);
  }

  Result<PickleId> add_part(const OptimizerPart& part) {
    std::vector<PickleId> pairs;
    MEG_ASSIGN_OR_RETURN(const Revision plain, revision(part, false));
    if (plain.is_coalesced) {
      pairs = {graph().add_string("buckets_coalesced"), graph().add_bool(true)};
    }
    int64_t buffers = 0;
    for (const std::vector<TargetEntry>& chunk : stage_.chunks) {
      // Megatron disables buckets on later stages and chunks, whose communication is not waited
      // for.
      const bool has_buckets = is_first_stage_ && &chunk == &stage_.chunks.front();
      MEG_ASSIGN_OR_RETURN(const Revision rules, revision(part, has_buckets));
      for (const auto& [dtype, members] : by_dtype(chunk, part)) {
        MEG_ASSIGN_OR_RETURN(const PickleId buffer, add_buffer(dtype, members, rules));
        pairs.insert(pairs.end(), {graph().add_int(buffers++), buffer});
      }
    }
    return graph().add_dict(std::move(pairs));
  }

  /// Ranks that share a buffer of the part.
  int64_t data_ranks(const OptimizerPart& part) const {
    const int64_t ranks = layout_.data_parallel_size * number("context_parallel_size").value_or(1);
    const int64_t experts = part.is_of_experts() ? layout_.ranks.files_of_tensor_rank() : 1;
    return std::max<int64_t>(1, ranks / experts);
  }

  /// has_buckets: of the only chunk that --overlap-grad-reduce cuts into several.
  Result<Revision> revision(const OptimizerPart& part, bool has_buckets) const {
    const int64_t ranks = data_ranks(part);
    const bool has_args = checkpoint_.args(0).has_value();
    // Fields of args tell the revision: they came with the code that lays buffers out.
    const bool is_old = has_args ? !has("overlap_grad_reduce") : !model::is_mcore(layout_.family);
    if (is_old) {
      Revision found{.is_coalesced = false, .rules = {}};
      found.rules.bucket_divisor = ranks;
      return found;
    }
    if (has_args && !has("ckpt_fully_parallel_save")) {
      return make_error(StatusCode::kUnsupported,
                        "{}: args of core 0.4 or 0.5: writing their distributed optimizer is not "
                        "supported; `distributed_optimizer = false` writes the plain one",
                        checkpoint_.files()[0].file->path());
    }
    // Core 0.8 brought both this field and the alignment. Args of other tools may lack the field,
    // so that what reading found counts more.
    const std::optional<int64_t> alignment = checkpoint_.optimizer().buffer_alignment;
    const bool is_aligned =
        alignment.has_value() ? *alignment > 1 : !has_args || has("cross_entropy_loss_fusion");
    Revision found;
    // Megatron's alignments: 64 elements for a parameter's begin, 128 (256 bytes of half precision)
    // for the ends of buckets and their shares.
    found.rules = {.alignment = is_aligned ? 64 : 1,
                   .bucket_divisor = is_aligned ? std::lcm(ranks, int64_t{128}) : ranks,
                   .bucket_size = {},
                   .splits_shared_embedding = true};
    if (says("ddp_pad_buckets_for_high_nccl_busbw")) {
      found.rules.bucket_divisor = std::lcm(found.rules.bucket_divisor, int64_t{1} << 16);
    }
    if (!has_buckets || !says("overlap_grad_reduce")) return found;
    if (number("ddp_num_buckets").has_value()) {
      return make_error(
          StatusCode::kUnsupported,
          "{}: args: ddp_num_buckets: writing the distributed optimizer of such a "
          "run is not supported; `distributed_optimizer = false` writes the plain one",
          checkpoint_.files()[0].file->path());
    }
    // Megatron's default where no bucket size is requested.
    constexpr int64_t kLeast = 40'000'000, kPerRank = 1'000'000;
    found.rules.bucket_size =
        number("ddp_bucket_size").value_or(std::max(kLeast, kPerRank * layout_.data_parallel_size));
    return found;
  }

  std::vector<std::pair<DType, Members>> by_dtype(const std::vector<TargetEntry>& chunk,
                                                  const OptimizerPart& part) const {
    std::vector<std::pair<DType, Members>> found;
    for (const TargetEntry& entry : chunk) {
      if (!part.has(entry)) continue;
      const DType dtype = entry.parameter->tensors.at(0).dtype;
      auto place = std::find_if(found.begin(), found.end(),
                                [dtype](const auto& group) { return group.first == dtype; });
      if (place == found.end()) place = found.insert(found.end(), {dtype, {}});
      place->second.push_back(entry.parameter);
    }
    return found;
  }

  Result<PickleId> add_buffer(DType dtype, const Members& members, const Revision& revision) {
    const bool is_tied = !checkpoint_.config().untie_embeddings_and_output_weights;
    const bool is_shared = is_tied && layout_.pipeline_model_parallel_size > 1;
    std::vector<FlatParameter> flat;
    for (const LogicalParameter* parameter : members) {
      MEG_ASSIGN_OR_RETURN(const std::vector<int64_t> shape, layout_.shape(*parameter));
      const bool is_table = parameter->partition == model::Partition::kVocabulary;
      flat.push_back(
          {.elements = Box::whole(shape).elements(), .is_shared_embedding = is_table && is_shared});
    }
    const FlatBuffer buffer = lay_out_flat_buffer(flat, revision.rules);
    const int64_t elements =
        revision.is_coalesced ? buffer.elements() : buffer.buckets.front().padded;
    std::vector<PickleId> pairs;
    for (const char* kind : kKinds) {
      MEG_ASSIGN_OR_RETURN(const PickleId tensor,
                           add_kind(kind, members, flat, buffer.coalesced_places(), elements));
      pairs.insert(pairs.end(), {graph().add_string(kind), tensor});
    }
    if (revision.is_coalesced) {
      pairs.insert(pairs.end(), {graph().add_string("numel_unpadded"), graph().add_int(elements)});
    }
    const PickleId state = graph().add_dict(std::move(pairs));
    return graph().add_dict({add_type(dtype, revision), state});
  }

  PickleId add_dtype(DType dtype) {
    return file_.content.global("torch", std::string(dtype_name(dtype)));
  }

  /// The type of the gradients, since core 0.6 with that of the parameters before it.
  PickleId add_type(DType dtype, const Revision& revision) {
    constexpr const char* kInFloat32 = "accumulate_allreduce_grads_in_fp32";
    const bool is_wide = !has(kInFloat32) || says(kInFloat32);
    const PickleId gradients = add_dtype(is_wide ? DType::kFloat32 : dtype);
    if (!revision.is_coalesced) return gradients;
    return graph().add_tuple({add_dtype(dtype), gradients});
  }

  Result<PickleId> add_kind(const std::string& kind, const Members& members,
                            const std::vector<FlatParameter>& flat,
                            const std::vector<FlatBuffer::Place>& places, int64_t elements) {
    constexpr int64_t kItem = 4;
    const int storage =
        file_.content.add_storage(DType::kFloat32, static_cast<uint64_t>(elements * kItem));
    const int sink = transfers_->add_sink();
    file_.sinks.push_back(sink);
    int64_t end = 0;
    // Go from the last parameter on, as in the buffer; alignment gaps between them are written as
    // zeros, because every byte of a sink has to be written.
    for (size_t i = members.size(); i-- > 0;) {
      MEG_ASSIGN_OR_RETURN(const LogicalTensor* tensor, tensor_of(*members[i], kind));
      if (places[i].first > end) {
        transfers_->add_zeros(sink, static_cast<uint64_t>(end * kItem), places[i].first - end);
      }
      transfers_->add_target(*members[i], *tensor, place_, sink,
                             static_cast<uint64_t>(places[i].first * kItem));
      end = places[i].first + flat[i].elements;
    }
    if (elements > end) {
      transfers_->add_zeros(sink, static_cast<uint64_t>(end * kItem), elements - end);
    }
    return file_.content.add_tensor(storage, {elements});
  }

  Result<const LogicalTensor*> tensor_of(const LogicalParameter& parameter,
                                         const std::string& kind) const {
    const LogicalTensor* tensor = parameter.tensor(kind == "param" ? "fp32_param" : kind);
    // The weights of fp32 models are their own masters.
    if (tensor == nullptr && kind == "param") tensor = &parameter.tensors.at(0);
    if (tensor != nullptr && tensor->dtype == DType::kFloat32) return tensor;
    return make_error(StatusCode::kUnsupported,
                      "{}: {}: expected {} of float32 for a distributed optimizer, found {}",
                      checkpoint_.files()[0].file->path(), parameter.name, kind,
                      tensor == nullptr ? "none" : dtype_name(tensor->dtype));
  }

  const MegatronCheckpoint& checkpoint_;
  const TargetLayout& layout_;
  const TargetStage& stage_;
  bool is_first_stage_;
  RankPlace place_;
  TransferBuilder* transfers_;
  TransferTargetFile file_;
};

}  // namespace

Result<TransferTargetFile> add_flat_state(const MegatronCheckpoint& checkpoint,
                                          const TargetLayout& layout, int64_t stage,
                                          const RankPlace& place, std::string path,
                                          TransferBuilder* transfers) {
  return FlatStateBuilder(checkpoint, layout, stage, place, transfers).build(std::move(path));
}

}  // namespace meg::checkpoint
