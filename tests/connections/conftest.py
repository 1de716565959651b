"""These tests need a MariaDB, which `make connections` downloads. `make test` does not collect them."""

import os

collect_ignore_glob = [] if os.environ.get("CONNECTIONS") == "mariadb" else ["test_*.py"]
