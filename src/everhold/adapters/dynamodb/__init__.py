"""Records in DynamoDB."""

from everhold.adapters.dynamodb.client import DynamoOptions
from everhold.adapters.dynamodb.records import DynamoRecords

__all__ = ["DynamoOptions", "DynamoRecords"]
