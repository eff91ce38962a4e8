#include "tools/clean_dataset/clean_dataset_html.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

#include "libmeg/base/version.h"
#include "tools/common/byte_size.h"
#include "tools/common/html_page.h"

namespace meg::tools {
namespace {

constexpr double kWidth = 640;  // of a picture

constexpr std::string_view kStyle = R"(
pre { white-space: pre-wrap; background: var(--card); padding: .4rem; overflow-wrap: anywhere; }
.clusters pre { margin: 2px 0; }
.kept { border-left: 4px solid #3a923a; } .removed { border-left: 4px solid #c44e52; }
.n { text-align: right; } .stays { fill: #3a923a; } .goes { fill: #c44e52; } .read { fill: #9aa7b5; }
)";

double width_of(int64_t part, int64_t whole) {
  return whole == 0 ? 0 : kWidth * static_cast<double>(part) / static_cast<double>(whole);
}

/// What stays green, what goes red, as parts of all that was read.
std::string bar(int64_t stays, int64_t goes, int64_t whole) {
  const double stay = width_of(stays, whole), go = width_of(goes, whole);
  return fmt::format(
      "<svg width={} height=16><rect width={:.1f} height=16 class=stays></rect>"
      "<rect x={:.1f} width={:.1f} height=16 class=goes></rect></svg>",
      kWidth, stay, stay, go);
}

std::string steps(const cleaning::CleanSummary& summary) {
  std::string rows;
  for (const cleaning::StepCounts& step : summary.steps) {
    std::string reasons;
    for (const auto& [reason, count] : step.reasons) {
      reasons += fmt::format("{}{} {}", reasons.empty() ? "" : ", ", escaped(reason), count);
    }
    if (step.removed_pieces > 0) {
      reasons += fmt::format("paragraphs or lines {}", step.removed_pieces);
    }
    rows += fmt::format(
        "<tr><th>{}<td class=n>{}<td class=n>{}<td class=n>{}<td class=n>{}<td>{}"
        "<tr><td colspan=6 class=soft>{}\n",
        escaped(step.name), step.documents, step.removed, step.changed,
        byte_size_text(step.removed_bytes),
        bar(step.documents - step.removed, step.removed, summary.documents), reasons);
  }
  return "<h2>Steps</h2><table><tr><th>step<th>documents<th>removed<th>changed<th>removed text<th>"
         "of all documents that were read\n" +
         rows + "</table>\n";
}

std::string lengths(const cleaning::CleanSummary& summary) {
  const auto& read = summary.lengths_read;
  const auto& kept = summary.lengths_kept;
  int64_t most = 0;
  size_t first = read.size(), last = 0;
  for (size_t i = 0; i < read.size(); ++i) {
    most = std::max({most, read[i], kept[i]});
    if (read[i] == 0 && kept[i] == 0) continue;
    first = std::min(first, i);
    last = i;
  }
  std::string rows;
  for (size_t i = first; i <= last && i < read.size(); ++i) {
    rows += fmt::format(
        "<tr><th>&lt; {}<td class=n>{}<td class=n>{}<td><svg width={} height=18>"
        "<rect width={:.1f} height=8 class=read></rect><rect y=9 width={:.1f} height=8 class=stays>"
        "</rect></svg>\n",
        byte_size_text(int64_t{2} << i), read[i], kept[i], kWidth, width_of(read[i], most),
        width_of(kept[i], most));
  }
  return "<h2>Lengths of texts</h2><table><tr><th>bytes<th>read<th>kept<th>\n" + rows +
         "</table>\n";
}

std::string languages(const cleaning::CleanSummary& summary) {
  if (summary.languages.empty()) return {};
  std::vector<std::pair<int64_t, std::string>> counts;
  for (const auto& [language, count] : summary.languages) counts.emplace_back(count, language);
  std::sort(counts.rbegin(), counts.rend());
  std::string rows;
  for (const auto& [count, language] : counts) {
    rows += fmt::format(
        "<tr><th>{}<td class=n>{}<td><svg width={} height=12><rect width={:.1f} height=12 "
        "class=read></rect></svg>\n",
        escaped(language), count, kWidth, width_of(count, counts.front().first));
  }
  return "<h2>Languages of texts</h2><table><tr><th>language<th>documents<th>\n" + rows +
         "</table>\n";
}

std::string clusters(const cleaning::CleanSummary& summary) {
  if (summary.largest_clusters.empty()) return {};
  const int64_t most = summary.largest_clusters.front().documents;
  std::string rows;
  for (const cleaning::DuplicateCluster& cluster : summary.largest_clusters) {
    rows += fmt::format("<tr><td class=n>{}<td>{}", cluster.documents,
                        bar(1, cluster.documents - 1, most));
    if (!cluster.kept.empty()) {
      rows += fmt::format("<pre class=kept>{}</pre><pre class=removed>{}</pre>",
                          escaped(cluster.kept), escaped(cluster.removed));
    }
    rows += '\n';
  }
  return fmt::format(
      "<h2>Near duplicates</h2><p>{} clusters. The largest: how many documents, of which one stays "
      "(the first text), and one that goes (the second).</p>\n<table class=clusters>{}</table>\n",
      summary.clusters, rows);
}

std::string samples(const cleaning::CleanSummary& summary) {
  std::string text;
  for (const cleaning::StepCounts& step : summary.steps) {
    if (step.samples.empty()) continue;
    text += fmt::format("<h3>{}</h3>\n", escaped(step.name));
    for (const cleaning::RemovedSample& sample : step.samples) {
      text += fmt::format("<pre>{}{}{}</pre>\n", escaped(sample.reason),
                          sample.reason.empty() ? "" : ": ", escaped(sample.text));
    }
  }
  return text.empty() ? "" : "<h2>The first documents that each step removed</h2>\n" + text;
}

}  // namespace

std::string clean_report_page(const cleaning::CleanSummary& summary, const std::string& command,
                              double seconds) {
  return page_head("clean_dataset", kStyle) +
         fmt::format(
             "<pre>{}</pre>\n<p>{} documents read ({}), {} kept ({}), in {:.1f} s, libmeg "
             "{}.</p>\n{}\n",
             escaped(command), summary.documents, byte_size_text(summary.text_bytes), summary.kept,
             byte_size_text(summary.kept_text_bytes), seconds, version(),
             bar(summary.kept, std::max<int64_t>(summary.documents - summary.kept, 0),
                 std::max(summary.documents, summary.kept))) +
         steps(summary) + lengths(summary) + languages(summary) + clusters(summary) +
         samples(summary) + "</body>\n</html>\n";
}

}  // namespace meg::tools
