#include "libmeg/samples/internal/blend_index.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <utility>
#include <vector>

namespace meg::samples {
namespace {

/// The samples between two questions whether to continue, which take longer than a sample.
constexpr size_t kSamplesOfPiece = 4096;

/// Up to this number of datasets, a scan of all is as fast as a tournament.
constexpr size_t kMostScanned = 64;

Status check_cancelled(const CacheCancelled& cancelled) {
  return meg::samples::check_cancelled(cancelled, "index of a blend");
}

/// A dataset that still has samples to give.
struct Candidate {
  double weight = 0;
  double used = 0;  // exact: below 2^53
  int16_t dataset = 0;
};

/// How far a dataset is behind its share. Computed like Megatron's helper, term by term in float64:
/// another order of operations would break ties differently, and one sample drawn from another
/// dataset shifts all that follow.
double behind(const Candidate& candidate, double place) {
  return candidate.weight * place - candidate.used;
}

/// Where a sample stands: at sample 0 the place is 1, so that the largest weight goes first.
double place_of(int64_t sample) { return std::max(static_cast<double>(sample), 1.0); }

/// Finds the candidate that is furthest behind, the first of equals, by looking at all of them.
class Scan {
 public:
  explicit Scan(std::vector<Candidate> candidates) : candidates_(std::move(candidates)) {}

  Candidate& furthest_behind(int64_t sample) {
    const double place = place_of(sample);
    best_ = 0;
    double most = std::numeric_limits<double>::lowest();
    for (size_t i = 0; i < candidates_.size(); ++i) {
      const double now = behind(candidates_[i], place);
      if (now > most) {
        most = now;
        best_ = i;
      }
    }
    return candidates_[best_];
  }

  /// The last one found was used once more.
  void note_used(int64_t /*sample*/) {}

  /// The last one found has no more. The order of the others stays: it decides between equals.
  void drop(int64_t /*sample*/) {
    candidates_.erase(candidates_.begin() + static_cast<ptrdiff_t>(best_));
  }

 private:
  std::vector<Candidate> candidates_;
  size_t best_ = 0;
};

/// The same by a tournament: a blend of 20,000 datasets has as many candidates for each sample. A
/// match is played again only when a candidate in it was used, or when rounding and the weights
/// allow another result.
class Tournament {
 public:
  explicit Tournament(std::vector<Candidate> candidates) : candidates_(std::move(candidates)) {
    while (leaves_ < candidates_.size()) leaves_ *= 2;
    matches_.resize(2 * leaves_);
    for (size_t i = 0; i < leaves_; ++i) {
      matches_[leaves_ + i].winner = i < candidates_.size() ? i : kNobody;
    }
    for (size_t match = leaves_; match-- > 1;) play(match, place_of(0));
  }

  Candidate& furthest_behind(int64_t sample) {
    const double place = place_of(sample);
    replay(1, place);
    return candidates_[matches_[1].winner];
  }

  void note_used(int64_t sample) {
    const double place = place_of(sample);
    for (size_t match = (leaves_ + matches_[1].winner) / 2; match > 0; match /= 2) {
      play(match, place);
    }
  }

  void drop(int64_t sample) {
    const size_t leaf = leaves_ + matches_[1].winner;
    matches_[leaf].winner = kNobody;
    for (size_t match = leaf / 2; match > 0; match /= 2) play(match, place_of(sample));
  }

 private:
  static constexpr size_t kNobody = std::numeric_limits<size_t>::max();
  static constexpr double kNever = std::numeric_limits<double>::infinity();

  struct Match {
    size_t winner = kNobody;
    double valid_before = kNever;  ///< A place: of the match and of all below it.
  };

  void play(size_t match, double place) {
    const Match& left = matches_[2 * match];
    const Match& right = matches_[2 * match + 1];
    Match& played = matches_[match];
    played.valid_before = std::min(left.valid_before, right.valid_before);
    if (left.winner == kNobody || right.winner == kNobody) {
      played.winner = left.winner == kNobody ? right.winner : left.winner;
      return;
    }
    const Candidate& first = candidates_[left.winner];
    const Candidate& second = candidates_[right.winner];
    const double lead = behind(first, place) - behind(second, place);
    // Of equals the first, as a scan finds it.
    played.winner = lead >= 0 ? left.winner : right.winner;
    const double gain = lead >= 0 ? second.weight - first.weight : first.weight - second.weight;
    played.valid_before = std::min(played.valid_before, end_of(std::abs(lead), gain, place));
  }

