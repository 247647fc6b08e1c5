# Without input there is end-of-file at once.
cat
read -r line
echo "read gave $? and '$line'"
