"""Code that protoc wrote from `pulsar.proto` (`make proto`): never edited, checked for freshness by a test."""
