# Processes below processes.
dive() {
    [ "$1" -eq 0 ] && exit 9
    (dive $(($1 - 1)))
    exit $(($? + 1))
}
(dive 30)
echo "thirty deep: $?"
