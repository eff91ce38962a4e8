#include "libmeg/core/megatron_version.h"

#include <charconv>
#include <compare>
#include <optional>
#include <string>

#include "libmeg/core/printable.h"

namespace meg {
namespace {

constexpr MegatronVersion kVersions[] = {
    {"v2.6", true, false, SplitArithmetic::kRounded, IndexCacheForm::kBesideData, false,
     SampleIndexType::kInt32, BlendMargin::kSumOfBuilt, false, false, MockData::kNone, 0},
    {"6ef5bdc", false, false, SplitArithmetic::kRounded, IndexCacheForm::kLegacy, false,
     SampleIndexType::kInt32, BlendMargin::kSumOfAsked, false, false, MockData::kNone, 0},
    {"core_v0.4.0", false, false, SplitArithmetic::kRounded, IndexCacheForm::kPathPrefix, false,
     SampleIndexType::kInt32, BlendMargin::kSumOfAsked, false, false, MockData::kNone, 0},
    {"24.01", false, false, SplitArithmetic::kCumulative, IndexCacheForm::kSplitMatrix, false,
     SampleIndexType::kInt32, BlendMargin::kSumOfAsked, false, false, MockData::kNone, 0},
    {"core_v0.5.0", false, false, SplitArithmetic::kCumulative, IndexCacheForm::kDatasetPath, false,
     SampleIndexType::kInt32, BlendMargin::kSumOfAsked, false, false, MockData::kPadded, 0},
    {"core_v0.6.0", false, false, SplitArithmetic::kCumulative, IndexCacheForm::kDatasetPath, false,
     SampleIndexType::kInt32, BlendMargin::kSumOfAsked, false, false, MockData::kPadded, 0},
    {"core_v0.7.0", false, false, SplitArithmetic::kCumulative, IndexCacheForm::kDatasetPath, true,
     SampleIndexType::kInt32, BlendMargin::kSumOfAsked, true, false, MockData::kLengths, 0},
    {"core_v0.8.0", false, false, SplitArithmetic::kCumulative, IndexCacheForm::kDatasetPath, true,
     SampleIndexType::kInt64, BlendMargin::kSumOfAsked, true, false, MockData::kLengths, 0},
    {"core_v0.9.0", false, false, SplitArithmetic::kCumulative, IndexCacheForm::kDatasetPath, true,
     SampleIndexType::kInt64, BlendMargin::kSumOfAsked, true, true, MockData::kLengths, 0},
    {"core_v0.10.0", false, false, SplitArithmetic::kCumulative, IndexCacheForm::kDatasetPath, true,
     SampleIndexType::kAsNeeded, BlendMargin::kSumOfAsked, true, true, MockData::kLengths, 0},
    {"core_v0.11.0", false, false, SplitArithmetic::kCumulative, IndexCacheForm::kDatasetPath, true,
     SampleIndexType::kAsNeeded, BlendMargin::kOnTop, true, false, MockData::kLengths, 0},
    {"core_v0.12.0", false, false, SplitArithmetic::kCumulative, IndexCacheForm::kDatasetPath, true,
     SampleIndexType::kAsNeeded, BlendMargin::kOnTop, true, false, MockData::kLengths, 0},
    {"core_v0.13.0", false, false, SplitArithmetic::kCumulative, IndexCacheForm::kDatasetPath, true,
     SampleIndexType::kAsNeeded, BlendMargin::kOnTop, true, false, MockData::kLengths, 0},
    {"core_v0.14.0", false, false, SplitArithmetic::kCumulative, IndexCacheForm::kDatasetPath, true,
     SampleIndexType::kAsNeeded, BlendMargin::kOnTop, true, false, MockData::kLengths, 0},
    {"core_v0.15.0", false, true, SplitArithmetic::kCumulative, IndexCacheForm::kDatasetPath, true,
     SampleIndexType::kAsNeeded, BlendMargin::kOnTop, true, false, MockData::kLengths, 15},
    {"core_v0.16.0", false, true, SplitArithmetic::kCumulative, IndexCacheForm::kDatasetPath, true,
     SampleIndexType::kAsNeeded, BlendMargin::kOnTop, true, false, MockData::kModulo, 16},
    {"core_v0.17.0", false, true, SplitArithmetic::kCumulative, IndexCacheForm::kDatasetPath, true,
     SampleIndexType::kAsNeeded, BlendMargin::kOnTop, true, false, MockData::kModulo, 17},
    {"core_v0.18.0", false, true, SplitArithmetic::kCumulative, IndexCacheForm::kDatasetPath, true,
     SampleIndexType::kAsNeeded, BlendMargin::kOnTop, true, false, MockData::kModulo, 18},
    {"core_v0.19.0", false, true, SplitArithmetic::kCumulative, IndexCacheForm::kDatasetPath, true,
     SampleIndexType::kAsNeeded, BlendMargin::kOnTop, true, false, MockData::kModulo, 19},
};

constexpr std::string_view kCommit = "6ef5bdc";
constexpr std::string_view kJanuary2024 = "24.01";

/// Where a revision stands among all; a release candidate stands just below its release.
struct Place {
  int major = 0;  // 0 for Megatron core, else as in v2.6; core is the younger line
  int minor = 0;
  int patch = 0;
  bool released = true;

  std::strong_ordering operator<=>(const Place& other) const {
    if ((major == 0) != (other.major == 0)) {
      return major == 0 ? std::strong_ordering::greater : std::strong_ordering::less;
    }
    if (const auto order = major <=> other.major; order != 0) return order;
    if (const auto order = minor <=> other.minor; order != 0) return order;
    if (const auto order = patch <=> other.patch; order != 0) return order;
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

/// Of `core_v0.9.0`, `0.9`, `v2.6`, `0.15.0rc3`.
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

const MegatronVersion& newest_megatron_version() { return std::end(kVersions)[-1]; }

Result<MegatronVersion> parse_megatron_version(std::string_view name) {
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
    if (place->major == 0 && place->minor > newest.minor) row = nullptr;
  }
  if (row == nullptr) {
    return make_error(StatusCode::kInvalidArgument,
                      "unknown revision of Megatron-LM: expected one of {}, found {}",
                      accepted_names(), printable(name));
  }
  return *row;
}

}  // namespace meg
