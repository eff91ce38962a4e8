#include "libmeg/nn/layers/internal/token_dispatch.h"

#include <ATen/ATen.h>

#include <span>
#include <vector>

#include "libmeg/libtorch/torch_guard.h"
#include "libmeg/nn/operators/internal/all_to_all.h"
#include "libmeg/nn/operators/internal/exchange.h"

// Tokens are sorted by expert, so that each expert's are a matrix without gaps or padding, and each
// rank's a block to send. Where several ranks split an expert, every one of them gets the block;
// their outputs are parts of a sum, which the token's own rank adds up with those of its other
// experts. So one exchange serves both kinds of parallelism, and no rank has to know how many
// tokens others gather.

namespace meg::nn {
namespace {

/// Zeros of the same shape and type, to which outputs are added.
at::Tensor zeros_of(const at::Tensor& tokens) {
  return at::zeros_like(tokens, tokens.options().requires_grad(false));
}

/// Computes experts whose tokens come one expert after the other.
at::Tensor compute_sorted(const at::Tensor& sorted, std::span<const int64_t> counts,
                          const ComputeExpert& compute) {
  // Split at once: the gradients of single slices would each be as large as all tokens together.
  const std::vector<at::Tensor> inputs =
      sorted.split_with_sizes(at::IntArrayRef(counts.data(), counts.size()));
  std::vector<at::Tensor> outputs;
  for (size_t expert = 0; expert < counts.size(); ++expert) {
    outputs.push_back(compute(static_cast<int64_t>(expert), inputs[expert]));
  }
  return at::cat(outputs);
}

/// How many tokens the ranks have for the experts.
class TokenCounts {
 public:
  /// own: [experts], on any device. Sent through the hosts, which need the numbers.
  TokenCounts(const at::Tensor& own, const ExpertParallel& ranks)
      : ranks_(ranks), share_(own.size(0) / ranks.model_size()) {
    const at::Tensor here = own.to(at::kCPU);
    all_ = at::empty({ranks.size(), here.size(0)}, here.options());
    libtorch::throw_if_error(ranks.group->all_gather(all_, here));
  }

  RowsOfRanks rows() const {
    RowsOfRanks rows;
    for (int rank = 0; rank < ranks_.size(); ++rank) {
      rows.sent.push_back(sum(of(ranks_.rank(), rank / ranks_.tensor_size)));
      rows.received.push_back(sum(received_from(rank)));
    }
    return rows;
  }

  /// For each of this rank's experts.
  std::vector<int64_t> of_own_experts() const {
    std::vector<int64_t> counts(static_cast<size_t>(share_));
    for (int rank = 0; rank < ranks_.size(); ++rank) {
      const std::span<const int64_t> here = received_from(rank);
      for (size_t i = 0; i < counts.size(); ++i) counts[i] += here[i];
    }
    return counts;
  }

  /// Where the rows that are received, rank by rank, stand expert by expert: the n-th of those is
  /// row order[n].
  std::vector<int64_t> order_by_expert() const {
    std::vector<int64_t> order;
    for (int64_t expert = 0; expert < share_; ++expert) {
      int64_t first = 0;  // of the rank's rows
      for (int rank = 0; rank < ranks_.size(); ++rank) {
        const std::span<const int64_t> here = received_from(rank);
        const auto before = here.first(static_cast<size_t>(expert));
        const int64_t begin = first + sum(before);
        for (int64_t i = 0; i < here[before.size()]; ++i) order.push_back(begin + i);
        first += sum(here);
      }
    }
    return order;
  }

 private:
  /// Those that `source` has for the experts of these ranks.
  std::span<const int64_t> of(int64_t source, int64_t model_rank) const {
    const int64_t begin = (source * ranks_.model_size() + model_rank) * share_;
    return {all_.const_data_ptr<int64_t>() + begin, static_cast<size_t>(share_)};
  }

  /// Those that `source` has for this rank's experts.
  std::span<const int64_t> received_from(int64_t source) const {
    return of(source, ranks_.model_rank());
  }

  static int64_t sum(std::span<const int64_t> counts) {
    int64_t total = 0;
    for (const int64_t count : counts) total += count;
    return total;
  }

