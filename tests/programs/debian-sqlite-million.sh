#: package dash coreutils findutils grep sed gawk tar xz-utils sqlite3
#: long
#: minutes 15
# Debian's sqlite3 runs a script of a million rows.
sqlite3 million.db <<'SQL'
pragma journal_mode=wal;
create table t(a integer primary key, b integer, c text);
begin;
with recursive n(i) as (select 1 union all select i + 1 from n where i < 1000000)
insert into t select i, i * 7919 % 1000003, 'row ' || i from n;
commit;
create index tb on t(b);
select count(*), min(b), max(b), sum(b) from t;
select c from t where b in (1, 500000, 1000002) order by b;
select count(*), sum(length(c)) from t where b between 250000 and 499999;
select b % 5 as k, count(*), avg(a) from t group by k order by k;
pragma quick_check;
SQL
echo "status $?"
sqlite3 million.db 'select count(*) from t'
