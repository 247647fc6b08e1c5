#: package postgresql
#: memory 2G
#: long
#: minutes 10
# Debian's PostgreSQL: a new cluster as an ordinary user, parallel queries, notifications, pgbench, a crash and what follows it.
ip link set lo up; printf '127.0.0.1 localhost\n::1 localhost\n' >/etc/hosts
cd /usr/lib/postgresql/*/bin; bin=$PWD
grep -q '^postgres:' /etc/passwd || echo 'postgres:x:70:70::/home/pg:/bin/sh' >>/etc/passwd
grep -q '^postgres:' /etc/group || echo 'postgres:x:70:' >>/etc/group
mkdir -p /home/pg /dev/shm; chown postgres:postgres /home/pg; mount -t tmpfs shm /dev/shm; chmod 1777 /tmp /dev/shm
cat >/home/pg/script <<'S'
cd /home/pg
initdb -D db --no-locale -E UTF8 >initdb.log 2>&1; echo "initdb $?"
printf "unix_socket_directories='/tmp'\nlc_messages='C'\n" >>db/postgresql.conf
pg_ctl -D db -l log -w -t 300 start >/dev/null; echo "start $?"
createdb -h /tmp bench; psql -h localhost bench -At 2>&1 <<'Q' | sed 's/PID [0-9]*/PID/'
create table t(a serial primary key, b text);
insert into t(b) select md5(i::text) from generate_series(1, 20000) i;
create index on t(b); analyze t;
select count(*), min(b) from t;
set max_parallel_workers_per_gather = 2; set parallel_setup_cost = 0; set min_parallel_table_scan_size = 0; set parallel_tuple_cost = 0;
explain (costs off) select count(*) from t where b like '%a%';
select count(*) from t where b like '%a%';
begin; update t set b = 'x' where a < 100; rollback; select count(*) from t where b = 'x';
listen ch; notify ch, 'payload';
vacuum full t; checkpoint;
copy (select * from t order by a limit 3) to stdout;
show shared_memory_type; show dynamic_shared_memory_type; select pg_size_pretty(pg_relation_size('t'));
set statement_timeout = 100; select pg_sleep(1000);
do $$ begin for i in 1..3 loop raise notice 'i %', i; end loop; end $$;
Q
pgbench -h /tmp -i -s 1 -q bench >/dev/null 2>&1; pgbench -h /tmp -c 4 -j 2 -t 25 bench 2>&1 | grep -E 'processed|failed'
pg_dump -h /tmp -t t bench | psql -h /tmp -q -d postgres >/dev/null; psql -h /tmp -At postgres -c 'select count(*) from t'
kill -9 $(psql -h /tmp -At bench -c 'select pid from pg_stat_activity where backend_type = $$background writer$$')
until grep -q 'all server processes terminated' log && pg_isready -q -h /tmp; do sleep 0.1; done; psql -h /tmp -At bench -c 'select count(*) from t'
pg_ctl -D db -m immediate -w stop >/dev/null; pg_ctl -D db -l log2 -w -t 300 start >/dev/null; grep -c 'automatic recovery' log2
psql -h /tmp -At bench -c 'select count(*) from pgbench_history'; pg_ctl -D db -m fast -w stop >/dev/null; echo "stop $?"; ls /dev/shm
S
exec su postgres -c "PATH=$bin:$PATH sh /home/pg/script"
