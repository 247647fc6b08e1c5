#: package ruby
#: long
#: minutes 5
# Debian's ruby: threads, forks, pipes, sockets that carry descriptors, timeouts, signals, ractors, fibers.
ip link set lo up; printf '127.0.0.1 localhost\n::1 localhost\n' >/etc/hosts
cat >main.rb <<'R'
require 'socket'; require 'tempfile'; require 'digest'; require 'json'; require 'open3'; require 'timeout'; require 'etc'; require 'pty'
queue = Queue.new
4.times.map { |i| Thread.new { 100.times { |j| queue << i * j } } }.each(&:join)
sum = 0; sum += queue.pop until queue.empty?; p sum
Process.wait fork { exit! 7 }; p $?.exitstatus
p Open3.capture3('sh', '-c', 'cat; echo err >&2; exit 2', stdin_data: 'in').then { |out, err, status| [out, err, status.exitstatus] }
server = TCPServer.new('localhost', 0)
Thread.new { client = server.accept; client.puts client.gets.upcase; client.close }
client = TCPSocket.new('localhost', server.addr[1]); client.puts 'hi'; p client.gets, client.gets
begin; Timeout.timeout(0.1) { sleep }; rescue Timeout::Error; p :timeout; end
heard = Queue.new; trap(:USR1) { heard << 1 }; Process.kill :USR1, $$; p heard.pop
p Digest::SHA256.hexdigest('x' * 1000)[0, 16], JSON.parse('{"a":[1]}')
$VERBOSE = nil; p Ractor.new { 5 * 5 }.take
UNIXServer.open('s') { |u| Thread.new { UNIXSocket.open('s') { |k| k.send_io $stdout } }; u.accept.recv_io.puts 'sent' }
f = Fiber.new { Fiber.yield 1; 2 }; p f.resume, f.resume
p Etc.uname[:sysname], Process.getrlimit(:NOFILE).size, Dir.children('/proc').grep(/^\d+$/).any?, `echo ticks`
IO.pipe { |a, b| b.write_nonblock('abc'); p a.read_nonblock(10); begin; a.read_nonblock(1); rescue IO::WaitReadable; p :again; end }
PTY.spawn('sh', '-c', 'tty >/dev/null && echo on a terminal') { |r, _, pid| p r.gets; Process.wait pid }
Tempfile.create { |t| t.flock(File::LOCK_EX); t.write 'x' * 5000; t.flush; p t.size, IO.copy_stream(t.path, 'copy') }
def deep(n) = 1 + deep(n + 1)
begin; deep 0; rescue SystemStackError; p :stack; end
at_exit { puts 'leaving' }; exit 6
R
ruby main.rb; echo "status $?"
ruby -e 'Process.kill(:SEGV, $$); sleep' >/dev/null 2>&1; echo "status $?"
