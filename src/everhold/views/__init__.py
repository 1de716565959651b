"""The verbs on one scope's data, one class per capability; `View` combines them."""
