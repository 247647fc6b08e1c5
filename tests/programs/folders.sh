# Folders: nested, listed, renamed, refused, with names of all kinds.
mkdir -p a/b/c 'with space' .hidden
touch a/1 a/b/2 a/b/c/3 'with space/4' .hidden/5 "new
line"
ls -1A
find . -type f | sort
rmdir a 2>/dev/null || echo "not empty"
mv a/b moved && ls moved
mkdir moved 2>/dev/null || echo exists
cd moved/c && pwd && cd .. && pwd
rm -r ../a ../moved 2>/dev/null
cd / && ls -d /case/folders/* | wc -l
