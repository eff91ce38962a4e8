#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace meg::checkpoint {

/// A parameter as a flat buffer of the distributed optimizer has it.
struct FlatParameter {
  int64_t elements = 0;
  /// The embedding or its tied copy, where a pipeline has both on stages of their own.
  bool is_shared_embedding = false;
};

/// How a run lays its parameters out in a flat buffer.
struct FlatBufferRules {
  int64_t alignment = 1;                 ///< Parameters begin at multiples of it.
  int64_t bucket_divisor = 1;            ///< Buckets are padded to multiples of it.
  std::optional<int64_t> bucket_size;    ///< A bucket of so many elements is followed by the next.
  bool splits_shared_embedding = false;  ///< A shared embedding has a bucket of its own.
  /// Where a bucket that ends for its sake is no multiple of this, its padding counts as elements.
  int64_t split_divisor = 1;

  bool operator==(const FlatBufferRules&) const = default;
};

/// Where everything stands in a flat buffer: the parameters in reverse order, cut into buckets.
struct FlatBuffer {
  struct Place {
    size_t bucket = 0;
    int64_t first = 0;  ///< In the bucket.

    bool operator==(const Place&) const = default;
  };

  struct Bucket {
    int64_t elements = 0;  ///< Without the padding at its end.
    int64_t padded = 0;    ///< With it.
  };

  std::vector<Place> places;  ///< Of the parameters, in the order of named_parameters().
  std::vector<Bucket> buckets;

  /// Of all buckets without their padding.
  int64_t elements() const;

  /// The places where buckets stand one after another without their padding, as if in one.
  std::vector<Place> coalesced_places() const;
};

/// parameters: in the order of named_parameters().
/// Mirrors Megatron-LM megatron/core/distributed/param_and_grad_buffer.py: _ParamAndGradBuffer.
FlatBuffer lay_out_flat_buffer(std::span<const FlatParameter> parameters,
                               const FlatBufferRules& rules);

/// Where parameters stand in buckets of these lengths, each of which takes those that it has room
/// for. nullopt where a bucket is left with `gap` elements or more at its end, the last one with
/// `last_gap` or more.
std::optional<std::vector<FlatBuffer::Place>> fill_flat_buckets(
    std::span<const FlatParameter> parameters, std::span<const int64_t> buckets, int64_t alignment,
    int64_t gap, int64_t last_gap);

}  // namespace meg::checkpoint
