"""The stream of events at `/events/v1`: what is sent to one follower, and when."""
