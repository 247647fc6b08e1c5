# Error messages name the right errors.
exec 2>&1
cat nosuch
cat /
mkdir /proc/self/x 2>&1 | sed 's/.*: //' | head -n 1 >/dev/null
ls nosuch/deeper
echo x >nofolder/file
touch file; cat file/below
ln -s loop loop; cat loop
rmdir file
mkdir file
name=$(seq 1 200 | tr -d '\n'); touch "$name"
mv nosuch other
kill -0 999999
