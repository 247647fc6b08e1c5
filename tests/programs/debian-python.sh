#: package python3
# Debian's python3: threads, processes, subprocesses, signals, selectors, mmap, sqlite, sockets by pair, temporary files.
exec python3 -c '
import asyncio, concurrent.futures, hashlib, json, mmap, multiprocessing, os, select, selectors, signal, socket, sqlite3
import subprocess, sys, tempfile, threading, time
print(sys.version_info[:2] >= (3, 11), sum(i * i for i in range(10000)))
print(subprocess.run(["sh", "-c", "cat; exit 3"], input=b"piped", capture_output=True))
print(subprocess.run("echo $((6*7)); kill -9 $$", shell=True, capture_output=True).returncode)
with concurrent.futures.ThreadPoolExecutor(8) as pool: print(sum(pool.map(lambda n: n * n, range(1000))))
with multiprocessing.get_context("fork").Pool(3) as pool: print(pool.map(abs, range(-5, 5)))
lock, total = threading.Lock(), [0]
def add():
    for _ in range(1000):
        with lock: total[0] += 1
threads = [threading.Thread(target=add) for _ in range(8)]
[t.start() for t in threads]; [t.join() for t in threads]; print(total)
signal.signal(signal.SIGALRM, lambda *_: rung or rung.append(print("alarm"))); rung = []
signal.setitimer(signal.ITIMER_REAL, .05, .05); signal.pause(); signal.setitimer(signal.ITIMER_REAL, 0)
with tempfile.TemporaryFile() as f:
    f.truncate(1 << 20); m = mmap.mmap(f.fileno(), 0); m[5000:5004] = b"mmap"; m.flush(); f.seek(5000); print(f.read(4), m.find(b"map"))
a, b = socket.socketpair(); a.sendall(b"pair"); print(b.recv(10)); a.close(); print(b.recv(10))
r, w = os.pipe(); s = selectors.DefaultSelector(); s.register(r, selectors.EVENT_READ); print(type(s).__name__, s.select(0)); os.write(w, b"x"); print(len(s.select(5)))
async def main():
    async def nap(n): await asyncio.sleep(n / 100); return n
    print(await asyncio.gather(nap(3), nap(1), nap(2)))
    p = await asyncio.create_subprocess_exec("echo", "from asyncio", stdout=subprocess.PIPE); print((await p.communicate())[0])
asyncio.run(main())
db = sqlite3.connect("file.db"); db.execute("create table t(a, b)"); db.executemany("insert into t values (?, ?)", ((i, i * i) for i in range(10000))); db.commit()
print(db.execute("select count(*), sum(b) from t where a % 3 = 0").fetchall()); db.close(); print(os.path.getsize("file.db") > 50000)
print(hashlib.sha256(b"x" * 100000).hexdigest()[:16], json.loads(json.dumps({"a": [1, None]})))
pid = os.fork()
if pid == 0: os._exit(7)
print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), os.cpu_count() > 0, len(os.sched_getaffinity(0)) > 0)
print(sorted(e.name for e in os.scandir(".")), os.stat("file.db").st_nlink, os.get_terminal_size.__name__)
try: open("/nowhere/x")
except OSError as e: print(e)
print(time.monotonic() > 0, time.process_time() >= 0, time.clock_getres(time.CLOCK_MONOTONIC) < 1e-6)
sys.exit(9)
'
