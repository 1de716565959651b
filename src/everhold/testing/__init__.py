"""What tests of Everhold, and of adapters written elsewhere, import: contract suites and real servers."""
