#: package nodejs
#: memory 3G
#: long
#: minutes 10
# Debian's Node.js: an HTTP server and its clients, workers, children, shared memory, signals, watched folders, WebAssembly.
ip link set lo up; printf '127.0.0.1 localhost\n::1 localhost\n' >/etc/hosts
cat >child.js <<'J'
process.on('message', m => process.send({ got: m }));
J
cat >main.js <<'J'
const http = require('http'), fs = require('fs'), os = require('os'), zlib = require('zlib');
const { execSync, spawnSync, fork } = require('child_process');
const crypto = require('crypto');
const { once } = require('events');
const { Worker, isMainThread, workerData, parentPort } = require('worker_threads');

if (!isMainThread) {
	const cells = new Int32Array(workerData.shared);
	let sum = 0;
	for (let i = 0; i < 300000; i++) sum += i ^ workerData.n;
	for (let i = 0; i < 1000; i++) Atomics.add(cells, 0, 1);
	Atomics.notify(cells, 0);
	parentPort.postMessage(sum);
	return;
}
const get = (where, path) => new Promise((done, fail) => http.get({ ...where, path, agent: false }, answer => {
	let body = '';
	answer.on('data', data => body += data).on('end', () => done(body));
}).on('error', fail));
(async () => {
	const shared = new SharedArrayBuffer(4);
	const workers = [1, 2, 3, 4].map(n => new Worker(__filename, { workerData: { n, shared } }));
	console.log(await Promise.all(workers.map(async worker => (await once(worker, 'message'))[0])), new Int32Array(shared)[0]);
	const server = http.createServer((request, answer) => answer.end(`path ${request.url}`)).listen(8080, '127.0.0.1');
	await once(server, 'listening');
	const all = await Promise.all([...Array(50).keys()].map(i => get({ host: 'localhost', family: 4, port: 8080 }, `/${i}`)));
	console.log(all.length, all.at(-1));
	server.close();
	const local = http.createServer((request, answer) => answer.end('over a Unix socket')).listen('socket');
	await once(local, 'listening');
	console.log(await get({ socketPath: 'socket' }, '/'));
	local.close();
	await get({ host: '127.0.0.1', port: 8080 }, '/').catch(error => console.log(error.code));
	fs.mkdirSync('d/e', { recursive: true });
	await Promise.all([...Array(20).keys()].map(i => fs.promises.writeFile(`d/${i}`, 'x'.repeat(i * 1000))));
	console.log(fs.readdirSync('d').length, fs.statSync('d/19').size, fs.existsSync('d/20'));
	const watched = new Promise(done => { const w = fs.watch('d', (event, name) => { w.close(); done(`${event} ${name}`); }); });
	fs.writeFileSync('d/new', '');
	console.log(await watched);
	console.log(crypto.createHash('sha256').update(fs.readFileSync('d/19')).digest('hex').slice(0, 16), crypto.randomBytes(8).length,
		crypto.pbkdf2Sync('p', 's', 1000, 16, 'sha512').toString('hex'));
	const { publicKey, privateKey } = crypto.generateKeyPairSync('ec', { namedCurve: 'P-256' });
	console.log(crypto.verify('sha256', 'data', publicKey, crypto.sign('sha256', 'data', privateKey)));
	console.log(execSync('echo from a shell; cat', { input: 'piped' }).toString(), spawnSync('sh', ['-c', 'kill -9 $$']).signal);
	const child = fork('./child.js');
	child.send({ a: 1 });
	console.log((await once(child, 'message'))[0]);
	child.disconnect();
	console.log(await once(child, 'exit'));
	console.log(zlib.gunzipSync(zlib.gzipSync('z'.repeat(1e5))).length, os.hostname().length > 0, os.userInfo().username, Object.keys(os.networkInterfaces()));
	const module = new WebAssembly.Module(Buffer.from('0061736d0100000001070160027f7f017f03020100070701036164640000' + '0a09010700200020016a0b', 'hex'));
	console.log(new WebAssembly.Instance(module).exports.add(2, 3), process.memoryUsage().rss > 0, process.cpuUsage().user > 0);
	// A listener for signals does not keep the process going.
	const going = setTimeout(() => {}, 1e6);
	const told = once(process, 'SIGUSR2');
	process.kill(process.pid, 'SIGUSR2');
	console.log((await told)[0]);
	clearTimeout(going);
	process.exitCode = 5;
})();
J
node main.js; echo "status $?"
node -e 'process.abort()' 2>/dev/null; echo "status $?"
echo 'console.log(1 + 1)' | node -
node -e 'setTimeout(() => {}, 1e6)' & sleep 1; kill $!; wait $!; echo "status $?"
