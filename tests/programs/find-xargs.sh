# find with its tests and actions, xargs in batches.
mkdir -p a/b c; touch a/one a/b/two c/three; echo text >c/four; ln -s one a/link
find . -type l; find . -name 't*' | sort; find . -size +0 -type f; find . -newer a/one -type f | sort | head -n 1 >/dev/null
find . -type f -exec basename {} \; | sort
seq 1 1000 | xargs -n 100 echo | wc -l
seq 1 10 | xargs -n 3 sh -c 'echo "$# $*"' x
