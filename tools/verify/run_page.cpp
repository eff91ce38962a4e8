#include "tools/verify/run_page.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <ctime>
#include <functional>
#include <limits>
#include <optional>
#include <set>
#include <string_view>
#include <utility>

#include "libmeg/base/version.h"
#include "libmeg/logging/figure_names.h"
#include "libmeg/logging/log_runs.h"
#include "tools/common/html_page.h"

namespace meg::tools {
namespace {

using logging::LoggedFigure;
using logging::LoggedRun;
using logging::LoggedSteps;
using logging::RunFinding;
using logging::RunLog;

constexpr std::string_view kStyle = R"(
:root { --curve: #2f6fb3; } @media (prefers-color-scheme: dark) { :root { --curve: #6ba6e5; } }
.curve { fill: none; stroke: var(--curve); stroke-width: 1.5; stroke-linejoin: round; }
.points { fill: var(--curve); } .grid { stroke: var(--line); }
.found { stroke: var(--bad); stroke-dasharray: 2 3; }
)";

constexpr double kLeft = 80, kTop = 10, kWidth = 980, kHeight = 200;

using Points = std::vector<std::pair<double, double>>;  // iteration and value

/// The least and the largest of some numbers.
struct Range {
  double least = std::numeric_limits<double>::infinity();
  double largest = -std::numeric_limits<double>::infinity();

  void add(double value) {
    least = std::min(least, value);
    largest = std::max(largest, value);
  }

  /// Of numbers that are all the same, as much as they are.
  double width() const {
    if (largest > least) return largest - least;
    return largest == 0 ? 1 : std::abs(largest);
  }
};

/// Where the points of a curve come to be on a picture.
class Axes {
 public:
  Axes(const std::vector<Points>& curves, Range iterations) : iterations_(iterations) {
    for (const Points& points : curves) {
      for (const auto& [iteration, value] : points) values_.add(value);
    }
    // Norms and losses that once were far higher would flatten all that followed.
    constexpr double kWide = 50;
    is_logarithmic_ = values_.least > 0 && values_.largest > kWide * values_.least;
    if (is_logarithmic_) values_ = {std::log(values_.least), std::log(values_.largest)};
  }

  double x(double iteration) const {
    return kLeft + kWidth * (iteration - iterations_.least) / iterations_.width();
  }

  double y(double value) const {
    const double at = is_logarithmic_ ? std::log(value) : value;
    return kTop + kHeight * (1 - (at - values_.least) / values_.width());
  }

  std::string grid() const {
    constexpr int kParts = 5;
    std::string svg;
    for (int i = 0; i <= kParts; ++i) {
      const double share = static_cast<double>(i) / kParts;
      const double level = values_.least + share * values_.width();
      const double y_at = kTop + kHeight * (1 - share), x_at = kLeft + kWidth * share;
      fmt::format_to(
          std::back_inserter(svg),
          "<line class=grid x1={0} x2={1} y1={2:.1f} y2={2:.1f} /><text x={3} y={4:.1f} "
          "text-anchor=end>{5:.4g}</text><text x={6:.1f} y={7} text-anchor=middle>{8}</text>\n",
          kLeft, kLeft + kWidth, y_at, kLeft - 6, y_at + 3,
          is_logarithmic_ ? std::exp(level) : level, x_at, kTop + kHeight + 15,
          grouped(std::llround(iterations_.least + share * iterations_.width())));
    }
    return svg;
  }

 private:
  Range iterations_, values_;
  bool is_logarithmic_ = false;
};

/// A line through some points, of which those at one place of the picture are its lowest and its
/// highest: a page stays small however long the run was.
std::string curve(const Points& points, const Axes& axes) {
  std::string text;
  for (size_t i = 0; i < points.size();) {
    const double x = std::floor(axes.x(points[i].first));
    Range heights;
    for (; i < points.size() && std::floor(axes.x(points[i].first)) == x; ++i) {
      heights.add(axes.y(points[i].second));
    }
    fmt::format_to(std::back_inserter(text), "{},{:.1f} ", x, heights.largest);
    if (heights.least != heights.largest) {
      fmt::format_to(std::back_inserter(text), "{},{:.1f} ", x, heights.least);
    }
  }
  // A single point has no line.
  if (points.size() == 1) {
    return fmt::format("<circle class=points r=2 cx={:.1f} cy={:.1f} />\n", axes.x(points[0].first),
                       axes.y(points[0].second));
  }
  return fmt::format("<polyline class=curve points=\"{}\" />\n", text);
}

class RunPage {
 public:
  RunPage(const RunLog& log, const std::vector<RunFinding>& findings)
      : log_(log), findings_(findings), runs_(logging::runs_in(log)) {
    for (const LoggedSteps& steps : log.steps) {
      iterations_.add(static_cast<double>(steps.iteration));
    }
  }

