"""`python -m tiergate_server.config` writes the reference to standard output; `make docs` keeps it in docs/."""

import sys

from tiergate_server.config.reference import reference

sys.stdout.write(reference())
