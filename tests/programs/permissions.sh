# Modes and the umask.
umask 027
touch file; mkdir folder
stat -c '%a %n' file folder
chmod 4755 file; stat -c '%a %A' file
chmod u=rw,go= file; stat -c '%a %A' file
chmod +t folder; stat -c '%a %A' folder
umask
chown 12:34 file; stat -c '%u %g' file
