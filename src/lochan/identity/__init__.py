"""The signing keys of issuers of tokens, read from a file or fetched from an address."""
