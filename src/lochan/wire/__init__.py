"""What travels: shapes of requests and responses, and how they become values of `model/` and back.

No other package knows JSON. Names on the wire are those of the public Nessie API (camel
case); where its two versions differ, a shape ends in `V1` or `V2`.
"""
