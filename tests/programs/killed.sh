# Killed by its own signal.
kill -KILL $$