  /// The place before which who is behind by `lead` cannot catch up, `gain` a place.
  static double end_of(double lead, double gain, double place) {
    // With equal weights both products are the same number: only use changes who is ahead.
    if (gain == 0) return kNever;
    // Up to `most`, a product of at most this place is rounded by far less than this.
    const double most = 2 * place + 1024;
    const double sure = lead - most * 0x1p-48;
    if (sure <= 0) return place + 1;
    return gain > 0 ? std::min(most, std::floor(place + sure / gain)) : most;
  }

  void replay(size_t match, double place) {
    if (matches_[match].valid_before > place) return;
    if (match >= leaves_) return;
    replay(2 * match, place);
    replay(2 * match + 1, place);
    play(match, place);
  }

  std::vector<Candidate> candidates_;
  size_t leaves_ = 1;  ///< A power of two; the matches before them are a heap.
  std::vector<Match> matches_;
};

void give(Candidate& candidate, size_t sample, std::span<int16_t> dataset_index,
          std::span<int64_t> dataset_sample_index) {
  dataset_index[sample] = candidate.dataset;
  dataset_sample_index[sample] = static_cast<int64_t>(candidate.used);
  candidate.used += 1;
}

std::vector<Candidate> candidates_of(std::span<const double> weights) {
  std::vector<Candidate> candidates;
  for (const double weight : weights) {
    candidates.push_back(
        {.weight = weight, .used = 0, .dataset = static_cast<int16_t>(candidates.size())});
  }
  return candidates;
}

/// sizes: the samples of each dataset; empty: as many as are drawn.
template <class Candidates>
Status draw_from(Candidates candidates, std::span<const int64_t> sizes,
                 std::span<int16_t> dataset_index, std::span<int64_t> dataset_sample_index,
                 const CacheCancelled& cancelled) {
  for (size_t i = 0; i < dataset_index.size(); ++i) {
    if (i % kSamplesOfPiece == 0) MEG_RETURN_IF_ERROR(check_cancelled(cancelled));
    const auto sample = static_cast<int64_t>(i);
    Candidate& chosen = candidates.furthest_behind(sample);
    give(chosen, i, dataset_index, dataset_sample_index);
    const bool is_empty = !sizes.empty() && static_cast<int64_t>(chosen.used) ==
                                                sizes[static_cast<size_t>(chosen.dataset)];
    if (is_empty) {
      candidates.drop(sample);
    } else {
      candidates.note_used(sample);
    }
  }
  return {};
}

Status draw(std::span<const double> weights, std::span<const int64_t> sizes,
            std::span<int16_t> dataset_index, std::span<int64_t> dataset_sample_index,
            const CacheCancelled& cancelled) {
  std::vector<Candidate> candidates = candidates_of(weights);
  if (weights.size() <= kMostScanned) {
    return draw_from(Scan(std::move(candidates)), sizes, dataset_index, dataset_sample_index,
                     cancelled);
  }
  return draw_from(Tournament(std::move(candidates)), sizes, dataset_index, dataset_sample_index,
                   cancelled);
}

}  // namespace

Status build_blend_index(std::span<const double> weights, std::span<int16_t> dataset_index,
                         std::span<int64_t> dataset_sample_index, const CacheCancelled& cancelled) {
  return draw(weights, {}, dataset_index, dataset_sample_index, cancelled);
}

Status build_exhaustive_blend_index(std::span<const int64_t> sizes,
                                    std::span<int16_t> dataset_index,
                                    std::span<int64_t> dataset_sample_index,
                                    const CacheCancelled& cancelled) {
  const auto total = std::accumulate(sizes.begin(), sizes.end(), int64_t{0});
  std::vector<double> weights;
  for (const int64_t size : sizes) {
    weights.push_back(static_cast<double>(size) / static_cast<double>(total));
  }
  return draw(weights, sizes, dataset_index, dataset_sample_index, cancelled);
}

}  // namespace meg::samples
