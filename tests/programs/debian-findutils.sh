#: package dash coreutils findutils grep sed gawk tar xz-utils sqlite3
# Debian's find, xargs, grep, sed and gawk.
mkdir -p tree; for i in $(seq 200); do mkdir -p tree/$((i % 7)); echo "line $i" >tree/$((i % 7))/f$i; done
find tree -type f -name 'f1*' -size -1k -o -type d | wc -l
find tree -type f -newer tree/1/f1 -print0 | xargs -0 -P 4 -n 20 cat | wc -l | awk '{ print ($1 > 0) }'
find tree -name 'f2?' -printf '%P %s %m\n' | sort | head -3
find tree -type f -exec grep -l 'line 1[0-9]$' {} + | sort | md5sum
find tree -name 'f9*' -delete; find tree -type f | wc -l
grep -rhoP '(?<=line )\d{3}' tree | sort -n | tail -1; grep -c . /proc/meminfo | awk '{ print ($1 > 10) }'
seq 20 | sed -n '5,8{s/^/x/;p};$!{h;d};x;p'; printf 'a\nb\n' >f; sed -i 's/a/c/;w out' f; cat f out
gawk 'BEGIN { while (i++ < 5) print i * i | "sort -rn"; close("sort -rn"); "date -u -d @0 +%Y" | getline y; print y
    cmd = "cat"; print "both ways" |& cmd; close(cmd, "to"); cmd |& getline x; print x; print strftime("%F", 86400, 1) }'
seq 100000 | gawk '{ s += $1; a[$1 % 10] += $1 } END { n = asorti(a, b); for (i = 1; i <= n; i++) printf "%s:%d ", b[i], a[b[i]]; print s }'
