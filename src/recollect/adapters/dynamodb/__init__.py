"""Records in DynamoDB."""

from recollect.adapters.dynamodb.client import DynamoOptions
from recollect.adapters.dynamodb.records import DynamoRecords

__all__ = ["DynamoOptions", "DynamoRecords"]
