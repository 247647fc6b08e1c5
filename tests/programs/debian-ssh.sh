#: package openssh-server openssh-client rsync
#: long
#: minutes 8
# Debian's sshd and its clients: commands, terminals, forwarding, one connection for many, files by scp, sftp and rsync, an agent.
ip link set lo up; printf '127.0.0.1 localhost\n::1 localhost\n' >/etc/hosts
export HOME=/root; mkdir -p /run/sshd /root/.ssh /etc/ssh; chmod 700 /root/.ssh
grep -q ^root: /etc/passwd || echo 'root:x:0:0::/root:/bin/sh' >>/etc/passwd
grep -q ^sshd: /etc/passwd || echo 'sshd:x:100:65534::/run/sshd:/usr/sbin/nologin' >>/etc/passwd
ssh-keygen -q -t ed25519 -N '' -f host; ssh-keygen -q -t ed25519 -N '' -f /root/.ssh/id_ed25519; cp /root/.ssh/id_ed25519.pub /root/.ssh/authorized_keys
printf 'Host *\n Port 2222\n StrictHostKeyChecking no\n UserKnownHostsFile /dev/null\n LogLevel ERROR\n' >/root/.ssh/config
printf "Port 2222\nListenAddress 127.0.0.1\nListenAddress ::1\nStrictModes no\nHostKey $PWD/host\nSubsystem sftp internal-sftp\nPidFile $PWD/pid\n" >config
/usr/sbin/sshd -f $PWD/config -E $PWD/log; echo "sshd $?"
ssh localhost 'echo remote; exit 5' </dev/null; echo "status $?"
seq 100000 | ssh ::1 md5sum
ssh -tt localhost 'tty | cut -c1-8; echo $SHLVL' </dev/null | head -1 | tr -d '\r'
ssh localhost 'kill -9 $$' </dev/null; echo "status $?"
ssh -fN -L 3333:127.0.0.1:2222 localhost; ssh -p 3333 localhost echo forwarded </dev/null
ssh -M -S control -fN localhost; for i in 1 2 3; do ssh -S control localhost echo $i </dev/null & done | sort; wait; ssh -S control -O exit localhost 2>&1
seq 50000 >big; scp -q big localhost:/tmp/big; cmp big /tmp/big && echo scp
printf 'mkdir /tmp/sftp\nput big /tmp/sftp/x\nls /tmp/sftp\n' | sftp -q -b - localhost | tail -1; cmp big /tmp/sftp/x && echo sftp
mkdir -p src/d; cp big src; ln -s big src/l; ln src/big src/d/hard; mkfifo src/p
rsync -aH --stats src/ localhost:/tmp/dst/ | grep -E '^Number of (created|regular)'; echo x >>src/big; rsync -aiH --no-whole-file src/ localhost:/tmp/dst/; rsync -ani src/ localhost:/tmp/dst/
stat -c '%h %F' /tmp/dst/d/hard; diff src/big /tmp/dst/big && echo same
eval $(ssh-agent) >/dev/null; ssh-add -q /root/.ssh/id_ed25519; ssh-add -l | awk '{ print $1, $NF }'; mv /root/.ssh/id_ed25519 .; ssh localhost echo by agent </dev/null; ssh-agent -k >/dev/null
ssh -o BatchMode=yes localhost true </dev/null 2>&1 | grep -c 'Permission denied'
grep -c 'Accepted publickey' log; kill $(cat pid); while [ -e pid ]; do sleep 0.1; done; echo ended
