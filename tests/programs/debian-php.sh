#: package php-cli
#: long
#: minutes 5
# Debian's PHP: children, sockets, locks, signals, its own web server, its just-in-time compiler.
ip link set lo up; printf '127.0.0.1 localhost\n::1 localhost\n' >/etc/hosts
cat >main.php <<'P'
<?php
$child = proc_open(['sh', '-c', 'cat; exit 4'], [['pipe', 'r'], ['pipe', 'w']], $io);
fwrite($io[0], 'in'); fclose($io[0]); echo stream_get_contents($io[1]), ' ', proc_close($child), "\n";
$server = stream_socket_server('tcp://localhost:8090'); $client = stream_socket_client('tcp://localhost:8090');
$other = stream_socket_accept($server); fwrite($other, "over TCP\n"); echo fgets($client);
file_put_contents('file', str_repeat('x', 5000)); echo filesize('file'), ' ', md5_file('file'), ' ', flock(fopen('file', 'r'), LOCK_EX | LOCK_NB), "\n";
$pid = pcntl_fork(); if (!$pid) exit(9);
pcntl_waitpid($pid, $status); echo pcntl_wexitstatus($status), "\n";
pcntl_async_signals(true); pcntl_signal(SIGALRM, function () { static $rung = 0; if (!$rung++) echo "alarm\n"; pcntl_alarm(1); });
pcntl_alarm(1); echo sleep(1000) > 0, "\n"; pcntl_alarm(0);
echo json_encode(['a' => 1.5]), ' ', preg_replace_callback('/\d+/', fn($m) => $m[0] * 2, 'a1b22'), ' ', array_sum(range(1, 1000)), "\n";
function numbers() { for ($i = 0; $i < 3; $i++) yield $i; }
echo implode(',', iterator_to_array(numbers())), ' ', PHP_OS, ' ', hrtime(true) > 0, ' ', trim(shell_exec('echo shell')), "\n";
echo implode(' ', array_filter(['posix', 'readline', 'tokenizer', 'Zend OPcache'], 'extension_loaded')), "\n";
exit(3);
P
php main.php; echo "status $?"
php -d opcache.enable_cli=1 -d opcache.jit=tracing -d opcache.jit_buffer_size=16M -r 'for ($i = 0; $i < 500000; $i++) $x = $i * 2; echo $x, "\n";'
php -S 127.0.0.1:8091 >log 2>&1 & until wget -qO- http://127.0.0.1:8091/file 2>/dev/null | md5sum | grep a6bb7bde; do sleep 0.2; done
kill $!; wait $!; echo "status $?"
