"""The embedding models of a store."""

from typing import Literal

from everhold.model.base import Row
from everhold.model.fields import Count, Integer, Name


class EmbeddingModel(Row):
    """An embedding model of the store's chunks.

    The model with the status "serving" answers queries. The chunks of a model that is "beside" it are kept up to date.
    A model that is "building" gets chunks but answers no query yet; the chunks of a model that is "leaving" are being
    deleted. `generation` numbers the models in the order in which they began to serve; it is 0 before that.
    """

    name: Name
    dimensions: Count
    status: Literal["building", "serving", "beside", "leaving"]
    generation: Count = 0
    version: Integer = 1
