#: package dash coreutils findutils grep sed gawk tar xz-utils sqlite3
# Debian's sqlite3: a journal, a write-ahead log, two writers, twenty thousand rows.
sqlite3 a.db "pragma journal_mode=wal; create table t(a integer primary key, b text);
with recursive n(i) as (select 1 union all select i + 1 from n where i < 100000) insert into t select i, 'row ' || i from n;
create index tb on t(b); select count(*), max(b), sum(a) from t; pragma integrity_check;"
(for i in 1 2 3 4 5; do sqlite3 -cmd ".timeout 60000" a.db "insert into t(b) values ('one $i')"; done) &
for i in 1 2 3 4 5; do sqlite3 -cmd ".timeout 60000" a.db "insert into t(b) values ('two $i')"; done; wait
sqlite3 a.db "select count(*) from t; select count(*) from t where b like 'two%'; pragma wal_checkpoint(truncate); vacuum;"
sqlite3 b.db "pragma journal_mode=delete; begin; create table x(y); insert into x values (1); rollback; select count(*) from sqlite_master;"
sqlite3 a.db ".dump" | sqlite3 c.db; sqlite3 c.db "select count(*) from t"; ls | sort | tr "\n" " "
