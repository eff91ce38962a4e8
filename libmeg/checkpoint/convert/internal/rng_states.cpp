#include "libmeg/checkpoint/convert/internal/rng_states.h"

#include <vector>

#include "libmeg/base/bytes.h"
#include "libmeg/io/crc32.h"

namespace meg::checkpoint {
namespace {

/// Megatron adds 100 a pipeline stage to the run's seed (training/initialize.py) and, in
/// model_parallel_cuda_manual_seed, 1 a tensor-parallel rank; the generator of experts adds 100 an
/// expert-parallel rank and 1 a rank over which experts are divided.
constexpr int64_t kSeedOfStage = 100;
constexpr int64_t kSeedOfExpertRank = 100;

// A CUDA generator's state ends in its seed and its offset; files of old torch have 800 bytes of
// zeros in front of them.
constexpr int64_t kStateBytes = 16;
constexpr int64_t kOldStateBytes = 816;

/// Gives the CUDA generators of one rank to another: the same offset into the stream, the seed
/// moved as Megatron would have seeded that rank. Without it new tensor-parallel ranks would draw
/// the same dropout masks. Generators of the CPU are carried over as they are.
class SeedShifter {
 public:
  SeedShifter(const TorchFile& file, int source_file, RngShift shift, bool check_crc,
              TargetFile* target)
      : file_(file),
        graph_(file.graph()),
        source_file_(source_file),
        shift_(shift),
        check_crc_(check_crc),
        target_(target) {}

  Status run() {
    MEG_RETURN_IF_ERROR(shift_states(file_.root()));
    const std::optional<PickleId> list = graph_.find(file_.root(), "rng_state");
    if (!list.has_value()) return Status();
    for (const PickleId states : graph_.node(*list).children) {
      MEG_RETURN_IF_ERROR(shift_states(states));
    }
    return Status();
  }

 private:
  /// One data-parallel rank's generators.
  Status shift_states(PickleId states) {
    if (const auto state = graph_.find(states, "cuda_rng_state")) {
      MEG_RETURN_IF_ERROR(shift_state(*state, shift_.stages * kSeedOfStage));
    }
    const std::optional<PickleId> tracker = graph_.find(states, "rng_tracker_states");
    if (!tracker.has_value()) return Status();
    const std::span<const PickleId> pairs = graph_.pairs(*tracker);
    for (size_t i = 0; i + 1 < pairs.size(); i += 2) {
      const std::optional<std::string_view> name = graph_.as_string(pairs[i]);
      int64_t ranks = 0;
      if (name == "model-parallel-rng") ranks = shift_.place.tensor_rank;
      if (name == "expert-parallel-rng") {
        ranks = shift_.place.expert_tensor_rank + kSeedOfExpertRank * shift_.place.expert_rank;
      }
      MEG_RETURN_IF_ERROR(shift_state(pairs[i + 1], shift_.stages * kSeedOfStage + ranks));
    }
    return Status();
  }

  Status shift_state(PickleId id, int64_t by) {
    const TensorView* view = file_.tensor(id);
    if (view == nullptr || by == 0 || view->dtype != DType::kUint8 ||
        (view->numel() != kStateBytes && view->numel() != kOldStateBytes)) {
      return Status();
    }
    std::vector<std::byte> bytes(static_cast<size_t>(view->numel()));
    MEG_RETURN_IF_ERROR(check_storage(*view));
    MEG_RETURN_IF_ERROR(file_.read_elements(*view, 0, bytes));
    std::byte* seed = bytes.data() + bytes.size() - kStateBytes;
    store_le(seed, load_le<uint64_t>(seed) + static_cast<uint64_t>(by));
    const uint64_t size = bytes.size();
    const int storage = target_->content().add_storage(DType::kUint8, size, std::move(bytes));
    target_->replace(source_file_, id, target_->content().add_tensor(storage, view->shape));
    return Status();
  }

  Status check_storage(const TensorView& view) const {
    const TorchStorage& storage = file_.storages()[static_cast<size_t>(view.storage)];
    constexpr uint64_t kMost = uint64_t{1} << 16;
    if (!check_crc_ || !storage.crc.has_value() || storage.bytes > kMost) return Status();
    std::vector<std::byte> bytes(static_cast<size_t>(storage.bytes));
    MEG_RETURN_IF_ERROR(file_.read_storage(view.storage, 0, bytes));
    // The CRC is that of the file's bytes, which read_storage() has swapped.
    if (file_.is_byte_swapped() || io::crc32(bytes) == *storage.crc) return Status();
    return make_error(StatusCode::kCorruption, "{}: data/{}: expected CRC-32 {:08x}, found {:08x}",
                      file_.path(), storage.key, *storage.crc, io::crc32(bytes));
  }

  const TorchFile& file_;
  const PickleGraph& graph_;
  int source_file_;
  RngShift shift_;
  bool check_crc_;
  TargetFile* target_;
};

}  // namespace

Status shift_rng_seeds(const MegatronCheckpoint& checkpoint, int source_file, RngShift shift,
                       bool check_crc, TargetFile* target) {
  const TorchFile& file = *checkpoint.files()[static_cast<size_t>(source_file)].file;
  return SeedShifter(file, source_file, shift, check_crc, target).run();
}

}  // namespace meg::checkpoint