  const ExpertParallel& ranks_;
  int64_t share_;
  at::Tensor all_;  ///< [ranks, experts] int64.
};

/// Repeats the block of each rank that has other experts for all that split them.
at::Tensor repeated_for_parts(const at::Tensor& order, const RowsOfRanks& rows, int tensor_size) {
  if (tensor_size == 1) return order;
  std::vector<at::Tensor> blocks;
  int64_t begin = 0;
  for (size_t rank = 0; rank < rows.sent.size(); rank += static_cast<size_t>(tensor_size)) {
    const at::Tensor block = order.narrow(0, begin, rows.sent[rank]);
    blocks.insert(blocks.end(), static_cast<size_t>(tensor_size), block);
    begin += rows.sent[rank];
  }
  return at::cat(blocks);
}

/// Brings the rows of all ranks from one order into another and back.
class RowOrder {
 public:
  RowOrder(const std::vector<int64_t>& order, at::Device device)
      : forward_(at::tensor(order, at::kLong).to(device)),
        backward_(at::empty_like(forward_).index_copy_(
            0, forward_, at::arange(forward_.size(0), forward_.options()))) {}

  at::Tensor apply(const at::Tensor& rows) const { return rows.index_select(0, forward_); }

  at::Tensor undo(const at::Tensor& rows) const { return rows.index_select(0, backward_); }

 private:
  at::Tensor forward_, backward_;
};

}  // namespace

at::Tensor dispatch_all_to_all(const at::Tensor& tokens, const Routing& routing,
                               int64_t num_experts, const ExpertParallel& ranks,
                               const ComputeExpert& compute) {
  const int64_t topk = routing.experts.size(1);
  const at::Tensor flat = routing.experts.flatten();
  // Stable: the result of a token does not depend on which others there are.
  const at::Tensor sorted = std::get<1>(at::sort(flat, /*stable=*/true, 0, /*descending=*/false));
  const TokenCounts counts(at::bincount(flat, {}, num_experts), ranks);
  const RowsOfRanks rows = counts.rows();
  const at::Tensor places = repeated_for_parts(sorted, rows, ranks.tensor_size);
  const at::Tensor sources = places.floor_divide(topk);
  const std::vector<int64_t> own = counts.of_own_experts();
  at::Tensor outputs = tokens.index_select(0, sources);
  if (ranks.size() == 1) {
    outputs = compute_sorted(outputs, own, compute);
  } else {
    const RowOrder by_expert(counts.order_by_expert(), tokens.device());
    const at::Tensor received = all_to_all(outputs, rows, ranks.group);
    const at::Tensor computed = compute_sorted(by_expert.apply(received), own, compute);
    outputs = all_to_all(by_expert.undo(computed), rows.reversed(), ranks.group);
  }
  const at::Tensor weights =
      routing.weights.flatten().index_select(0, places).unsqueeze(1).to(tokens.scalar_type());
  return zeros_of(tokens).index_add(0, sources, outputs * weights);
}

at::Tensor dispatch_all_gather(const at::Tensor& tokens, const Routing& routing,
                               int64_t num_experts, const ExpertParallel& ranks,
                               const ComputeExpert& compute) {
  // As sequences that are split over the ranks: gathered before and summed after, each with the
  // gradient of the other.
  const TensorParallel all = {.group = ranks.group, .sequence_parallel = true};
  const int64_t topk = routing.experts.size(1);
  const at::Tensor whole = enter_matrix(tokens.unsqueeze(0), all)[0];
  const at::Tensor weights = enter_matrix(routing.weights.unsqueeze(0), all)[0].flatten();
  const at::Tensor experts =
      at::empty({ranks.size(), routing.experts.numel()}, routing.experts.options());
  libtorch::throw_if_error(ranks.group->all_gather(experts, routing.experts.contiguous()));
  const int64_t share = num_experts / ranks.model_size();
  at::Tensor sum = zeros_of(whole);
  for (int64_t expert = 0; expert < share; ++expert) {
    const at::Tensor chosen = experts.flatten() == ranks.model_rank() * share + expert;
    const at::Tensor places = chosen.nonzero().flatten();
    const at::Tensor rows = places.floor_divide(topk);
    const at::Tensor factors = weights.index_select(0, places).unsqueeze(1).to(whole.scalar_type());
    sum = sum.index_add(0, rows, compute(expert, whole.index_select(0, rows)) * factors);
  }
  return leave_matrix(sum.unsqueeze(0), all)[0];
}

}  // namespace meg::nn
