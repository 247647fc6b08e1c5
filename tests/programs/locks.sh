# flock: exclusive, shared, and refused.
touch lock
flock lock sh -c 'flock -n lock true || echo refused'
flock -s lock sh -c 'flock -n -s lock echo shared'
flock lock echo free
