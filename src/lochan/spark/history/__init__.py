"""History as frames: the data source `lochan`, its stream, functions of SQL, and a sink."""
