#include "libmeg/checkpoint/training/internal/rng_tree.h"

#include <algorithm>
#include <bit>
#include <limits>

#include "libmeg/base/bytes.h"

// Writes and reads the five generators that Megatron saves, in the forms of Python's
// random.getstate(), numpy.random.get_state(), torch.get_rng_state() and the tracker of CUDA
// states. Reading checks every shape and range: a position beyond the words would make a generator
// read out of bounds.

namespace meg::checkpoint {
namespace {

/// The version in random.getstate()'s tuple.
constexpr int64_t kPythonVersion = 3;

/// A key of libmeg's own.
constexpr std::string_view kCpuTracker = "cpu_rng_tracker_states";

// No generator's state is larger: torch's has 5056 bytes. It bounds what a damaged file can make us
// allocate.
constexpr int64_t kMaxStateBytes = 1 << 16;

PickleId add_python_random(const MersenneState& state, TrainingTree* tree) {
  PickleGraph& graph = tree->graph();
  std::vector<PickleId> words;
  for (const uint32_t word : state.words) words.push_back(graph.add_int(word));
  words.push_back(graph.add_int(state.position));
  const PickleId gauss =
      state.next_gauss.has_value() ? graph.add_float(*state.next_gauss) : graph.add_none();
  return graph.add_tuple({graph.add_int(kPythonVersion), graph.add_tuple(std::move(words)), gauss});
}

/// A uint32 array as ndarray(shape, dtype, content): numpy itself pickles a call of a private
/// function, whose module has another name in numpy 1 than in 2.
PickleId add_numpy_words(const MersenneState& state, TrainingTree* tree) {
  PickleGraph& graph = tree->graph();
  const auto call = [&](const char* name, std::vector<PickleId> arguments) {
    return graph.add_call(PickleCallForm::kReduce, tree->content().global("numpy", name),
                          graph.add_tuple(std::move(arguments)));
  };
  std::string bytes(state.words.size() * sizeof(uint32_t), '\0');
  for (size_t i = 0; i < state.words.size(); ++i) {
    store_le(reinterpret_cast<std::byte*>(bytes.data()) + i * sizeof(uint32_t), state.words[i]);
  }
  const auto length = static_cast<int64_t>(state.words.size());
  const PickleId shape = graph.add_tuple({graph.add_int(length)});
  const PickleId type = call("dtype", {tree->text("<u4")});
  return call("ndarray", {shape, type, graph.add_bytes(std::move(bytes))});
}

PickleId add_numpy_random(const MersenneState& state, TrainingTree* tree) {
  PickleGraph& graph = tree->graph();
  const int64_t has_gauss = state.next_gauss.has_value() ? 1 : 0;
  return graph.add_tuple({tree->text("MT19937"), add_numpy_words(state, tree),
                          graph.add_int(state.position), graph.add_int(has_gauss),
                          graph.add_float(state.next_gauss.value_or(0.0))});
}

PickleId add_tracker(const RngState::Tracker& tracker, TrainingTree* tree) {
  std::vector<PickleId> pairs;
  for (const auto& [name, bytes] : tracker) {
    pairs.push_back(tree->text(name));
    pairs.push_back(tree->byte_tensor(bytes));
  }
  return tree->graph().add_dict(std::move(pairs));
}

class RngReader {
 public:
  explicit RngReader(const TorchFile& file) : file_(file), graph_(file.graph()) {}

  Result<RngState> read(PickleId states) {
    RngState read;
    MEG_RETURN_IF_ERROR(read_python(states, &read.python_random));
    MEG_RETURN_IF_ERROR(read_numpy(states, &read.numpy_random));
    MEG_RETURN_IF_ERROR(read_bytes(states, "torch_rng_state", &read.torch));
    MEG_RETURN_IF_ERROR(read_bytes(states, "cuda_rng_state", &read.cuda));
    const std::optional<PickleId> tracker = graph_.find(states, "rng_tracker_states");
    if (!tracker.has_value()) return missing("rng_tracker_states");
    MEG_RETURN_IF_ERROR(read_tracker(*tracker, &read.tracker));
    if (const std::optional<PickleId> of_cpu = graph_.find(states, kCpuTracker)) {
      MEG_RETURN_IF_ERROR(read_tracker(*of_cpu, &read.cpu_tracker));
    }
    return read;
  }

