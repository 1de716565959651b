"""Tests that need a MariaDB, which `make connections` downloads; `make test` leaves them out."""

import os

collect_ignore_glob = [] if os.environ.get("CONNECTIONS") == "mariadb" else ["test_*.py"]
