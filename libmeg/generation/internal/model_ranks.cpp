#include "libmeg/generation/internal/model_ranks.h"

#include <ATen/ATen.h>
#include <c10/core/InferenceMode.h>

#include <utility>

#include "libmeg/libtorch/device_copy.h"
#include "libmeg/libtorch/torch_guard.h"
#include "libmeg/parallel/pipeline_links.h"

namespace meg::generation {
namespace {

using libtorch::torch_guard;

/// Sent as the first number of a message.
enum class Kind : int64_t {
  kAddCache,
  kDropCache,
  kRearrange,
  kCopyPrefix,
  kExtend,
  kLogits,
  kMostLikely,
  kEnd
};

/// A slot, what its cache holds, and its new tokens.
constexpr size_t kNumbersOfSequence = 3;

}  // namespace

/// What all ranks are to do.
struct ModelRanks::Request {
  Kind kind = Kind::kEnd;
  int64_t cache = 0;
  std::vector<int64_t> numbers = {};
  at::Tensor states = {};  ///< [n, h] that the output layer takes.
};

Result<std::shared_ptr<ModelRanks>> ModelRanks::create(nn::GptModel& part,
                                                       const parallel::ParallelState& ranks) {
  if (ranks.data()->size() > 1) {
    const parallel::Mesh& mesh = ranks.mesh();
    return make_error(StatusCode::kInvalidArgument,
                      "world size: expected tensor x pipeline parallel size {} x {}, because only "
                      "one copy of the model generates, found {}",
                      mesh.size(parallel::Axis::kTensor), mesh.size(parallel::Axis::kPipeline),
                      mesh.world_size());
  }
  // Followers wait for the next request of a client as long as none comes: no time limit of the
  // launcher may end that.
  MEG_ASSIGN_OR_RETURN(auto requests, ranks.patient_world());
  return std::shared_ptr<ModelRanks>(new ModelRanks(part, ranks, std::move(requests)));
}

ModelRanks::~ModelRanks() {
  // A destructor has nobody to give an error to; ranks that are gone need no end.
  if (is_first_rank() && requests_->size() > 1 && lost_.ok()) (void)ask({.kind = Kind::kEnd});
}

Status ModelRanks::follow() {
  while (true) {
    Request request;
    MEG_RETURN_IF_ERROR(exchange(request));
    if (request.kind == Kind::kEnd) return {};
    MEG_RETURN_IF_ERROR(perform(request).status());
  }
}

Result<int64_t> ModelRanks::add_cache(int64_t slots, int64_t capacity) {
  const int64_t number = next_cache_++;
  MEG_RETURN_IF_ERROR(
      ask({.kind = Kind::kAddCache, .cache = number, .numbers = {slots, capacity}}).status());
  return number;
}

void ModelRanks::drop_cache(int64_t cache) {
  (void)ask({.kind = Kind::kDropCache, .cache = cache});
}

Status ModelRanks::rearrange(int64_t cache, std::span<const int64_t> sources) {
  return ask({.kind = Kind::kRearrange,
              .cache = cache,
              .numbers = {sources.begin(), sources.end()}})
      .status();
}

Status ModelRanks::copy_prefix(int64_t cache, int64_t source, int64_t slot, int64_t length) {
  return ask({.kind = Kind::kCopyPrefix, .cache = cache, .numbers = {source, slot, length}})
      .status();
}

Result<at::Tensor> ModelRanks::extend(int64_t cache, std::span<const nn::CachedTokens> sequences,
                                      std::span<const int32_t> tokens) {
  Request request = {.kind = Kind::kExtend, .cache = cache};
  std::vector<int64_t>& numbers = request.numbers;
  numbers.push_back(std::ssize(sequences));
  for (const auto& [slot, count] : sequences) {
    // Send the length that the first rank believes in, to which the others cut theirs: a step that
    // failed on some ranks may have extended only their caches.
    numbers.insert(numbers.end(), {slot, this->cache(cache).length(slot), count});
  }
  numbers.insert(numbers.end(), tokens.begin(), tokens.end());
  return ask(std::move(request));
}

Result<at::Tensor> ModelRanks::logits(const at::Tensor& hidden_states, int64_t vocab_size) {
  return ask({.kind = Kind::kLogits, .numbers = {vocab_size}, .states = hidden_states});
}

Result<at::Tensor> ModelRanks::most_likely(const at::Tensor& hidden_states, int64_t vocab_size) {
  return ask({.kind = Kind::kMostLikely, .numbers = {vocab_size}, .states = hidden_states});
}

Result<at::Tensor> ModelRanks::ask(Request request) {
  // After one rank failed the others may wait in a collective operation of that step. Whatever is
  // sent now could be taken for a part of it, so nothing is.
  if (!lost_.ok()) return lost_;
  if (requests_->size() == 1) return perform(request);
  Status sent = exchange(request);
  Result<at::Tensor> result = sent.ok() ? perform(request) : Result<at::Tensor>(std::move(sent));
  if (!result.has_value()) lost_ = result.error();
  return result;
}

/// The first rank's request, on all of them.
Status ModelRanks::exchange(Request& request) {
  return torch_guard([&]() -> Status {
    const bool has_states = request.states.defined();
    // All in one message of integers: a round between ranks costs as much as the transfer of
    // hundreds of them.
    std::vector<int64_t> numbers = {static_cast<int64_t>(request.kind), request.cache,
                                    has_states ? request.states.size(0) : 0};
    numbers.insert(numbers.end(), request.numbers.begin(), request.numbers.end());
    MEG_RETURN_IF_ERROR(parallel::broadcast(*requests_, numbers, 0));
    const int64_t rows = numbers[2];
    request.kind = static_cast<Kind>(numbers[0]);
    request.cache = numbers[1];
    request.numbers.assign(numbers.begin() + 3, numbers.end());
    if (rows == 0) return {};
    // Send through the host, as the group of requests is of processes and not of GPUs; these are a
    // few rows.
    const at::Tensor states = is_first_rank() ? request.states.detach().cpu().contiguous()
                                              : at::empty({rows, part_.config().hidden_size},
                                                          part_.options().params_dtype);
    MEG_RETURN_IF_ERROR(requests_->broadcast(states, 0));
    if (!is_first_rank()) request.states = libtorch::sent_to(part_.options().device, states);
    return {};
  });
}

Result<at::Tensor> ModelRanks::perform(const Request& request) {
  Result<at::Tensor> result = at::Tensor();
  const Status done = torch_guard([&]() -> Status {
    const c10::InferenceMode inference;
    switch (request.kind) {
      case Kind::kAddCache: {
        MEG_ASSIGN_OR_RETURN(nn::KvCache cache,
                             nn::KvCache::create(part_.config(), part_.options(), part_.part(),
                                                 request.numbers[0], request.numbers[1]));
        caches_.insert_or_assign(request.cache, std::move(cache));
        break;
      }
      case Kind::kDropCache:
        caches_.erase(request.cache);
        break;
      case Kind::kRearrange:
        return cache(request.cache).rearrange(request.numbers);
      case Kind::kCopyPrefix:
        return cache(request.cache)
            .copy_prefix(request.numbers[0], request.numbers[1], request.numbers[2]);
      case Kind::kExtend:
        result = perform_extend(request);
        break;
      case Kind::kLogits:
      case Kind::kMostLikely:
        result = perform_output(request);
        break;
      case Kind::kEnd:
        break;
    }
    return {};
  });
  return done.ok() ? std::move(result) : Result<at::Tensor>(done);
}

Result<at::Tensor> ModelRanks::perform_extend(const Request& request) {
  nn::KvCache& cache = this->cache(request.cache);
  const auto count = static_cast<size_t>(request.numbers[0]);
  const std::span<const int64_t> numbers = std::span(request.numbers).subspan(1);
  const std::span<const int64_t> tokens = numbers.subspan(count * kNumbersOfSequence);
  std::vector<nn::CachedTokens> sequences;
  for (size_t i = 0; i < count; ++i) {
    const int64_t* const sequence = &numbers[i * kNumbersOfSequence];
    cache.cut(sequence[0], sequence[1]);
    sequences.push_back({.slot = sequence[0], .count = sequence[2]});
  }
  // Every stage runs its layers on all sequences at once; without micro-batches there is nothing to
  // overlap, as each token needs the one before it.
  parallel::PipelineLinks links(ranks_);
  const at::Device device = part_.options().device;
  const int64_t hidden_size = part_.config().hidden_size;
  nn::CachedInput input = {.sequences = sequences};
  if (links.is_first()) {
    input.tokens = libtorch::sent_to(
        device, at::tensor(at::IntArrayRef(tokens.data(), tokens.size()), at::kLong));
  } else {
    input.hidden_states = at::empty({1, std::ssize(tokens), hidden_size},
                                    at::dtype(part_.options().residual_dtype()).device(device));
    MEG_RETURN_IF_ERROR(links.receive_forward(input.hidden_states));
  }
  MEG_ASSIGN_OR_RETURN(const at::Tensor states, part_.hidden_states(input, cache));
  if (!links.is_last()) MEG_RETURN_IF_ERROR(links.send_forward(states));
  // The states are in flight until then, and the next request may reuse their memory.
  MEG_RETURN_IF_ERROR(links.finish());
  return to_first_stage(states[0], {std::ssize(tokens), hidden_size}, part_.options().params_dtype);
}

Result<at::Tensor> ModelRanks::perform_output(const Request& request) {
  const int64_t rows = request.states.size(0);
  const bool chooses = request.kind == Kind::kMostLikely;
  at::Tensor result;
  if (ranks_.is_last_stage()) {
    MEG_ASSIGN_OR_RETURN(result, part_.logits_of(request.states, request.numbers[0]));
  }
  // Only ids travel where the most likely token is requested: 8 bytes a row instead of the whole
  // vocabulary's logits.
  if (!chooses) {
    return to_first_stage(result, {rows, part_.config().padded_vocab_size}, at::kFloat);
  }
  if (result.defined()) {
    // NaN is the largest, so a marked row shows.
    const auto [largest, ids] = result.narrow(1, 0, request.numbers[0]).max(1);
    result = ids.masked_fill(largest.isnan(), -1);
  }
  return to_first_stage(result, {rows}, at::kLong);
}

/// result: the last stage's, of this shape and type.
Result<at::Tensor> ModelRanks::to_first_stage(const at::Tensor& result, at::IntArrayRef shape,
                                              at::ScalarType type) {
  parallel::ProcessGroup& stages = *ranks_.pipeline();
  if (stages.size() == 1) return result;
  if (ranks_.is_last_stage()) {
    MEG_RETURN_IF_ERROR(stages.send(result.contiguous(), 0));
    return result;
  }
  if (!ranks_.is_first_stage()) return at::Tensor();
  at::Tensor received = at::empty(shape, at::dtype(type).device(part_.options().device));
  MEG_RETURN_IF_ERROR(stages.receive(received, stages.size() - 1));
  return received;
}

}  // namespace meg::generation
