#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace meg::checkpoint {

/// A parameter in a flat buffer of the distributed optimizer.
struct FlatParameter {
  int64_t elements = 0;
  /// Whether it is the embedding or its tied copy, in a pipeline that has them on different stages.
  bool is_shared_embedding = false;
};

/// How a run lays its parameters out in a flat buffer.
struct FlatBufferRules {
  int64_t alignment = 1;                 ///< Parameters begin at multiples of it.
  int64_t bucket_divisor = 1;            ///< Buckets are padded to multiples of it.
  std::optional<int64_t> bucket_size;    ///< A bucket ends once it has this many elements.
  bool splits_shared_embedding = false;  ///< A shared embedding has a bucket of its own.
  /// If a bucket that ends because of a shared embedding is not a multiple of this, its padding
  /// counts as elements.
  int64_t split_divisor = 1;

  bool operator==(const FlatBufferRules&) const = default;
};

/// The layout of a flat buffer: the parameters in reverse order, divided into buckets.
struct FlatBuffer {
  struct Place {
    size_t bucket = 0;
    int64_t first = 0;  ///< First element, counted from the start of the bucket.

    bool operator==(const Place&) const = default;
  };

  struct Bucket {
    int64_t elements = 0;  ///< Excludes the padding at the end.
    int64_t padded = 0;    ///< Includes the padding.
  };

  std::vector<Place> places;  ///< One per parameter, in the order of named_parameters().
  std::vector<Bucket> buckets;

  /// Elements of all buckets without their padding.
  int64_t elements() const;

  /// The places of the parameters if the buckets are joined into one, without their padding.
  std::vector<Place> coalesced_places() const;
};

/// parameters: in the order of named_parameters().
/// Mirrors Megatron-LM megatron/core/distributed/param_and_grad_buffer.py: _ParamAndGradBuffer.
FlatBuffer lay_out_flat_buffer(std::span<const FlatParameter> parameters,
                               const FlatBufferRules& rules);

/// The places of parameters in buckets of these lengths, each of which takes as many parameters as
/// fit. nullopt if a bucket would have `gap` or more unused elements at its end, or the last one
/// `last_gap` or more.
std::optional<std::vector<FlatBuffer::Place>> fill_flat_buckets(
    std::span<const FlatParameter> parameters, std::span<const int64_t> buckets, int64_t alignment,
    int64_t gap, int64_t last_gap);

}  // namespace meg::checkpoint
