"""The protocols that the server speaks, one package for each.

A face owns its paths: the routes, the rules of an address, the shapes of requests and answers, and
every refusal. It calls use cases of `service` and knows no socket; `transport` carries the bytes.
"""
