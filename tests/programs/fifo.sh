# A named pipe between processes; each end waits for the other.
mkfifo queue
ls -l queue | cut -c1
(for i in 1 2 3; do echo "line $i"; done >queue) &
cat queue
wait
rm queue
ls
