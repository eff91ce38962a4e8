#pragma once

namespace meg::tools {

/// From now on the first SIGINT, SIGTERM or SIGHUP, or standard output without a reader (SIGPIPE),
/// only makes interrupted() true, so that work can end in good order. What follows within a second
/// counts as the same request; a later signal ends the process at once. Signals that the caller has
/// switched off (nohup) stay so.
void stop_at_signals();

bool interrupted();

/// The signal that made interrupted() true; 0 where it is not.
int interrupting_signal();

/// Serves a program whose regular end is by `signal`: where that came, it is as if it had not.
void take_as_regular_end(int signal);

}  // namespace meg::tools
