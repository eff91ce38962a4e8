#include "libmeg/checkpoint/dialects/mp_rank/internal/optimizer/flat_parameters.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <utility>

#include "libmeg/base/float_convert.h"
#include "libmeg/checkpoint/container/torch_file/tensor_view.h"

// Finds each parameter's state in the flat buffers. A layout is guessed by rules and then proved:
// masters in the buffer must round to the weights of the model file. A guess that is wrong shifts
// parameters against each other, and shifted masters do not round to the weights of trained
// parameters.

namespace meg::checkpoint {
namespace {

using Source = std::shared_ptr<const TensorSource>;
using Places = std::vector<FlatBuffer::Place>;

/// A float32 as it is after a 16-bit type has held it.
float through(DType dtype, float value) {
  std::array<std::byte, 2> narrow;
  float wide = 0;
  const Status done =
      convert_floats(DType::kFloat32, std::as_bytes(std::span(&value, 1)), dtype, narrow);
  const Status back =
      convert_floats(dtype, narrow, DType::kFloat32, std::as_writable_bytes(std::span(&wide, 1)));
  return done.ok() && back.ok() ? wide : value;
}

/// Whether a float32 rounds to these bytes: to nearest even, or half away from zero as kernels that
/// keep the lower half of the master beside the weight do.
bool rounds_to(float master, DType dtype, std::span<const std::byte> weight) {
  const auto rounds = [&](float value) {
    std::array<std::byte, 4> rounded;
    const auto into = std::span(rounded).first(weight.size());
    const Status done =
        convert_floats(DType::kFloat32, std::as_bytes(std::span(&value, 1)), dtype, into);
    return done.ok() && std::memcmp(into.data(), weight.data(), weight.size()) == 0;
  };
  if (rounds(master)) return true;
  float wide = 0;
  const Status done =
      convert_floats(dtype, weight, DType::kFloat32, std::as_writable_bytes(std::span(&wide, 1)));
  if (!done.ok()) return false;
  if (std::isnan(master) || std::isnan(wide)) return std::isnan(master) && std::isnan(wide);
  // A master half way between two weights, rounded away from zero: one step towards the weight it
  // rounds there to nearest as well.
  if (rounds(std::nextafter(master, wide))) return true;
  // Weights that were converted since (--target-params-dtype) were rounded to another type before.
  return rounds(through(DType::kBFloat16, master)) || rounds(through(DType::kFloat16, master));
}

/// The parameters of one buffer.
struct Buffer {
  std::vector<const BufferedParameter*> members;
  std::vector<size_t> numbers;  // among all parameters
  std::vector<FlatParameter> flat;
  int64_t elements = 0;
};

/// Every chunk has a buffer for each type of its weights, in the order of their appearance.
std::vector<Buffer> buffers_of(std::span<const std::vector<BufferedParameter>> chunks) {
  std::vector<Buffer> buffers;
  size_t number = 0;
  for (const std::vector<BufferedParameter>& chunk : chunks) {
    std::map<DType, size_t> buffer_of;
    for (const BufferedParameter& parameter : chunk) {
      const auto [place, is_new] = buffer_of.try_emplace(parameter.weight->dtype(), buffers.size());
      if (is_new) buffers.emplace_back();
      Buffer& buffer = buffers[place->second];
      const int64_t elements = parameter.weight->elements();
      buffer.members.push_back(&parameter);
      buffer.numbers.push_back(number++);
      buffer.flat.push_back(
          {.elements = elements, .is_shared_embedding = parameter.is_shared_embedding});
      buffer.elements += elements;
    }
  }
  return buffers;
}

/// The name of the first parameter whose master does not fit its weight; "" where all do.
Result<std::string> first_stranger(const FlatState& state, const Buffer& buffer,
                                   const Places& places) {
  const auto masters = state.kinds.find("param");
  // Without masters there is nothing to compare.
  if (masters == state.kinds.end()) return std::string();
  for (size_t i = 0; i < places.size(); ++i) {
    const BufferedParameter& parameter = *buffer.members[i];
    if (buffer.flat[i].elements == 0) continue;
    const Source master =
        part_of(masters->second[places[i].bucket], places[i].first, buffer.flat[i].elements);
    MEG_ASSIGN_OR_RETURN(const bool fits, is_master_of(*master, *parameter.weight));
    if (!fits) return parameter.name;
  }
  return std::string();
}

/// Among the ways in which the parameters fill the buffer, finds the one whose masters belong to
/// the weights.
Result<FlatPlaces> find_places(const FlatState& state, const Buffer& buffer, const FlatRun& run,
                               const std::string& where) {
  // Keep the one of the last way that was tried, so that the error can name a parameter.
  std::string stranger;
  for (FlatPlaces& way : possible_places(state, buffer.flat, run)) {
    MEG_ASSIGN_OR_RETURN(stranger, first_stranger(state, buffer, way.places));
    if (stranger.empty()) return std::move(way);
  }
  if (!stranger.empty()) {
    return make_error(StatusCode::kCorruption,
                      "{}: {}: param: expected the fp32 weights of {}, found different values",
                      where, state.name, stranger);
  }
  return make_error(
      StatusCode::kUnsupported,
      "{}: {}: expected buckets for the rank's {} parameters of {} elements, found {} elements",
      where, state.name, buffer.flat.size(), buffer.elements, shape_text(state.lengths));
}

}  // namespace

/// A wrong layout shifts whole parameters, so a few numbers tell, and reading everything twice
/// would cost as much as converting it.
Result<bool> is_master_of(const TensorSource& master, const TensorSource& weight) {
  constexpr int64_t kSample = 16;
  const DType dtype = weight.dtype();
  const int64_t count = std::min(kSample, weight.elements());
  const auto item = static_cast<size_t>(dtype_size(dtype));
  std::vector<float> masters(static_cast<size_t>(count));
  std::vector<std::byte> weights(masters.size() * item);
  const int64_t last = weight.elements() - count;
  for (const int64_t first : {int64_t{0}, last / 2, last}) {
    MEG_RETURN_IF_ERROR(master.read(first, std::as_writable_bytes(std::span(masters))));
    MEG_RETURN_IF_ERROR(weight.read(first, weights));
    for (size_t i = 0; i < masters.size(); ++i) {
      if (!rounds_to(masters[i], dtype, std::span(weights).subspan(i * item, item))) return false;
    }
  }
  return true;
}

Result<bool> has_own_masters(const LogicalParameter& parameter) {
  const LogicalTensor* weight = parameter.tensor("weight");
  const LogicalTensor* master = parameter.tensor("fp32_param");
  const bool have_both = weight != nullptr && master != nullptr &&
                         master->dtype == DType::kFloat32 &&
                         weight->pieces.size() == master->pieces.size();
  for (size_t i = 0; have_both && i < weight->pieces.size(); ++i) {
    const Piece& first = weight->pieces[i];
    const Piece& second = master->pieces[i];
    if (first.box != second.box || first.first != second.first ||
        first.memory_order != second.memory_order ||
        first.source->elements() != second.source->elements()) {
      continue;
    }
    MEG_ASSIGN_OR_RETURN(const bool fits, is_master_of(*second.source, *first.source));
    if (!fits) return false;
  }
  return true;
}

Result<CutStates> cut_flat_states(std::span<const FlatState> states,
                                  std::span<const std::vector<BufferedParameter>> chunks,
                                  const FlatRun& run, const std::string& where) {
  const std::vector<Buffer> buffers = buffers_of(chunks);
  if (states.size() != buffers.size()) {
    return make_error(StatusCode::kUnsupported,
                      "{}: expected {} buffers, one for each virtual stage and type of weights, "
                      "found {}",
                      where, buffers.size(), states.size());
  }
  size_t parameters = 0;
  for (const std::vector<BufferedParameter>& chunk : chunks) parameters += chunk.size();
  CutStates found;
  // The states of all kinds have the same places.
  for (size_t b = 0; b < states.size(); ++b) {
    const Buffer& buffer = buffers[b];
    MEG_ASSIGN_OR_RETURN(const FlatPlaces way, find_places(states[b], buffer, run, where));
    if (way.alignment.has_value()) found.alignment = way.alignment;
    const Places& places = way.places;
    for (const auto& [kind, tensors] : states[b].kinds) {
      std::vector<Source>& sources = found.kinds[kind];
      sources.resize(parameters);
      for (size_t i = 0; i < places.size(); ++i) {
        sources[buffer.numbers[i]] =
            part_of(tensors[places[i].bucket], places[i].first, buffer.flat[i].elements);
      }
    }
  }
  // A kind that some buffers lack would leave parameters without state.
  for (const auto& [kind, sources] : found.kinds) {
    if (std::find(sources.begin(), sources.end(), nullptr) == sources.end()) continue;
    return make_error(StatusCode::kCorruption,
                      "{}: expected {} in all buffers, found it only in some", where, kind);
  }
  return found;
}

}  // namespace meg::checkpoint
