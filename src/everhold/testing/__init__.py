"""Contract suites and real servers for the tests of Everhold and of adapters in other packages."""
