#pragma once

#include <string>

#include "libmeg/base/result.h"

namespace meg::s3 {

/// The place of the store and the credentials.
struct StoreSettings {
  std::string access_key, secret_key;
  std::string session_token;  ///< May be empty.
  std::string region = "us-east-1";
  std::string endpoint;      ///< Without a slash at its end; empty: AWS's.
  std::string certificates;  ///< A file of certificate authorities; empty: the system's.
  int attempts = 8;          ///< Attempts per request.
};

/// Reads, each before the next, as AWS's programs: AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and
/// AWS_SESSION_TOKEN; the profile AWS_PROFILE, or `default`, of AWS_SHARED_CREDENTIALS_FILE
/// (~/.aws/credentials) and of AWS_CONFIG_FILE (~/.aws/config). Region: AWS_REGION,
/// AWS_DEFAULT_REGION, the profile's. Endpoint: AWS_ENDPOINT_URL_S3, AWS_ENDPOINT_URL, the
/// profile's endpoint_url, unless AWS_IGNORE_CONFIGURED_ENDPOINT_URLS is true. Also
/// AWS_CA_BUNDLE and AWS_MAX_ATTEMPTS.
/// Errors: kNotFound if there are no credentials or no such profile, kInvalidArgument for settings
/// that are not understood, kUnsupported for other sources of credentials (roles, SSO, processes).
/// No message contains a secret.
Result<StoreSettings> read_store_settings();

}  // namespace meg::s3
