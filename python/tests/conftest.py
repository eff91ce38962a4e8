"""What all tests of the package begin with."""

import signal

# A shell's background jobs ignore SIGINT, and so would what they start.
signal.signal(signal.SIGINT, signal.default_int_handler)
