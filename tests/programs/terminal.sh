# A pseudo-terminal made by script: its name, size, and echo.
script -q -c 'tty | sed s/[0-9]*$/N/; stty -a | grep -o -E "[- ]?(icanon|isig|opost)"' /dev/null </dev/null | tr -d '\r'
