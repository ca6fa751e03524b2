"""The faces of the server: bytes of HTTP in, use cases of `service` called, bytes of HTTP out.

One process, one event loop. Handlers are plain synchronous functions; the driver decides where they
run and lets no reply leave before what it shows is durable. Nothing here knows a database.
"""
