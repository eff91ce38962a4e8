#include "libmeg/megatron/megatron_version.h"

#include <array>
#include <charconv>
#include <compare>
#include <optional>
#include <string>

#include "libmeg/text/printable.h"

namespace meg::megatron {
namespace {

constexpr size_t kRevisions = 19;

/// Each row is the one above it with what changed, so that a behaviour is stated where it came in,
/// and a new revision that changes nothing is one line. docs/megatron_versions.md says what each
/// means.
constexpr std::array<MegatronVersion, kRevisions> kVersions = [] {
  std::array<MegatronVersion, kRevisions> rows = {};
  size_t count = 0;
  MegatronVersion row = {
      .name = {},
      .skip_empty_documents = true,
      .sentences_of_whole_texts = true,
      .gpt2_special_tokens_in_text = false,
      .split_arithmetic = SplitArithmetic::kLegacy,
      .index_cache_form = IndexCacheForm::kBesideData,
      .split_in_cache_name = false,
      .sample_index_type = SampleIndexType::kInt32,
      .blend_margin = BlendMargin::kSumOfBuilt,
      .open_sample_counts = false,
      .renormalize_in_description = false,
      .dataset_pad = DatasetPad::kNone,
      .mock_data = MockData::kNone,
      .null_tokenizer_adds_eod = true,
      .null_tokenizer_identifies = false,
      .hugging_face_tokenizer = false,
      .hugging_face_special_tokens = true,
      .core_tokenizers = 0,
      .skipped_iterations_from_one = false,
      .rampup_steps = RampupSteps::kWhole,
      .skip_train_evaluates_once = false,
      .dated_log_lines = false,
      .losses_over_tokens = false,
      .always_counts_zeros = false,
      .estimates_any_activations = false,
      .checkpoint_lines = CheckpointLines::kIteration,
  };
  const auto add = [&](std::string_view name) {
    row.name = name;
    rows[count++] = row;
  };
  add("v2.6");
  row.skip_empty_documents = false;
  row.sentences_of_whole_texts = false;
  row.index_cache_form = IndexCacheForm::kLegacy;
  row.blend_margin = BlendMargin::kSumOfAsked;
  row.checkpoint_lines = CheckpointLines::kRelease;
  add("6ef5bdc");
  row.split_arithmetic = SplitArithmetic::kLegacyRegex;
  row.index_cache_form = IndexCacheForm::kPathPrefix;
  add("core_v0.4.0");
  row.split_arithmetic = SplitArithmetic::kCumulative;
  row.index_cache_form = IndexCacheForm::kSplitMatrix;
  add("24.01");
  row.index_cache_form = IndexCacheForm::kDatasetPath;
  row.mock_data = MockData::kPadded;
  add("core_v0.5.0");
  row.dated_log_lines = true;
  row.checkpoint_lines = CheckpointLines::kFormat;
  add("core_v0.6.0");
  row.split_in_cache_name = true;
  row.open_sample_counts = true;
  row.dataset_pad = DatasetPad::kMasked;
  row.mock_data = MockData::kLengths;
  row.losses_over_tokens = true;
  row.null_tokenizer_identifies = true;
  row.checkpoint_lines = CheckpointLines::kFrom;
  add("core_v0.7.0");
  row.hugging_face_tokenizer = true;
  row.sample_index_type = SampleIndexType::kInt64;
  add("core_v0.8.0");
  row.renormalize_in_description = true;
  row.rampup_steps = RampupSteps::kLimited;
  add("core_v0.9.0");
  row.sample_index_type = SampleIndexType::kAsNeeded;
  row.checkpoint_lines = CheckpointLines::kRankOfAll;
  add("core_v0.10.0");
  row.renormalize_in_description = false;
  row.blend_margin = BlendMargin::kOnTop;
  add("core_v0.11.0");
  row.always_counts_zeros = true;
  add("core_v0.12.0");
  row.always_counts_zeros = false;
  add("core_v0.13.0");
  add("core_v0.14.0");
  row.gpt2_special_tokens_in_text = true;
  row.core_tokenizers = 15;
  row.estimates_any_activations = true;
  row.hugging_face_special_tokens = false;
  add("core_v0.15.0");
  row.dataset_pad = DatasetPad::kUnambiguous;
  row.mock_data = MockData::kModulo;
  row.core_tokenizers = 16;
  row.skip_train_evaluates_once = true;
  row.checkpoint_lines = CheckpointLines::kDated;
  add("core_v0.16.0");
  row.core_tokenizers = 17;
  row.skipped_iterations_from_one = true;
  row.hugging_face_special_tokens = true;
  add("core_v0.17.0");
  row.core_tokenizers = 18;
  row.null_tokenizer_adds_eod = false;
  row.rampup_steps = RampupSteps::kNone;
  add("core_v0.18.0");
  row.core_tokenizers = 19;
  row.checkpoint_lines = CheckpointLines::kRemat;
  add("core_v0.19.0");
  return rows;
}();

static_assert(!kVersions.back().name.empty(), "kRevisions counts the rows");

constexpr std::string_view kCommit = "6ef5bdc";
constexpr std::string_view kJanuary2024 = "24.01";

/// Where a revision stands among all; a release candidate stands just below its release.
struct Place {
  int major = 0;  // 0 for Megatron core, else as in v2.6; core is the younger line
  int minor = 0;
  int patch = 0;
  bool released = true;

