"""HTTP/1.1 for all faces: connections, limits, deadlines, pools, lanes, the flush before a reply.

One process, one event loop. Handlers of faces are plain synchronous functions; the driver decides
where they run and lets no reply leave before what it shows is durable. Nothing here knows a route,
a protocol above HTTP or a database.
"""
