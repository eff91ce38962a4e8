#include "libmeg/serving/generation_queue.h"

#include <fmt/format.h>

#include <algorithm>
#include <new>
#include <unordered_map>
#include <utility>

// Two kinds of threads meet here. Connections' threads call submit() and wait on their tickets; the
// queue's own thread runs Worker and is the only one that touches the engine, so the engine needs
// no lock. `incoming_` and the published load are all that they share, under mutex_.
//
// A turn of the worker: take what has come (and check it), drop what is no longer wanted, give the
// engine's room to the jobs in turn, let it make one step, answer what is finished. A ticket is
// answered exactly once: what GenerationTicket::finish() gets after the first outcome is forgotten,
// so errors need not be distinguished.

namespace meg::serving {
namespace {

using Clock = std::chrono::steady_clock;

Status shutting_down() { return {StatusCode::kCancelled, "the server is shutting down"}; }

}  // namespace

/// A job on its way: waiting, in the engine, or partly both.
struct GenerationQueue::Entry {
  GenerationJob job;
  std::string client;
  std::shared_ptr<GenerationTicket> ticket;
  GenerationOutcome outcome;
  size_t added = 0;     ///< Texts that the engine has taken up, from the first.
  size_t finished = 0;  ///< Texts that it has finished.
  int64_t unread = 0;   ///< Tokens of prompts that it is reading.
  bool failed = false;  ///< The ticket has an error: the rest is dropped.

  int64_t waiting_texts() const { return static_cast<int64_t>(job.size() - added); }
};

/// The engine's thread: what it alone knows.
class GenerationQueue::Worker {
 public:
  explicit Worker(GenerationQueue& queue) : queue_(queue), engine_(*queue.engine_) {}

  void run() {
    while (take_incoming()) {
      try {
        advance();
      } catch (const std::bad_alloc&) {
        fail_all({StatusCode::kResourceExhausted, "no memory is left for this request"});
      }
    }
    fail_all(shutting_down());
    publish_load();
  }

 private:
  struct Place {
    std::shared_ptr<Entry> entry;
    size_t text;     ///< Index into its job.
    int64_t unread;  ///< Tokens of its prompt until it is read.
  };

  void advance() {
    drop_unwanted();
    take_up_waiting();
    if (places_.empty()) return publish_load();
    publish_load(Clock::now());
    step();
  }

  /// Waits for something to do; false once the thread should end.
  bool take_incoming() {
    std::unique_lock lock(queue_.mutex_);
    queue_.changed_.wait(lock, [&] {
      return queue_.stopping_ || !queue_.incoming_.empty() || !waiting_.empty() || !places_.empty();
    });
    const size_t before = waiting_.size();
    waiting_.insert(waiting_.end(), queue_.incoming_.begin(), queue_.incoming_.end());
    queue_.incoming_.clear();
    note_waiting();
    const bool stopping = queue_.stopping_;
    const bool grace = std::chrono::steady_clock::now() < queue_.end_of_grace_;
    lock.unlock();
    // Check without the lock: checking may take a while, and submit() must not wait for it.
    check_new(before);
    if (!stopping) return true;
    refuse_waiting();
    return !places_.empty() && grace;
  }

  /// A request that the engine will not take is answered at once rather than after its wait.
  void check_new(size_t first) {
    for (size_t i = first; i < waiting_.size(); ++i) {
      for (const GenerationRequest& request : waiting_[i]->job) {
        const Status status = engine_.check(request);
        if (!status.ok()) fail(*waiting_[i], status);
      }
    }
  }

  /// Those of which no text has begun.
  void refuse_waiting() {
    for (const auto& entry : waiting_) {
      if (entry->added == 0) fail(*entry, shutting_down());
    }
  }

