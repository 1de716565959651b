"""What tests of Recollect, and of adapters written elsewhere, import: contract suites and real servers."""
