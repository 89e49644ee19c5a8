"""Code that protoc wrote from `bookkeeper.proto` (`make proto`): never edited, checked for freshness by a test."""