  void drop_unwanted() {
    std::vector<int64_t> ended;
    for (auto place = places_.begin(); place != places_.end();) {
      Entry& entry = *place->second.entry;
      if (entry.ticket->cancelled()) entry.failed = true;
      if (!entry.failed) {
        if (entry.ticket->is_ended(place->second.text)) ended.push_back(place->first);
        ++place;
        continue;
      }
      engine_.cancel(place->first);
      place = places_.erase(place);
    }
    for (const int64_t number : ended) {
      const Place& place = places_.at(number);
      place.entry->unread -= place.unread;
      place.entry->ticket->add_progress(place.text, {.has_ended = true});
      finish(number, engine_.end(number));
    }
    std::erase_if(waiting_,
                  [](const auto& entry) { return entry->failed || entry->ticket->cancelled(); });
  }

  /// The engine's room goes to the jobs in turn, a text each, so that one of many texts leaves some
  /// to those that come after it, and to clients that have little of it first, so that one of many
  /// jobs does, too. Nor does a job get room for more prompts than a step reads, as
  /// long as it has others to read: they would gain nothing, and hold back the prompts of others.
  void take_up_waiting() {
    for (const bool searches : {false, true}) {
      while (take_up_next(searches)) {
      }
    }
  }

  /// Takes up the next text or search. False where none waits, or where it does not fit: then those
  /// behind it wait too, otherwise small ones would keep a large one waiting for ever.
  bool take_up_next(bool searches) {
    std::unordered_map<std::string_view, int64_t> held;
    for (const auto& [_, place] : places_) ++held[place.entry->client];
    auto next = waiting_.end();
    for (auto one = waiting_.begin(); one != waiting_.end(); ++one) {
      const Entry& entry = **one;
      if (entry.job[entry.added].beam.has_value() != searches ||
          entry.unread >= engine_.prompt_tokens_per_step()) {
        continue;
      }
      if (next == waiting_.end() || held[entry.client] < held[(*next)->client]) next = one;
    }
    if (next == waiting_.end()) return false;
    const std::shared_ptr<Entry> entry = *next;
    GenerationRequest& request = entry->job[entry->added];
    // An idle engine makes no room by waiting: what it says then is the answer.
    if (!places_.empty() && !engine_.has_room(request)) return false;
    waiting_.erase(next);
    const int64_t unread = searches ? 0 : std::ssize(request.prompt);
    const Result<int64_t> number = engine_.add(std::move(request));
    if (!number.has_value()) {
      fail(*entry, number.error());
      return true;
    }
    places_.emplace(*number, Place{entry, entry->added++, unread});
    entry->unread += unread;
    if (entry->waiting_texts() > 0) waiting_.push_back(entry);
    return true;
  }

  void step() {
    Result<std::vector<GenerationEvent>> events = engine_.step();
    if (!events.has_value()) return fail_active(events.error());
    publish_load();  // before who waits for an answer may look
    for (GenerationEvent& event : *events) {
      report(event);
      if (event.finished.has_value()) finish(event.request, std::move(*event.finished));
    }
  }

  void report(GenerationEvent& event) {
    const auto found = places_.find(event.request);
    if (found == places_.end()) return;
    if (event.token || event.finished) {
      found->second.entry->unread -= std::exchange(found->second.unread, 0);
    }
    TextProgress progress;
    if (event.token) progress.tokens.push_back(*event.token);
    progress.logprobs = std::move(event.logprobs);
    progress.top_logprobs = std::move(event.top_logprobs);
    progress.has_ended = event.finished.has_value();
    found->second.entry->ticket->add_progress(found->second.text, std::move(progress));
  }

  void finish(int64_t number, Result<GeneratedText> text) {
    const auto place = places_.find(number);
    if (place == places_.end()) return;
    Entry& entry = *place->second.entry;
    if (!text.has_value()) {
      fail(entry, text.error().with_prefix(fmt::format("text {}", place->second.text)));
    } else {
      entry.outcome[place->second.text] = std::move(*text);
      if (++entry.finished == entry.outcome.size() && !entry.failed) {
        entry.ticket->finish(std::move(entry.outcome));
      }
    }
    places_.erase(place);
  }

