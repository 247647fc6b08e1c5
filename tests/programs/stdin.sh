# Standard input from a file, by lines and by bytes.
read -r first
echo "first: $first"
head -n 1
wc -c
