#include "libmeg/s3/internal/module/store_settings.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <map>
#include <string_view>
#include <utility>

// What AWS's programs read, in their order: the environment, then the profile in the file of
// credentials, then the one in the file of settings. Other ways to credentials are named and
// refused (docs/decisions/16-stores.md).

namespace meg::s3 {
namespace {

using Profile = std::map<std::string, std::string>;

std::string variable(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? "" : value;
}

/// The first that is not empty.
std::string first_of(std::initializer_list<std::string> values) {
  for (const std::string& value : values) {
    if (!value.empty()) return value;
  }
  return {};
}

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view kBlank = " \t\r";
  const size_t begin = text.find_first_not_of(kBlank);
  if (begin == text.npos) return {};
  return text.substr(begin, text.find_last_not_of(kBlank) - begin + 1);
}

/// Whether a heading such as `[profile x]` is that of profile `name`; in the file of credentials,
/// and of `default`, the first word is left out.
bool is_heading_of(std::string_view line, std::string_view name) {
  if (!line.starts_with('[') || !line.ends_with(']')) return false;
  std::string_view found = trimmed(line.substr(1, line.size() - 2));
  if (found.starts_with("profile ")) found = trimmed(found.substr(8));
  return found == name;
}

/// Adds what the file says of a profile; false where it does not know it. Lines that are indented
/// belong to the value above them, of which none matters here.
bool add_profile(const std::string& path, const std::string& name, Profile& values) {
  std::ifstream file(path);
  bool is_found = false;
  bool is_inside = false;
  for (std::string text; std::getline(file, text);) {
    const std::string_view line = trimmed(text);
    if (line.empty() || line.starts_with('#') || line.starts_with(';')) continue;
    if (line.starts_with('[')) {
      is_inside = is_heading_of(line, name);
      is_found = is_found || is_inside;
      continue;
    }
    const size_t equal = line.find('=');
    if (!is_inside || equal == line.npos || text.starts_with(' ') || text.starts_with('\t')) {
      continue;
    }
    std::string key(trimmed(line.substr(0, equal)));
    std::transform(key.begin(), key.end(), key.begin(),
                   [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    // The first of several counts.
    values.emplace(std::move(key), trimmed(line.substr(equal + 1)));
  }
  return is_found;
}

struct Profiles {
  std::string name;  // of the profile
  std::string credentials_path, config_path;
  Profile credentials, config;

  std::string value(const std::string& key) const {
    for (const Profile& profile : {credentials, config}) {
      if (const auto found = profile.find(key); found != profile.end()) return found->second;
    }
    return {};
  }
};

Result<Profiles> read_profiles() {
  const std::string home = variable("HOME");
  const std::string asked = first_of({variable("AWS_PROFILE"), variable("AWS_DEFAULT_PROFILE")});
  Profiles all{.name = asked.empty() ? "default" : asked,
               .credentials_path =
                   first_of({variable("AWS_SHARED_CREDENTIALS_FILE"), home + "/.aws/credentials"}),
               .config_path = first_of({variable("AWS_CONFIG_FILE"), home + "/.aws/config"}),
               .credentials = {},
               .config = {}};
  const bool has_credentials = add_profile(all.credentials_path, all.name, all.credentials);
  const bool has_config = add_profile(all.config_path, all.name, all.config);
  // A profile that somebody asked for must not be replaced by other keys silently.
  if (!asked.empty() && !has_credentials && !has_config) {
    return make_error(StatusCode::kNotFound,
                      "AWS_PROFILE: expected a profile of {} or {}, found {}", all.credentials_path,
                      all.config_path, asked);
  }
  return all;
}

Status other_way(std::string_view what) {
  return make_error(StatusCode::kUnsupported,
                    "{}: this source of credentials is not supported: set AWS_ACCESS_KEY_ID, "
                    "AWS_SECRET_ACCESS_KEY and AWS_SESSION_TOKEN, as `aws configure "
                    "export-credentials --format env` prints them",
                    what);
}

/// What AWS's programs would ask before the keys of a profile.
Status refuse_other_ways(const Profiles& profiles) {
  for (const char* const key :
       {"role_arn", "web_identity_token_file", "sso_session", "sso_start_url", "sso_account_id"}) {
    if (!profiles.value(key).empty()) {
      return other_way(fmt::format("profile {}: {}", profiles.name, key));
    }
  }
  if (!variable("AWS_WEB_IDENTITY_TOKEN_FILE").empty()) {
    return other_way("AWS_WEB_IDENTITY_TOKEN_FILE");
  }
  return Status();
}

Status no_credentials(const Profiles& profiles) {
  if (!profiles.value("credential_process").empty()) {
    return other_way(fmt::format("profile {}: credential_process", profiles.name));
  }
  for (const char* const name :
       {"AWS_CONTAINER_CREDENTIALS_RELATIVE_URI", "AWS_CONTAINER_CREDENTIALS_FULL_URI"}) {
    if (!variable(name).empty()) return other_way(name);
  }
  return make_error(StatusCode::kNotFound,
                    "no credentials: expected AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or "
                    "aws_access_key_id and aws_secret_access_key of profile {} in {}",
                    profiles.name, profiles.credentials_path);
}

Status read_credentials(const Profiles& profiles, StoreSettings& settings) {
  settings.access_key = variable("AWS_ACCESS_KEY_ID");
  settings.secret_key = variable("AWS_SECRET_ACCESS_KEY");
  if (settings.access_key.empty() != settings.secret_key.empty()) {
    return Status(StatusCode::kInvalidArgument,
                  "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY: expected both, found one");
  }
  settings.session_token = variable("AWS_SESSION_TOKEN");
  // Keys of the environment go before everything else, as with AWS's programs.
  if (!settings.access_key.empty()) return Status();
  MEG_RETURN_IF_ERROR(refuse_other_ways(profiles));
  // Pairs from one file: a key of one and the secret of another would sign wrongly.
  for (Profile profile : {profiles.credentials, profiles.config}) {
    settings.access_key = profile["aws_access_key_id"];
    settings.secret_key = profile["aws_secret_access_key"];
    settings.session_token = profile["aws_session_token"];
    if (!settings.access_key.empty() && !settings.secret_key.empty()) return Status();
  }
  return no_credentials(profiles);
}

bool is_true(std::string value) {
  std::transform(value.begin(), value.end(), value.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return value == "true";
}

Status read_endpoint(const Profiles& profiles, StoreSettings& settings) {
  if (is_true(first_of({variable("AWS_IGNORE_CONFIGURED_ENDPOINT_URLS"),
                        profiles.value("ignore_configured_endpoint_urls")}))) {
    return Status();
  }
  settings.endpoint = first_of({variable("AWS_ENDPOINT_URL_S3"), variable("AWS_ENDPOINT_URL")});
  if (settings.endpoint.empty() && !profiles.value("services").empty()) {
    return make_error(StatusCode::kUnsupported,
                      "profile {}: services: not supported: set AWS_ENDPOINT_URL_S3",
                      profiles.name);
  }
  if (settings.endpoint.empty()) settings.endpoint = profiles.value("endpoint_url");
  const std::string& found = settings.endpoint;
  if (!found.empty() && !found.starts_with("http://") && !found.starts_with("https://")) {
    return make_error(StatusCode::kInvalidArgument,
                      "endpoint: expected http:// or https://, found {}", found);
  }
  // Signatures are made of the path as it is sent: `//BUCKET` is another one.
  while (settings.endpoint.ends_with('/')) settings.endpoint.pop_back();
  return Status();
}

Status read_attempts(const Profiles& profiles, StoreSettings& settings) {
  const std::string text = first_of({variable("AWS_MAX_ATTEMPTS"), profiles.value("max_attempts")});
  if (text.empty()) return Status();
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), settings.attempts);
  const bool is_number = parsed.ec == std::errc() && parsed.ptr == text.data() + text.size();
  if (is_number && settings.attempts >= 1) return Status();
  return make_error(StatusCode::kInvalidArgument,
                    "AWS_MAX_ATTEMPTS: expected a number from 1, found {}", text);
}

}  // namespace

Result<StoreSettings> read_store_settings() {
  StoreSettings settings;
  MEG_ASSIGN_OR_RETURN(const Profiles profiles, read_profiles());
  MEG_RETURN_IF_ERROR(read_credentials(profiles, settings));
  settings.region = first_of({variable("AWS_REGION"), variable("AWS_DEFAULT_REGION"),
                              profiles.value("region"), settings.region});
  settings.certificates = first_of({variable("AWS_CA_BUNDLE"), profiles.value("ca_bundle")});
  MEG_RETURN_IF_ERROR(read_endpoint(profiles, settings));
  MEG_RETURN_IF_ERROR(read_attempts(profiles, settings));
  return settings;
}

}  // namespace meg::s3
