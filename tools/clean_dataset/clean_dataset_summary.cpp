#include "tools/clean_dataset/clean_dataset_summary.h"

#include <fmt/format.h>

#include <cstdio>
#include <nlohmann/json.hpp>

#include "tools/common/byte_size.h"
#include "tools/common/json_output.h"
#include "tools/common/report.h"

namespace meg::tools {

void print_clean_summary(const cleaning::CleanSummary& summary, bool is_dataset, double seconds) {
  if (summary.was_finished) fmt::print("already finished: nothing to do\n");
  fmt::print("documents: {}\nbytes: {}\n", summary.documents, summary.text_bytes);
  for (const cleaning::StepCounts& step : summary.steps) {
    fmt::print("{}: removed {} of {} documents, {} of {} bytes\n", step.name, step.removed,
               step.documents, step.removed_bytes, step.bytes);
    if (step.changed > 0) fmt::print("  changed: {}\n", step.changed);
    if (step.removed_pieces > 0)
      fmt::print("  removed paragraphs or lines: {}\n", step.removed_pieces);
    if (step.reasons.size() < 2) continue;
    for (const auto& [reason, count] : step.reasons) fmt::print("  {}: {}\n", reason, count);
  }
  if (summary.clusters > 0) {
    fmt::print("clusters of near duplicates: {}, the largest of {} documents\n", summary.clusters,
               summary.largest_clusters.front().documents);
  }
  if (summary.skipped_lines > 0) fmt::print("skipped lines: {}\n", summary.skipped_lines);
  fmt::print("kept: {} documents, {} bytes\nseconds: {:.3f}\n", summary.kept,
             summary.kept_text_bytes, seconds);
  for (const cleaning::OutputCounts& output : summary.outputs) {
    if (summary.outputs.size() > 1) {
      fmt::print("{}: {} documents, {} bytes\n", output.path, output.documents, output.text_bytes);
    }
    if (is_dataset) {
      print_written_dataset(output.path);
      continue;
    }
    fmt::print("{}\n", written_text(output.path, {&output.path, 1}));
  }
  std::fflush(stdout);
}

void print_clean_json(const cleaning::CleanSummary& summary, double seconds) {
  nlohmann::ordered_json object = json_object();
  object["outputs"] = nlohmann::ordered_json::array();
  for (const cleaning::OutputCounts& output : summary.outputs) {
    object["outputs"].push_back(
        {{"path", output.path}, {"documents", output.documents}, {"bytes", output.text_bytes}});
  }
  object["documents"] = summary.documents;
  object["input_bytes"] = summary.input_bytes;
  object["bytes"] = summary.text_bytes;
  object["skipped_lines"] = summary.skipped_lines;
  if (!summary.languages.empty()) object["languages"] = summary.languages;
  object["steps"] = nlohmann::ordered_json::array();
  for (const cleaning::StepCounts& step : summary.steps) {
    object["steps"].push_back({{"name", step.name},
                               {"documents", step.documents},
                               {"bytes", step.bytes},
                               {"removed", step.removed},
                               {"changed", step.changed},
                               {"removed_bytes", step.removed_bytes},
                               {"removed_pieces", step.removed_pieces},
                               {"reasons", step.reasons}});
  }
  object["clusters"] = summary.clusters;
  object["largest_clusters"] = nlohmann::ordered_json::array();
  for (const cleaning::DuplicateCluster& cluster : summary.largest_clusters) {
    object["largest_clusters"].push_back(
        {{"documents", cluster.documents}, {"kept", cluster.kept}, {"removed", cluster.removed}});
  }
  object["candidate_pairs"] = summary.candidate_pairs;
  object["joined_pairs"] = summary.joined_pairs;
  object["kept"] = summary.kept;
  object["kept_bytes"] = summary.kept_text_bytes;
  object["output_bytes"] = summary.output_bytes;
  object["already_finished"] = summary.was_finished;
  object["seconds"] = seconds;
  print_json(object);
}

}  // namespace meg::tools