 private:
  Status missing(std::string_view key) const {
    return make_error(StatusCode::kNotFound, "{}: rng_state: expected {}, found none", file_.path(),
                      key);
  }

  Status odd(std::string_view key, std::string_view expected, PickleId found) const {
    return make_error(StatusCode::kCorruption, "{}: rng_state: {}: expected {}, found {}",
                      file_.path(), key, expected, graph_.describe(found, 60));
  }

  /// The elements of a tuple of a known size; empty where it is none.
  std::span<const PickleId> tuple(PickleId id, size_t size) const {
    const PickleNode& node = graph_.node(id);
    if (node.kind != PickleKind::kTuple || node.children.size() != size) return {};
    return node.children;
  }

  Status read_python(PickleId states, MersenneState* state) const {
    constexpr std::string_view kKey = "random_rng_state";
    constexpr std::string_view kExpected = "random.getstate() of version 3";
    const std::optional<PickleId> found = graph_.find(states, kKey);
    if (!found.has_value()) return missing(kKey);
    const std::span<const PickleId> parts = tuple(*found, 3);
    if (parts.empty() || graph_.as_int(parts[0]) != kPythonVersion) {
      return odd(kKey, kExpected, *found);
    }
    const std::span<const PickleId> words = tuple(parts[1], MersenneState::kWords + 1);
    if (words.empty()) return odd(kKey, kExpected, *found);
    for (size_t i = 0; i < MersenneState::kWords; ++i) {
      const std::optional<int64_t> word = graph_.as_int(words[i]);
      if (!word || *word < 0 || *word > std::numeric_limits<uint32_t>::max()) {
        return odd(kKey, "words of 32 bits", words[i]);
      }
      state->words[i] = static_cast<uint32_t>(*word);
    }
    // None if no normal number is left over; as_number() then returns nullopt.
    state->next_gauss = graph_.as_number(parts[2]);
    return read_position(kKey, words[MersenneState::kWords], state);
  }

  Status read_position(std::string_view key, PickleId id, MersenneState* state) const {
    const std::optional<int64_t> position = graph_.as_int(id);
    if (!position || *position < 0 || *position > static_cast<int64_t>(MersenneState::kWords)) {
      return odd(key, "a position of 0 to 624", id);
    }
    state->position = *position;
    return Status();
  }

  Status read_numpy(PickleId states, MersenneState* state) const {
    constexpr std::string_view kKey = "np_rng_state";
    const std::optional<PickleId> found = graph_.find(states, kKey);
    if (!found.has_value()) return missing(kKey);
    const std::span<const PickleId> parts = tuple(*found, 5);
    if (parts.empty() || graph_.as_string(parts[0]) != "MT19937") {
      return odd(kKey, "numpy's state of an MT19937", *found);
    }
    const std::optional<std::string> bytes = array_bytes(parts[1]);
    if (!bytes.has_value() || bytes->size() != MersenneState::kWords * sizeof(uint32_t)) {
      return odd(kKey, "an array of 624 words", parts[1]);
    }
    for (size_t i = 0; i < MersenneState::kWords; ++i) {
      state->words[i] = load_le<uint32_t>(reinterpret_cast<const std::byte*>(bytes->data()) +
                                          i * sizeof(uint32_t));
    }
    if (graph_.as_int(parts[3]) == 1) state->next_gauss = graph_.as_number(parts[4]);
    return read_position(kKey, parts[2], state);
  }

  /// The content of a little-endian uint32 array, as we or numpy write it.
  std::optional<std::string> array_bytes(PickleId id) const {
    if (graph_.node(id).kind != PickleKind::kCall) return std::nullopt;
    const std::string maker = graph_.class_name(id);
    if (maker == "numpy.ndarray") {
      const std::span<const PickleId> parts = tuple(graph_.node(id).children[1], 3);
      if (parts.empty() || !is_uint32(parts[1])) return std::nullopt;
      return graph_.as_bytes(parts[2]);
    }
    // numpy's own pickle: numpy.core.multiarray in numpy 1, numpy._core.multiarray in numpy 2.
    if (!maker.ends_with("multiarray._reconstruct")) return std::nullopt;
    const std::vector<PickleId>& states = graph_.call(id).states;
    const std::span<const PickleId> parts =
        states.size() == 1 ? tuple(states[0], 5) : std::span<const PickleId>();
    if (parts.empty() || !is_uint32(parts[2])) return std::nullopt;
    return graph_.as_bytes(parts[4]);
  }

