"""Plain models: what the real thing must agree with, simple enough to be believed by reading."""