  static void fail(Entry& entry, const Status& status) {
    entry.failed = true;
    entry.ticket->finish(status);
  }

  void fail_active(const Status& status) {
    for (const auto& [number, place] : places_) engine_.cancel(number);
    publish_load();
    for (const auto& [number, place] : places_) fail(*place.entry, status);
    places_.clear();
  }

  void fail_all(const Status& status) {
    fail_active(status);
    for (const auto& entry : waiting_) fail(*entry, status);
    waiting_.clear();
  }

  /// step_begin: of the step that now begins.
  void publish_load(std::optional<Clock::time_point> step_begin = std::nullopt) {
    const std::lock_guard lock(queue_.mutex_);
    note_waiting();
    queue_.load_.active = engine_.active();
    queue_.load_.beam_searches = engine_.active_beam_searches();
    queue_.load_.engine = engine_.counters();
    queue_.load_.lost = engine_.lost();
    queue_.load_.failure = engine_.failure();
    queue_.step_begin_ = step_begin;
  }

  /// With the lock.
  void note_waiting() {
    queue_.load_.waiting = std::ssize(waiting_);
    queue_.load_.waiting_texts = 0;
    for (const auto& entry : waiting_) queue_.load_.waiting_texts += entry->waiting_texts();
  }

  GenerationQueue& queue_;
  GenerationEngine& engine_;
  std::deque<std::shared_ptr<Entry>> waiting_;
  std::unordered_map<int64_t, Place> places_;  ///< Of the texts in the engine, by its numbers.
};

GenerationQueue::GenerationQueue(std::unique_ptr<GenerationEngine> engine, int64_t max_waiting)
    : engine_(std::move(engine)),
      max_waiting_(max_waiting),
      load_{.engine = engine_->counters(), .lost = {}, .failure = engine_->failure()},
      thread_([this] { Worker(*this).run(); }) {}

GenerationQueue::~GenerationQueue() { stop(std::chrono::milliseconds(0)); }

Result<std::shared_ptr<GenerationTicket>> GenerationQueue::submit(GenerationJob job, bool streams,
                                                                  std::string client) {
  MEG_ASSIGN_OR_RETURN(std::shared_ptr<GenerationTicket> ticket,
                       GenerationTicket::make(streams ? job.size() : 0));
  auto entry = std::make_shared<Entry>();
  entry->outcome.resize(job.size());
  entry->job = std::move(job);
  entry->client = std::move(client);
  entry->ticket = ticket;
  {
    const std::lock_guard lock(mutex_);
    if (stopping_) return shutting_down();
    // load_.waiting is as old as the last turn, incoming_ is what has come since.
    const int64_t waiting = load_.waiting + static_cast<int64_t>(incoming_.size());
    if (waiting >= max_waiting_) {
      return make_error(StatusCode::kResourceExhausted,
                        "the queue is full: {} requests wait, try again later", waiting);
    }
    incoming_.push_back(std::move(entry));
  }
  changed_.notify_one();
  return ticket;
}

GenerationQueue::Load GenerationQueue::load() const {
  const std::lock_guard lock(mutex_);
  Load load = load_;
  load.waiting += std::ssize(incoming_);
  for (const auto& entry : incoming_) load.waiting_texts += entry->waiting_texts();
  if (step_begin_) {
    load.step_seconds = std::chrono::duration<double>(Clock::now() - *step_begin_).count();
  }
  return load;
}

void GenerationQueue::stop(std::chrono::milliseconds grace) {
  {
    const std::lock_guard lock(mutex_);
    const auto end = std::chrono::steady_clock::now() + grace;
    // A second stop(), such as the destructor's, may only shorten the grace.
    if (!stopping_ || end < end_of_grace_) end_of_grace_ = end;
    stopping_ = true;
  }
  changed_.notify_one();
  // Apart from mutex_, which the thread that is waited for needs.
  const std::lock_guard joining(join_mutex_);
  if (thread_.joinable()) thread_.join();
}

}  // namespace meg::serving
