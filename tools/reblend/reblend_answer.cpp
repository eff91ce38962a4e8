#include "tools/reblend/reblend_answer.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>

#include "tools/common/json_output.h"

namespace meg::tools {
namespace {

using nlohmann::ordered_json;

/// The samples after which the first dataset repeats, if the mixture went on for ever; nullopt:
/// none can be named.
std::optional<double> samples_until_repeat(const samples::Reblended& reblended) {
  std::optional<double> least;
  for (const samples::ReblendedDataset& each : reblended.datasets) {
    if (each.new_weight == 0) continue;
    const double lasts = static_cast<double>(std::max<int64_t>(each.left, 0)) / each.new_weight;
    least = std::min(least.value_or(lasts), lasts);
  }
  return least;
}

double epochs_of(int64_t samples, int64_t sequence_length, int64_t epoch_tokens) {
  return static_cast<double>(samples) * static_cast<double>(sequence_length) /
         static_cast<double>(epoch_tokens);
}

void print_dataset(const samples::ReblendedDataset& each, const samples::DataRun& run) {
  const int64_t length = run.config.sequence_length;
  fmt::print("{}{}\n", each.prefix, each.is_new ? " (new)" : "");
  fmt::print("  weight: {:.6g} -> {:.6g}\n", each.old_weight, each.new_weight);
  fmt::print("  given: {} samples, {} tokens, {:.3f} epochs\n", each.given, each.given * length,
             epochs_of(each.given, length, each.epoch_tokens));
  if (each.left < 0) {
    fmt::print("  left: several epochs are shuffled together, so that it repeats at any time\n");
  } else {
    fmt::print("  left before it repeats: {} samples, {} tokens\n", each.left, each.left * length);
  }
  fmt::print("  to come: {} samples, {} tokens, to epoch {:.3f}\n", each.to_come,
             each.to_come * length,
             epochs_of(each.given + each.to_come, length, each.epoch_tokens));
  if (each.excluded_sequences > 0) {
    fmt::print("  excluded: {} sequences, {} samples become shorter, {} of them are dropped\n",
               each.excluded_sequences, each.changed_samples, each.dropped_samples);
  }
  if (each.repeats_at) {
    fmt::print("  repeats: from sample {} on, iteration {}\n", *each.repeats_at,
               run.batches.step_of(*each.repeats_at));
  }
}

}  // namespace

ordered_json json_of(const ReblendAnswer& answer) {
  const auto& [reblended, run, consumed, flags, dropped] = answer;
  const int64_t length = run.config.sequence_length;
  ordered_json object = json_object();
  object["consumed_samples"] = consumed;
  object["samples"] = reblended.samples;
  object["iteration"] = run.batches.step_of(consumed) - 1;
  object["sequence_length"] = length;
  object["datasets"] = ordered_json::array();
  for (const samples::ReblendedDataset& each : reblended.datasets) {
    ordered_json entry;
    entry["prefix"] = each.prefix;
    entry["new"] = each.is_new;
    entry["old_weight"] = each.old_weight;
    entry["new_weight"] = each.new_weight;
    entry["given"] = each.given;
    entry["given_tokens"] = each.given * length;
    entry["left"] = each.left < 0 ? ordered_json() : ordered_json(each.left);
    entry["left_tokens"] = each.left < 0 ? ordered_json() : ordered_json(each.left * length);
    entry["to_come"] = each.to_come;
    entry["epoch_tokens"] = each.epoch_tokens;
    entry["repeats_at"] = each.repeats_at ? ordered_json(*each.repeats_at) : ordered_json();
    object["datasets"].push_back(entry);
  }
  object["flags"] = flags;
  object["dropped_flags"] = dropped;
  return object;
}

void print_answer(const ReblendAnswer& answer) {
  const auto& [reblended, run, consumed, flags, dropped] = answer;
  const int64_t length = run.config.sequence_length;
  for (const samples::ReblendedDataset& each : reblended.datasets) print_dataset(each, run);
  const int64_t rest = reblended.samples - consumed;
  fmt::print("the run: {} samples, {} tokens to come\n", rest, rest * length);
  if (const auto lasts = samples_until_repeat(reblended)) {
    const auto samples = static_cast<int64_t>(std::min(*lasts, 9e15));
    fmt::print(
        "the new mixture lasts {} samples, {} iterations, {} tokens before a dataset repeats\n",
        samples, run.batches.step_of(consumed + samples) - run.batches.step_of(consumed),
        samples * length);
  }
  if (!reblended.config.cache_path) return;
  fmt::print("wrote {}: {} caches\n", *reblended.config.cache_path, reblended.caches.size());
  fmt::print("continue with the run's flags, but");
  for (const std::string& flag : dropped) fmt::print(" without {},", flag);
  fmt::print("\n  {}\n", fmt::join(flags, " "));
}

}  // namespace meg::tools
