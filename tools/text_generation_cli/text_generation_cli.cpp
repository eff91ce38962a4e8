// Sends prompts to a text generation server, one after another. Stands for Megatron-LM
// tools/text_generation_cli.py.

#include <fmt/core.h>

#include <charconv>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "libmeg/base/result.h"
#include "libmeg/text/json/python_json.h"
#include "libmeg/text/printable.h"
#include "libmeg/text/terminal_text.h"
#include "libmeg/text/whitespace.h"
#include "tools/common/flags/flags.h"
#include "tools/common/report.h"
#include "tools/common/run_program.h"
#include "tools/common/text_lines.h"
#include "tools/text_generation_cli/http_client.h"

namespace meg::tools {
namespace {

using nlohmann::json;

constexpr std::chrono::hours kAnswerTime{24};  ///< The server has a timeout of its own.
constexpr std::chrono::seconds kFirstAnswerTime{5};
constexpr std::string_view kEnd = "stop";
constexpr std::string_view kScheme = "http://";

Result<Address> read_address(const std::string& text) {
  std::string_view server = text;
  if (server.starts_with(kScheme)) {
    server.remove_prefix(kScheme.size());
    server = server.substr(0, server.find('/'));
  }
  const size_t colon = server.rfind(':');
  Address address;
  const char* const end = server.data() + server.size();
  const char* const digits = colon == std::string::npos ? end : server.data() + colon + 1;
  const auto [stop, error] = std::from_chars(digits, end, address.port);
  address.host = server.substr(0, colon);
  if (error != std::errc() || stop != end || address.port < 1 || address.port > 65535 ||
      address.host.empty() || address.host.find('/') != std::string::npos) {
    return make_error(StatusCode::kInvalidArgument,
                      "expected HOST:PORT such as localhost:5000, found {}", text::printable(text));
  }
  if (address.host.front() == '[' && address.host.back() == ']') {
    address.host = address.host.substr(1, address.host.size() - 2);
  }
  return address;
}

/// Empty at the end of input and where `stop` was typed.
Result<std::optional<std::string>> ask(TextLines& lines, std::string_view question) {
  fmt::print("{}", question);
  std::fflush(stdout);
  std::string line;
  MEG_ASSIGN_OR_RETURN(const bool more, lines.next(line));
  if (!more || text::trimmed(line) == kEnd) return std::optional<std::string>();
  return std::optional(std::move(line));
}

std::optional<int64_t> read_count(const std::string& line) {
  const std::string_view text = text::trimmed(line);
  int64_t count = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), count);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return count;
}

/// The text, or the first of several, of one key of an answer. Nothing else of it is kept: as a
/// tree a hostile one would need many times its size.
std::optional<std::string> text_of(const std::string& body, const std::string& key) {
  text::PythonJsonReader reader({key});
  if (!reader.read(body).ok() || reader.texts(0).empty()) return std::nullopt;
  return std::string(reader.texts(0).front());
}

/// The sentence in an error's body: ours and flask_restful's are objects, Megatron's a string.
std::string error_message(const std::string& body) {
  if (const std::optional<std::string> message = text_of(body, "message")) return *message;
  if (body.starts_with('"')) {
    const json answer = json::parse(body, nullptr, false);
    if (answer.is_string()) return answer.get<std::string>();
  }
  return text::printable(body, 200);
}

void print_answer(const HttpAnswer& response) {
  if (response.status != 200) {
    fmt::print("Error {}: {}\n", response.status,
               text::terminal_text(error_message(response.body)));
    return;
  }
  const std::optional<std::string> text = text_of(response.body, "text");
  if (!text.has_value()) {
    fmt::print("Error: expected an answer with a text, found {}\n",
               text::printable(response.body, 200));
    return;
  }
  fmt::print("Megatron Response: \n{}\n", text::terminal_text(*text));
}

/// A server, by the name that the command line gives it.
struct Server {
  std::string name;
  Address address;
};

Result<io::FileDescriptor> connect_to(const Server& server) {
  Result<io::FileDescriptor> connection = connect_to(server.address);
  if (connection.has_value()) return connection;
  return make_error(StatusCode::kIoError, "{}: no server answers there ({})", server.name,
                    connection.error().message());
}

/// A server that is busy may keep us waiting; any answer is one, Megatron's has no such path.
Status find_server(const Server& server) {
  MEG_ASSIGN_OR_RETURN(const io::FileDescriptor connection, connect_to(server));
  const Status status =
      exchange(connection, server.address, "GET", "/health", "", kFirstAnswerTime).status();
  const bool is_server = status.ok() || status.code() == StatusCode::kIoError;
  return is_server ? Status() : status.with_prefix(server.name);
}

/// One prompt and its answer; false at the end.
Result<bool> converse(const Server& server, TextLines& lines) {
  MEG_ASSIGN_OR_RETURN(const std::optional<std::string> prompt, ask(lines, "Enter prompt: "));
  if (!prompt.has_value()) return false;
  MEG_ASSIGN_OR_RETURN(const std::optional<std::string> line,
                       ask(lines, "Enter number of tokens to generate: "));
  if (!line.has_value()) return false;
  const std::optional<int64_t> count = read_count(*line);
  if (!count.has_value()) {
    fmt::print("Error: expected a number of tokens, found {}\n", text::printable(*line));
    return true;
  }
  const json request = {{"prompts", {*prompt}}, {"tokens_to_generate", *count}};
  MEG_ASSIGN_OR_RETURN(const io::FileDescriptor connection, connect_to(server));
  const Result<HttpAnswer> answer =
      exchange(connection, server.address, "PUT", "/api",
               request.dump(-1, ' ', false, json::error_handler_t::replace), kAnswerTime);
  if (!answer.has_value()) return answer.error().with_prefix(server.name);
  print_answer(*answer);
  return true;
}

// NOLINTNEXTLINE(bugprone-exception-escape): not the program's own main(), run_program() catches.
int main(int argc, const char* const* argv) {
  Server server;
  Flags flags("text_generation_cli",
              "sends prompts to a text generation server and prints its answers, until `stop` or "
              "the end of the input.");
  flags.examples(
      {"text_generation_cli localhost:5000", "text_generation_cli http://127.0.0.1:5000"});
  flags.positional("HOST:PORT", &server.name, "address of run_text_generation_server");
  if (const std::optional<int> code = flags.parse(argc, argv)) return *code;
  const Result<Address> address = read_address(server.name);
  if (!address.has_value()) return fail_usage(address.error());
  server.address = *address;
  if (const Status status = find_server(server); !status.ok()) return fail(status);
  Result<TextLines> lines = TextLines::open(io::kStandardInput);
  if (!lines.has_value()) return fail(lines.error());
  for (;;) {
    const Result<bool> more = converse(server, *lines);
    if (!more.has_value()) {
      fmt::print("\n");
      return fail(more.error());
    }
    if (!*more) break;
  }
  fmt::print("\n");
  return 0;
}

}  // namespace
}  // namespace meg::tools

int main(int argc, char** argv) { return meg::tools::run_program(argc, argv, meg::tools::main); }
