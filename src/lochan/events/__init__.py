"""Events: every change of a repository, reported to subscribers once it is true and durable.

`hub.py` gets what the kernel has settled, `order.py` puts it into the order of each reference,
`subscription.py` queues it for each subscriber, and `builder.py` makes events of it. This package
has no thread: a driver calls `Delivery.turn` (`lochan.assembly.events`, or a test).
"""