  std::string text() const {
    namespace names = logging::figure_names;
    std::string html = page_head(escaped(log_.path), kStyle) + section("Runs", runs()) +
                       section("Findings", findings());
    html += picture("lm loss", &LoggedSteps::lm_loss);
    html += section("lm loss of evaluations", of_evaluations());
    html += picture(names::kGradNorm.label, &LoggedSteps::grad_norm);
    html += picture(names::kLearningRate.label, &LoggedSteps::learning_rate);
    html += picture(names::kLossScale.label, &LoggedSteps::loss_scale);
    html += picture(names::kElapsedTime.label, &LoggedSteps::milliseconds);
    return html + page_end(fmt::format("verify run of libmeg {}, {:%Y-%m-%d %H:%M} UTC", version(),
                                       fmt::gmtime(std::time(nullptr))));
  }

 private:
  std::string runs() const {
    std::vector<Row> rows;
    for (const LoggedRun& run : runs_) {
      const LoggedSteps& last = log_.steps[run.end - 1];
      const auto loss = last.lm_loss();
      rows.push_back({run.load.has_value() ? escaped(run.load->folder) : "",
                      grouped(log_.steps[run.begin].iteration), grouped(last.iteration),
                      grouped(static_cast<int64_t>(run.end - run.begin)),
                      loss.has_value() ? fmt::format("{:.6g}", loss->value) : ""});
    }
    return table({"from", "first iteration", "last", "lines", "lm loss at its end"}, rows, 1);
  }

  std::string findings() const {
    if (findings_.empty()) return "<p>none</p>\n";
    constexpr size_t kMost = 1000;
    std::vector<Row> rows;
    for (const RunFinding& finding : findings_) {
      if (rows.size() == kMost) break;
      rows.push_back({finding.kind, escaped(finding.text),
                      finding.line > 0 ? grouped(finding.line) : "", grouped(finding.iteration),
                      grouped(finding.last)});
    }
    const std::string html = table({"kind", "", "line", "first iteration", "last"}, rows, 2);
    const auto others = static_cast<int64_t>(findings_.size() - rows.size());
    return others == 0 ? html : html + fmt::format("<p>and {} more</p>\n", grouped(others));
  }

  std::string svg(const std::vector<Points>& curves) const {
    if (std::ranges::all_of(curves, &Points::empty)) return "";
    const Axes axes(curves, iterations_);
    std::string svg = fmt::format("<div class=scroll><svg width={} height={} role=img>\n{}",
                                  kLeft + kWidth + 40, kTop + kHeight + 25, axes.grid());
    std::set<double> marked;
    for (const RunFinding& finding : findings_) {
      const double x = std::floor(axes.x(static_cast<double>(finding.iteration)));
      if (!marked.insert(x).second) continue;
      fmt::format_to(std::back_inserter(svg),
                     "<line class=found x1={0} x2={0} y1={1} y2={2}><title>{3}: {4}</title>"
                     "</line>\n",
                     x, kTop, kTop + kHeight, finding.kind, escaped(finding.text));
    }
    for (const Points& points : curves) {
      if (!points.empty()) svg += curve(points, axes);
    }
    return svg + "</svg></div>\n";
  }

  /// One curve for each run.
  template <class Value>
  std::string picture(std::string_view title, Value value) const {
    std::vector<Points> curves;
    for (const LoggedRun& run : runs_) {
      Points& points = curves.emplace_back();
      for (size_t i = run.begin; i < run.end; ++i) {
        const std::optional<LoggedFigure> figure = std::invoke(value, log_.steps[i]);
        if (!figure.has_value() || !std::isfinite(figure->value)) continue;
        points.emplace_back(log_.steps[i].iteration, figure->value);
      }
    }
    return section(title, svg(curves));
  }

  std::string of_evaluations() const {
    Points points;
    for (const logging::LoggedValidation& validation : log_.validations) {
      const auto at = static_cast<double>(validation.iteration);
      // What comes after the last step has no place of its own.
      const bool is_within = at >= iterations_.least && at <= iterations_.largest;
      for (const auto& [name, figure] : validation.losses) {
        if (name == "lm loss" && validation.set.empty() && is_within &&
            std::isfinite(figure.value)) {
          points.emplace_back(at, figure.value);
        }
      }
    }
    return svg({points});
  }

  const RunLog& log_;
  const std::vector<RunFinding>& findings_;
  std::vector<LoggedRun> runs_;
  Range iterations_;
};

}  // namespace

std::string run_page(const RunLog& log, const std::vector<RunFinding>& findings) {
  return RunPage(log, findings).text();
}

}  // namespace meg::tools
