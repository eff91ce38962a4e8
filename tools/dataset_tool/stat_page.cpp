#include "tools/dataset_tool/stat_page.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <ctime>
#include <nlohmann/json.hpp>
#include <string_view>
#include <vector>

#include "libmeg/base/version.h"
#include "tools/common/byte_size.h"
#include "tools/common/html_page.h"

namespace meg::tools {
namespace {

using nlohmann::ordered_json;

constexpr std::string_view kStyle = R"(
:root { --documents: #2f6fb3; --tokens: #c07a1e; }
@media (prefers-color-scheme: dark) { :root { --documents: #6ba6e5; --tokens: #e0a458; } }
.documents { fill: var(--documents); color: var(--documents); }
.tokens { fill: var(--tokens); color: var(--tokens); }
.curve { fill: none; stroke: var(--documents); stroke-width: 2; }
.law { fill: none; stroke: var(--soft); stroke-dasharray: 4 4; }
.grid { stroke: var(--line); } td svg { margin-top: .2rem; }
.text { font: 13px ui-monospace, monospace; white-space: pre-wrap; overflow-wrap: anywhere; }
)";

std::string percent(double share) { return fmt::format("{:.2f} %", 100 * share); }

double ratio(int64_t part, int64_t whole) {
  return whole == 0 ? 0 : static_cast<double>(part) / static_cast<double>(whole);
}

/// A text's beginning that shows what is not seen otherwise.
std::string shown(const ordered_json& row) {
  if (!row.contains("text")) return "";
  std::string text;
  for (const char c : row["text"].get_ref<const std::string&>()) {
    if (c == '\n') {
      text += "\u21b5";
    } else {
      text += c == '\t' ? ' ' : c;
    }
  }
  return escaped(text);
}

std::string facts(const ordered_json& answer) {
  const auto count = [&](const char* field) { return grouped(answer[field].get<int64_t>()); };
  const auto documents = answer["documents"].get<int64_t>();
  const auto tokens = answer["tokens"].get<int64_t>();
  std::vector<Row> rows = {
      {"documents", count("documents")},
      {"empty documents", count("empty_documents")},
      {"sequences", count("sequences")},
      {"tokens", count("tokens")},
      {"type of tokens", escaped(answer["dtype"].get<std::string>())},
      {"tokenizer", answer["tokenizer"].is_null()
                        ? "<span class=soft>not recorded</span>"
                        : escaped(answer["tokenizer"].get<std::string>())},
  };
  std::vector<Row> others = {
      {"distinct tokens", count("distinct_tokens")},
      {"duplicate documents",
       fmt::format("{} ({})", count("duplicate_documents"),
                   percent(ratio(answer["duplicate_documents"].get<int64_t>(), documents)))},
      {"duplicate tokens",
       fmt::format("{} ({})", count("duplicate_tokens"),
                   percent(ratio(answer["duplicate_tokens"].get<int64_t>(), tokens)))},
  };
  if (answer.contains("bytes_per_token")) {
    others.push_back({"special tokens", count("special_tokens")});
    others.push_back({"text", byte_size_text(answer["text_bytes"].get<int64_t>())});
    if (!answer["bytes_per_token"].is_null()) {
      others.push_back(
          {"bytes per token", fmt::format("{:.3f}", answer["bytes_per_token"].get<double>())});
    }
  }
  return "<div class=facts>" + table({}, rows, 1) + table({}, others, 1) + "</div>\n";
}

std::string lengths(const ordered_json& answer) {
  if (answer["length_histogram"].empty()) return "";
  constexpr double kWidth = 420;
  const ordered_json& lengths = answer["document_lengths"];
  std::string html = fmt::format(
      "<p>shortest {}, median {}, 90 % up to {}, 99 % up to {}, longest {} tokens; share of the "
      "<span class=documents>documents</span> and of the <span class=tokens>tokens</span> by the "
      "length of a document:</p>\n",
      grouped(lengths["min"].get<int64_t>()), grouped(lengths["median"].get<int64_t>()),
      grouped(lengths["p90"].get<int64_t>()), grouped(lengths["p99"].get<int64_t>()),
      grouped(lengths["max"].get<int64_t>()));
  std::vector<Row> rows;
  for (const ordered_json& bucket : answer["length_histogram"]) {
    const auto from = bucket["from"].get<int64_t>(), to = bucket["to"].get<int64_t>();
    const double documents =
        ratio(bucket["documents"].get<int64_t>(), answer["documents"].get<int64_t>());
    const double tokens = ratio(bucket["tokens"].get<int64_t>(), answer["tokens"].get<int64_t>());
    const std::string picture = fmt::format(
        "<svg width={0} height=17 role=img><rect class=documents width={1:.1f} height=8 />"
        "<rect class=tokens y=9 width={2:.1f} height=8 /></svg>",
        kWidth, kWidth * documents, kWidth * tokens);
    rows.push_back({from == to ? grouped(from) : grouped(from) + "\u2013" + grouped(to), picture,
                    grouped(bucket["documents"].get<int64_t>()), percent(documents),
                    percent(tokens)});
  }
  return html + table({"tokens", "", "documents", "of documents", "of tokens"}, rows, 2);
}

/// Counts over ranks, both logarithmic, and a line that falls as Zipf's law has it.
std::string frequencies(const ordered_json& answer) {
  const ordered_json& list = answer["token_frequencies"];
  if (list.size() < 2) return "";
  constexpr double kLeft = 70, kTop = 10, kWidth = 640, kHeight = 320;
  const double most = list.front()["count"].get<double>();
  const double decades_x = std::max(1.0, std::ceil(std::log10(list.back()["rank"].get<double>())));
  const double decades_y = std::max(1.0, std::ceil(std::log10(most)));
  const auto x = [&](double rank) { return kLeft + kWidth * std::log10(rank) / decades_x; };
  const auto y = [&](double count) { return kTop + kHeight * (1 - std::log10(count) / decades_y); };
  std::string svg =
      fmt::format("<svg width={} height={} role=img>\n", kLeft + kWidth + 60, kTop + kHeight + 40);
  for (int decade = 0; decade <= static_cast<int>(decades_x); ++decade) {
    const double at = x(std::pow(10, decade));
    svg += fmt::format(
        "<line class=grid x1={0:.1f} x2={0:.1f} y1={1} y2={2} /><text x={0:.1f} y={3} "
        "text-anchor=middle>{4}</text>\n",
        at, kTop, kTop + kHeight, kTop + kHeight + 15,
        grouped(static_cast<int64_t>(std::pow(10, decade))));
  }
  for (int decade = 0; decade <= static_cast<int>(decades_y); ++decade) {
    const double at = y(std::pow(10, decade));
    svg += fmt::format(
        "<line class=grid x1={1} x2={2} y1={0:.1f} y2={0:.1f} /><text x={3} y={4:.1f} "
        "text-anchor=end>{5}</text>\n",
        at, kLeft, kLeft + kWidth, kLeft - 6, at + 3,
        grouped(static_cast<int64_t>(std::pow(10, decade))));
  }
  std::string points;
  for (const ordered_json& point : list) {
    points += fmt::format("{:.1f},{:.1f} ", x(point["rank"].get<double>()),
                          y(point["count"].get<double>()));
  }
  const double last = std::min(most, std::pow(10, decades_x));
  svg += fmt::format(
      "<line class=law x1={:.1f} y1={:.1f} x2={:.1f} y2={:.1f} />\n"
      "<polyline class=curve points=\"{}\" />\n<text x={} y={}>rank of a token, and how often it "
      "is "
      "there; dashed: Zipf's law</text></svg>\n",
      x(1), y(most), x(last), y(most / last), points, kLeft, kTop + kHeight + 34);
  Row head = {"share of all tokens"}, row = {"most frequent tokens that make it"};
  for (const ordered_json& share : answer["tokens_of_share"]) {
    head.push_back(fmt::format("{:.0f} %", 100 * share["share"].get<double>()));
    row.push_back(grouped(share["tokens"].get<int64_t>()));
  }
  return svg + table(head, {row}, 1);
}

std::string tokens(const ordered_json& answer) {
  if (answer["most_frequent_tokens"].empty()) return "";
  constexpr double kWidth = 260;
  const auto all = answer["tokens"].get<int64_t>();
  const auto most = answer["most_frequent_tokens"].front()["count"].get<int64_t>();
  std::vector<Row> rows;
  for (const ordered_json& token : answer["most_frequent_tokens"]) {
    const auto count = token["count"].get<int64_t>();
    const std::string text = shown(token);
    rows.push_back(
        {text.empty() ? "" : fmt::format("<code>\u201c{}\u201d</code>", text),
         fmt::format("<svg width={} height=10 role=img><rect class=documents width={:.1f} "
                     "height=10 /></svg>",
                     kWidth, kWidth * ratio(count, most)),
         grouped(token["id"].get<int64_t>()), grouped(count), percent(ratio(count, all))});
  }
  return table({"text", "", "id", "times there", "of all tokens"}, rows, 2);
}

std::string documents(const ordered_json& answer) {
  const ordered_json& list = answer["most_frequent_documents"];
  if (list.empty()) return "";
  std::vector<Row> rows;
  for (const ordered_json& document : list) {
    rows.push_back({"<div class=text>" + shown(document) + "</div>",
                    grouped(document["document"].get<int64_t>()),
                    grouped(document["count"].get<int64_t>()),
                    grouped(document["tokens"].get<int64_t>())});
  }
  return table({"begins with", "the first", "times there", "tokens of each"}, rows, 1);
}

}  // namespace

std::string stat_page(const ordered_json& answer) {
  return page_head(escaped(answer["prefix"].get<std::string>()), kStyle) + facts(answer) +
         section("Lengths of documents", lengths(answer)) +
         section("Frequencies of tokens", frequencies(answer)) +
         section("Most frequent tokens", tokens(answer)) +
         section("Documents that are there more than once", documents(answer)) +
         page_end(fmt::format("dataset_tool of libmeg {}, {:%Y-%m-%d %H:%M} UTC", version(),
                              fmt::gmtime(std::time(nullptr))));
}

}  // namespace meg::tools
