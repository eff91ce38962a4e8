#include "tools/verify_resume/verify_resume_answer.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>

#include "tools/common/field_flags.h"
#include "tools/common/json_output.h"

namespace meg::tools {
namespace {

using nlohmann::ordered_json;
using resume::ComparedFigure;
using resume::Trial;

/// The number of a table or a message.
std::string misfit_text(double misfit) {
  return misfit >= resume::kIncomparable ? "-" : fmt::format("{:.3g}", misfit);
}

void print_figures(const std::vector<ComparedFigure>& figures) {
  fmt::print("{:>10}  {:<28}  {:>14}  {:>14}  {:>10}\n", "iteration", "figure", "log", "computed",
             "misfit");
  for (const ComparedFigure& figure : figures) {
    fmt::print("{:>10}  {:<28}  {:>14.8g}  {:>14.8g}  {:>10}{}\n", figure.iteration, figure.name,
               figure.logged, figure.computed, misfit_text(figure.misfit),
               figure.misfit > 1 ? "  differs" : "");
  }
}

void print_trials(const resume::Verdict& verdict) {
  const std::vector<Trial>& trials = verdict.trials;
  const auto fits = std::ranges::count_if(trials, [](const Trial& trial) { return trial.fits(); });
  if (const Trial* const likely = verdict.likely()) {
    fmt::print("likely cause: {} ({}, misfit {} of {})\n", with_flags(likely->cause), likely->name,
               misfit_text(likely->misfit), misfit_text(largest_misfit(verdict.figures)));
  } else if (fits == 0) {
    fmt::print("cause: none of the {} hypotheses fits\n", trials.size());
  }
  for (const Trial& trial : trials) {
    if (!trial.fits()) continue;
    fmt::print("{}: {} ({}, misfit {})\n", &trial == trials.data() ? "cause" : "or",
               with_flags(trial.cause), trial.name, misfit_text(trial.misfit));
  }
  if (fits > 1) fmt::print("the log does not tell these {} apart\n", fits);
  std::vector<std::string> others;
  for (const Trial& trial : trials) {
    if (!trial.fits() && trial.error.empty()) {
      others.push_back(fmt::format("{} ({})", trial.name, misfit_text(trial.misfit)));
    }
  }
  if (!others.empty()) fmt::print("do not fit: {}\n", fmt::join(others, ", "));
  for (const Trial& trial : trials) {
    if (!trial.error.empty()) {
      fmt::print("could not be tried: {}: {}\n", trial.name, with_flags(trial.error));
    }
  }
}

/// What sequences of a batch cannot tell.
std::vector<std::string> not_compared(const resume::Verdict& verdict) {
  if (!verdict.sampled.has_value()) return {};
  return {"learning rate", "loss scale", "grad norm", "number of skipped iterations",
          "later steps"};
}

void print_sampled(const resume::SampledLoss& sampled) {
  fmt::print("samples: {} of the {} sequences of the first step's batch, drawn by the run's seed\n",
             sampled.samples, sampled.batch_size);
  fmt::print(
      "standard error: {:.3g}; the whole batch's loss is within {:.3g} ({:.2g} %) of the computed "
      "one with {:g} % confidence\n",
      sampled.standard_error, sampled.margin, 100 * sampled.margin / sampled.mean,
      100 * resume::SampledLoss::kConfidence);
}

/// null for NaN and Inf, which JSON does not have.
ordered_json figures_json(const std::vector<ComparedFigure>& figures) {
  ordered_json list = ordered_json::array();
  for (const ComparedFigure& figure : figures) {
    list.push_back({{"iteration", figure.iteration},
                    {"figure", figure.name},
                    {"log", figure.logged},
                    {"computed", figure.computed},
                    {"misfit", figure.misfit}});
  }
  return list;
}

}  // namespace

std::string difference_text(const ResumeAnswer& answer) {
  const std::vector<ComparedFigure>& figures = answer.verdict.figures;
  const auto differs =
      std::ranges::find_if(figures, [](const ComparedFigure& figure) { return figure.misfit > 1; });
  if (differs == figures.end()) return "";
  const Trial* const cause = answer.verdict.cause();
  return fmt::format("{}: {} of iteration {}: expected {:.8g} as after {}, found {:.8g}: {}",
                     answer.log, differs->name, differs->iteration, differs->computed,
                     answer.checkpoint, differs->logged,
                     cause != nullptr ? cause->cause : "for no reason that was tried");
}

void print_answer(const ResumeAnswer& answer) {
  fmt::print("checkpoint: {}, iteration {}, {} samples consumed\n", answer.checkpoint,
             answer.iteration, answer.consumed_samples);
  fmt::print("run: {}\n", answer.run);
  fmt::print("log: {}\n", answer.log);
  fmt::print("tolerance: lm loss {:g}, grad norm {:g}, relative, beside the digits of the log\n",
             answer.tolerances.loss, answer.tolerances.grad_norm);
  const std::optional<resume::SampledLoss>& sampled = answer.verdict.sampled;
  if (sampled.has_value()) print_sampled(*sampled);
  print_figures(answer.verdict.figures);
  if (sampled.has_value()) {
    fmt::print("not compared: {}\n", fmt::join(not_compared(answer.verdict), ", "));
  }
  if (answer.verdict.equal()) {
    // A whole batch tells as much as its step.
    const bool is_estimate = sampled.has_value() && sampled->samples < sampled->batch_size;
    fmt::print("equal{}\n",
               is_estimate ? fmt::format(", as far as {} of {} sequences tell: a loss that is off "
                                         "by less than {:.3g} is not noticed",
                                         sampled->samples, sampled->batch_size, sampled->margin)
                           : "");
    return;
  }
  print_trials(answer.verdict);
  if (!answer.verdict.untried.empty()) {
    fmt::print("not tried, as {}: {}\n",
               sampled.has_value()
                   ? "samples of the first step do not show it, or a cause was found"
                   : "a cause was found",
               fmt::join(answer.verdict.untried, ", "));
  }
  fmt::print("never tried: {}\n", fmt::join(resume::hypotheses_not_tried(), "; "));
}

ordered_json answer_json(const ResumeAnswer& answer) {
  ordered_json object = json_object();
  object["checkpoint"] = answer.checkpoint;
  object["iteration"] = answer.iteration;
  object["consumed_samples"] = answer.consumed_samples;
  object["run"] = answer.run;
  object["log"] = answer.log;
  object["equal"] = answer.verdict.equal();
  object["tolerance"] = {{"lm_loss", answer.tolerances.loss},
                         {"grad_norm", answer.tolerances.grad_norm}};
  if (const auto& sampled = answer.verdict.sampled) {
    object["sampled"] = {{"samples", sampled->samples},
                         {"batch_size", sampled->batch_size},
                         {"lm_loss", sampled->mean},
                         {"standard_error", sampled->standard_error},
                         {"margin", sampled->margin},
                         {"confidence", resume::SampledLoss::kConfidence},
                         {"not_compared", not_compared(answer.verdict)}};
  }
  object["notes"] = ordered_json::array();
  for (const std::string& note : answer.notes) object["notes"].push_back(with_flags(note));
  for (const std::string& text : answer.verdict.warnings) {
    object["notes"].push_back(with_flags(text));
  }
  object["figures"] = figures_json(answer.verdict.figures);
  const Trial* const likely = answer.verdict.likely();
  object["likely_cause"] = likely != nullptr ? ordered_json(likely->name) : ordered_json();
  object["causes"] = ordered_json::array();
  object["hypotheses"] = ordered_json::array();
  for (const Trial& trial : answer.verdict.trials) {
    if (trial.fits()) object["causes"].push_back(trial.name);
    object["hypotheses"].push_back({{"name", trial.name},
                                    {"cause", with_flags(trial.cause)},
                                    {"fits", trial.fits()},
                                    {"misfit", trial.misfit},
                                    {"error", trial.error},
                                    {"figures", figures_json(trial.figures)}});
  }
  object["not_tried"] = answer.verdict.untried;
  object["never_tried"] = resume::hypotheses_not_tried();
  return object;
}

}  // namespace meg::tools
