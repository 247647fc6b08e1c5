#: package dash util-linux gawk
# Debian's su, by PAM's services as pam-auth-update writes them, and names that update-alternatives makes.
grep -hv '^#' /etc/pam.d/common-auth /etc/pam.d/common-account | grep .
echo 'ann:x:1000:1000::/tmp:/bin/sh' >>/etc/passwd; echo 'ann:x:1000:' >>/etc/group; echo 'ann:*:20000:0:99999:7:::' >>/etc/shadow
su ann -c 'id; echo "$HOME"'; echo "status $?"
su - ann -c 'pwd; exit 5'; echo "status $?"
su ann -c 'su root -c id' </dev/null 2>&1; echo "status $?"
readlink -f /usr/bin/awk; awk 'BEGIN { print (PROCINFO["version"] > "") }'