  /// dtype("<u4"), or dtype("u4") with a state that says "<".
  bool is_uint32(PickleId type) const {
    const bool is_call = graph_.node(type).kind == PickleKind::kCall;
    if (!is_call || graph_.class_name(type) != "numpy.dtype") return false;
    const PickleNode& arguments = graph_.node(graph_.node(type).children[1]);
    if (arguments.children.empty()) return false;
    const std::optional<std::string_view> name = graph_.as_string(arguments.children[0]);
    if (name == "<u4") return true;
    const std::vector<PickleId>& states = graph_.call(type).states;
    if (name != "u4" || states.size() != 1) return false;
    const std::vector<PickleId>& parts = graph_.node(states[0]).children;
    return parts.size() > 1 && graph_.as_string(parts[1]) == "<";
  }

  Status read_tracker(PickleId dict, RngState::Tracker* tracker) const {
    const std::span<const PickleId> pairs = graph_.pairs(dict);
    for (size_t i = 0; i + 1 < pairs.size(); i += 2) {
      tracker->emplace_back(graph_.as_string(pairs[i]).value_or(""), std::vector<std::byte>());
      MEG_RETURN_IF_ERROR(
          read_tensor(tracker->back().first, pairs[i + 1], &tracker->back().second));
    }
    return Status();
  }

  Status read_bytes(PickleId states, std::string_view key, std::vector<std::byte>* into) const {
    const std::optional<PickleId> found = graph_.find(states, key);
    if (!found.has_value()) return missing(key);
    return read_tensor(key, *found, into);
  }

  Status read_tensor(std::string_view key, PickleId id, std::vector<std::byte>* into) const {
    const TensorView* view = file_.tensor(id);
    if (view == nullptr || view->dtype != DType::kUint8 || view->numel() > kMaxStateBytes) {
      return odd(key, "a small tensor of bytes", id);
    }
    MEG_RETURN_IF_ERROR(file_.check_crc(view->storage));
    into->resize(static_cast<size_t>(view->numel()));
    return file_.read_elements(*view, 0, *into);
  }

  const TorchFile& file_;
  const PickleGraph& graph_;
};

}  // namespace

PickleId add_rng_state(const RngState& state, TrainingTree* tree) {
  const PickleId python = add_python_random(state.python_random, tree);
  const PickleId numpy = add_numpy_random(state.numpy_random, tree);
  const PickleId torch = tree->byte_tensor(state.torch);
  const PickleId cuda = tree->byte_tensor(state.cuda);
  const PickleId tracker = add_tracker(state.tracker, tree);
  std::vector<PickleId> pairs;
  const auto add = [&](std::string_view key, PickleId value) {
    pairs.push_back(tree->text(key));
    pairs.push_back(value);
  };
  add("random_rng_state", python);
  add("np_rng_state", numpy);
  add("torch_rng_state", torch);
  add("cuda_rng_state", cuda);
  add("rng_tracker_states", tracker);
  if (!state.cpu_tracker.empty()) add(kCpuTracker, add_tracker(state.cpu_tracker, tree));
  return tree->graph().add_list({tree->graph().add_dict(std::move(pairs))});
}

Result<RngState> read_rng_state(const TorchFile& file, int64_t data_rank) {
  const PickleGraph& graph = file.graph();
  const std::optional<PickleId> list = graph.find(file.root(), "rng_state");
  // Before 2023 the generators were keys beside the model, without a list by data-parallel rank.
  if (!list.has_value()) return RngReader(file).read(file.root());
  const std::vector<PickleId>& ranks = graph.node(*list).children;
  // A single entry is for all ranks: without --data-parallel-random-init Megatron saves only the
  // first rank's.
  const size_t index = ranks.size() == 1 ? 0 : static_cast<size_t>(data_rank);
  if (graph.node(*list).kind != PickleKind::kList || index >= ranks.size()) {
    return make_error(StatusCode::kCorruption,
                      "{}: rng_state: expected the generators of data-parallel rank {}, found {}",
                      file.path(), data_rank, graph.describe(*list, 60));
  }
  return RngReader(file).read(ranks[index]);
}

}  // namespace meg::checkpoint
