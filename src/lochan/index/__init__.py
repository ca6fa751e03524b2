"""The sorted index: nodes, the content-defined tree, the embedded layer on top of it.

Promises: the same content gives the same tree, whatever its history; reads load only the nodes they
touch, level by level; nothing here writes to a store, new nodes are returned to the caller.
"""
