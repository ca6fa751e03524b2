"""How each request travels over HTTP: one flow a request, without a socket.

A flow yields an `HttpRequest`, is sent the `HttpReply` and returns a value of `model/`.
"""