  std::strong_ordering operator<=>(const Place& other) const {
    // Core began at 0.x after v3.0: a smaller number is the younger revision here.
    if ((major == 0) != (other.major == 0)) {
      return major == 0 ? std::strong_ordering::greater : std::strong_ordering::less;
    }
    if (const auto order = major <=> other.major; std::is_neq(order)) return order;
    if (const auto order = minor <=> other.minor; std::is_neq(order)) return order;
    if (const auto order = patch <=> other.patch; std::is_neq(order)) return order;
    return released <=> other.released;
  }

  bool operator==(const Place& other) const = default;
};

bool take(std::string_view& text, std::string_view start) {
  if (!text.starts_with(start)) return false;
  text.remove_prefix(start.size());
  return true;
}

bool take_number(std::string_view& text, int& number) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || number < 0) return false;
  text.remove_prefix(static_cast<size_t>(end - text.data()));
  return true;
}

constexpr Place kPlaceOfJanuary2024 = {.minor = 5, .released = false};

/// Parses names such as `core_v0.9.0`, `0.9`, `v2.6`, `0.15.0rc3`.
std::optional<Place> parse_place(std::string_view name) {
  const bool is_core = take(name, "core_v") || take(name, "core_r");
  if (!is_core) take(name, "v");
  Place place;
  if (!take_number(name, place.major) || !take(name, ".") || !take_number(name, place.minor)) {
    return std::nullopt;
  }
  if (is_core && place.major != 0) return std::nullopt;
  if (take(name, ".") && !take_number(name, place.patch)) return std::nullopt;
  if (name.empty()) return place;
  // What is left must name a release candidate, in one of the spellings that tags have had.
  place.released = false;
  if (!take(name, "rc") && !take(name, "-alpha.rc") && !take(name, ".rc")) return std::nullopt;
  int candidate = 0;
  if (!take_number(name, candidate) || !name.empty()) return std::nullopt;
  return place;
}

/// The commit lies between the old line's last tag and core 0.4.0, the state of main in January
/// 2024 between core 0.4 and 0.5.
Place place_of(const MegatronVersion& version) {
  if (version.name == kCommit) return {.minor = 0};
  if (version.name == kJanuary2024) return kPlaceOfJanuary2024;
  return *parse_place(version.name);
}

std::string accepted_names() {
  std::string names;
  for (const MegatronVersion& version : kVersions) {
    if (!names.empty()) names += ", ";
    names += version.name;
  }
  return names;
}

}  // namespace

std::span<const MegatronVersion> megatron_versions() { return kVersions; }

const MegatronVersion& newest_megatron_version() { return kVersions.back(); }

Result<MegatronVersion> parse_megatron_version(std::string_view name) {
  // The hash in any length from the row's name to the whole of it.
  const bool is_commit = name.starts_with(kCommit) && name.size() <= 40;
  const std::optional<Place> place = is_commit              ? Place()
                                     : name == kJanuary2024 ? kPlaceOfJanuary2024
                                                            : parse_place(name);
  const MegatronVersion* row = nullptr;
  if (place.has_value()) {
    for (const MegatronVersion& version : kVersions) {
      if (place_of(version) <= *place) row = &version;
    }
    const Place newest = place_of(newest_megatron_version());
    // A release that does not exist yet may differ in anything: refused rather than taken for the
    // newest.
    if (place->major == 0 && place->minor > newest.minor) row = nullptr;
  }
  if (row == nullptr) {
    return make_error(StatusCode::kInvalidArgument,
                      "unknown revision of Megatron-LM: expected one of {}, found {}",
                      accepted_names(), text::printable(name));
  }
  return *row;
}

}  // namespace meg::megatron
