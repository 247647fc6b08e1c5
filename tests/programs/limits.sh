# Resource limits are set, inherited and hold.
ulimit -n 20; ulimit -n; sh -c 'ulimit -n'
sh -c 'exec 30>file' 2>/dev/null; echo "descriptor above the limit: $?"
ulimit -f 1; head -c 2000000 /dev/zero >big 2>/dev/null; echo "file above the limit: $?"; wc -c <big
