#include "tools/common/progress_bar.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <iostream>
#include <utility>
#include <vector>

#include "tools/common/events.h"
#include "tools/common/interruption.h"
#include "tools/common/terminal_columns.h"

namespace meg::tools {
namespace {

constexpr double kRedrawSeconds = 0.1;
constexpr double kMegabyte = 1024.0 * 1024.0;
constexpr double kGigabyte = 1e9;
constexpr size_t kLongestBar = 40;
constexpr size_t kShortestBar = 8;

double steady_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

double per_second(double amount, double seconds) { return seconds > 0 ? amount / seconds : 0; }

/// Done part of the input, 0 to 1; negative where the input's size is unknown.
double done_part(const Progress& progress) {
  // Input that is read from files is known by its bytes, everything else by its documents.
  const bool counts_bytes = progress.total_documents < 0;
  const int64_t total = counts_bytes ? progress.total_bytes : progress.total_documents;
  const int64_t done = counts_bytes ? progress.bytes : progress.documents;
  if (total < 0) return -1;
  if (total == 0) return 1;
  return std::clamp(static_cast<double>(done) / static_cast<double>(total), 0.0, 1.0);
}

std::string bar(double part, size_t width) {
  const size_t inner = width - 2;
  const size_t done = static_cast<size_t>(part * static_cast<double>(inner));
  std::string text = "[" + std::string(done, '=');
  if (done < inner) text += ">" + std::string(inner - done - 1, ' ');
  return text + "]";
}

/// The fields of the live line, the most important first.
std::vector<std::string> fields(const Progress& progress, double seconds, double part) {
  std::vector<std::string> list;
  if (part >= 0) list.push_back(fmt::format("{:3.0f}%", std::floor(part * 100)));
  const bool has_documents = progress.documents > 0 || progress.tokens > 0;
  const double byte_rate = per_second(static_cast<double>(progress.bytes), seconds);
  const auto count = [&](int64_t counted) { return short_count(static_cast<double>(counted)); };
  const auto count_per_second = [&](int64_t counted) {
    const double rate = per_second(static_cast<double>(counted), seconds);
    return rate < 9.995 ? fmt::format("{:.2f}", rate) : short_count(rate);
  };
  const bool has_tokens = progress.tokens > 0 || progress.total_documents < 0;
  if (progress.total_documents < 0) {
    list.push_back(has_documents ? fmt::format("{:.1f} MB/s", byte_rate / kMegabyte)
                                 : fmt::format("{:.2f} GB/s", byte_rate / kGigabyte));
  } else if (has_tokens) {
    list.push_back(count_per_second(progress.tokens) + " tokens/s");
  }
  if (has_documents) {
    list.push_back(fmt::format("{} {}/s", count_per_second(progress.documents), progress.counted));
  }
  if (part > 0) list.push_back("ETA " + short_duration(seconds * (1 - part) / part));
  if (!has_documents) return list;
  if (has_tokens) list.push_back(count(progress.tokens) + " tokens");
  list.push_back(fmt::format("{} {}", count(progress.documents), progress.counted));
  return list;
}

}  // namespace

std::string short_duration(double seconds) {
  const double most = 99.0 * 3600;
  const auto whole = static_cast<int64_t>(std::ceil(std::clamp(seconds, 0.0, most)));
  if (whole < 60) return fmt::format("{}s", whole);
  if (whole < 3600) return fmt::format("{}:{:02}", whole / 60, whole % 60);
  return fmt::format("{}:{:02}:{:02}", whole / 3600, whole / 60 % 60, whole % 60);
}

std::string short_count(double count) {
  if (count < 999.5) return fmt::format("{:.0f}", count);
  const char* const units[] = {"K", "M", "G", "T"};
  size_t unit = 0;
  count /= 1000;
  while (count >= 999.5 && unit + 1 < std::size(units)) {
    count /= 1000;
    ++unit;
  }
  const int decimals = count < 9.995 ? 2 : count < 99.95 ? 1 : 0;
  return fmt::format("{:.{}f}{}", count, decimals, units[unit]);
}

std::string progress_line(const Progress& progress, double seconds, size_t columns) {
  // One less than the terminal has: in the last column many terminals begin a new line, and `\r`
  // would then not come back to this one.
  const size_t room = columns > 0 ? columns - 1 : 0;
  const double part = done_part(progress);
  std::string line;
  for (const std::string& field : fields(progress, seconds, part)) {
    const size_t gap = line.empty() ? 0 : 2;
    if (line.size() + gap + field.size() > room) break;
    line += std::string(gap, ' ') + field;
  }
  if (part < 0 || line.empty() || line.size() + 1 + kShortestBar > room) return line;
  return bar(part, std::min(kLongestBar, room - line.size() - 1)) + " " + line;
}

ProgressBar::ProgressBar(std::ostream& out, Options options)
    : out_(out), options_(std::move(options)), start_(options_.clock()) {}

ProgressBar::ProgressBar(int64_t log_interval)
    : ProgressBar(std::cerr, Options{.live = isatty(STDERR_FILENO) == 1,
                                     .log_interval = log_interval,
                                     .clock = steady_seconds,
                                     .columns = [] { return terminal_columns(STDERR_FILENO); }}) {}

ProgressBar::~ProgressBar() { clear(); }

void ProgressBar::update(const Progress& progress) {
  send_progress(progress);
  if (options_.live) {
    redraw(progress);
  } else {
    print_due_lines(progress);
  }
}

void ProgressBar::clear() {
  if (!drawn_) return;
  out_ << "\r\x1b[K" << std::flush;
  drawn_ = false;
}

void ProgressBar::finish(const Progress& progress) {
  if (!options_.live) print_due_lines(progress);
  clear();
}

ProgressCallback ProgressBar::callback() {
  return [this](const Progress& progress) {
    update(progress);
    return true;
  };
}

ProgressCallback ProgressBar::interruptible_callback() {
  return [this](const Progress& progress) {
    update(progress);
    return !interrupted();
  };
}

void ProgressBar::print_due_lines(const Progress& progress) {
  const int64_t step = options_.log_interval;
  if (step <= 0 || progress.documents - documents_shown_ < step) return;
  const double elapsed = seconds();
  const double megabytes = per_second(static_cast<double>(progress.bytes), elapsed) / kMegabyte;
  std::string lines;
  // One line for every multiple, also where several are due at once: Megatron's tools print each,
  // and scripts count them.
  while (progress.documents - documents_shown_ >= step) {
    documents_shown_ += step;
    lines += fmt::format("Processed {} documents ({:.1f} docs/s, {:.2f} MB/s).\n", documents_shown_,
                         per_second(static_cast<double>(documents_shown_), elapsed), megabytes);
  }
  out_ << lines << std::flush;
}

void ProgressBar::redraw(const Progress& progress) {
  const double now = seconds();
  if (drawn_ && now - last_redraw_ < kRedrawSeconds) return;
  out_ << "\r" << progress_line(progress, now, options_.columns()) << "\x1b[K" << std::flush;
  last_redraw_ = now;
  drawn_ = true;
}

}  // namespace meg::tools
