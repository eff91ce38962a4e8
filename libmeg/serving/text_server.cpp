#include "libmeg/serving/text_server.h"

#include <nlohmann/json.hpp>
#include <utility>

#include "libmeg/serving/internal/page.h"

namespace meg::serving {

Result<std::unique_ptr<TextServer>> TextServer::start(TextServerOptions options,
                                                      ServedModel model) {
  std::unique_ptr<TextServer> text(new TextServer(options, std::move(model)));
  HttpHandlers handlers;
  handlers.api = [&api = text->api_](std::string_view body, int client) {
    return api.answer(body, client);
  };
  handlers.health = [server = text.get()] { return server->health(); };
  handlers.page = page_html();
  handlers.log = std::move(options.log);
  MEG_ASSIGN_OR_RETURN(text->server_,
                       HttpServer::start(std::move(options.http), std::move(handlers)));
  return text;
}

TextServer::TextServer(const TextServerOptions& options, ServedModel model)
    : name_(std::move(model.name)),
      request_timeout_(std::chrono::duration<double>(options.request_timeout).count()),
      queue_(std::move(model.engine), options.max_queue),
      api_(*model.tokenizer, queue_, options.rules, options.request_timeout, options.seed) {}

TextServer::~TextServer() {
  if (server_ != nullptr) stop(std::chrono::milliseconds(0));
}

/// A step that takes longer than a request may keeps every request from an answer, and a model that
/// failed on the last request will hardly do better on the next, so a load balancer should send its
/// requests elsewhere.
Health TextServer::health() const {
  const GenerationQueue::Load load = queue_.load();
  const bool is_stalled = load.step_seconds >= request_timeout_;
  Health answer{.is_ok = !is_stalled && load.failure.ok()};
  nlohmann::json health;
  health["status"] = is_stalled ? "stalled" : load.failure.ok() ? "ok" : "failing";
  if (!load.failure.ok()) health["error"] = load.failure.message();
  health["model"] = name_;
  health["queue"] = load.waiting;
  health["active"] = load.active;
  health["beam_searches"] = load.beam_searches;
  health["step_seconds"] = load.step_seconds;
  // The name is that of a folder, which need not be UTF-8.
  answer.json = health.dump(-1, ' ', true, nlohmann::json::error_handler_t::replace) + "\n";
  return answer;
}

/// No further requests first; then the model finishes what it is at, which answers the tickets that
/// connections wait for; then those answers go out.
void TextServer::stop(std::chrono::milliseconds grace) {
  server_->close_door();
  queue_.stop(grace);
  server_->stop();
}

}  // namespace meg::serving
