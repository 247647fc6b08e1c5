#: package perl
# Debian's perl: forks, pipes, sockets by pair, signals, files, sorting, regular expressions, threads.
exec perl -e '
use strict; use warnings; use POSIX qw(:sys_wait_h); use Socket; use IO::Handle; use File::Temp qw(tempdir); use Time::HiRes;
my %count; $count{length $_}++ for map { "x" x ($_ % 7) } 1..1000; print join(",", map { "$_=$count{$_}" } sort keys %count), "
";
my @kids; for my $n (1..5) { my $pid = fork; if (!$pid) { exit $n } push @kids, $pid }
print join(" ", map { waitpid($_, 0); $? >> 8 } @kids), "
";
open(my $pipe, "-|", "echo", "from", "a pipe") or die; print scalar <$pipe>; close $pipe;
socketpair(my $one, my $two, AF_UNIX, SOCK_STREAM, PF_UNSPEC) or die "socketpair: $!";
$one->autoflush(1); print $one "across
"; print scalar <$two>;
local $SIG{ALRM} = sub { die "alarm
" }; eval { Time::HiRes::ualarm(50_000); select(undef, undef, undef, 100) }; print $@;
my $dir = tempdir(CLEANUP => 1); open(my $f, "+>", "$dir/f") or die; print $f "abc" x 1000; seek($f, 3, 0); read($f, my $b, 6); print "$b ", -s "$dir/f", "
";
print "lock ", flock($f, 2|4) ? "yes" : "no", "
"; opendir(my $d, $dir); print join(",", sort grep { !/^\./ } readdir $d), "
";
my $text = join " ", map { "k$_=v" . $_ * $_ } 1..2000; my %h = $text =~ /(k\d+)=(v\d+)/g; print scalar(keys %h), " $h{k99}
";
print POSIX::strftime("%Y-%m-%d", gmtime(86400 * 365)), " ", join(".", (POSIX::uname())[0]), "
"; kill 0, $$ and print "alive
";
local $SIG{__WARN__} = sub {}; print "undef " . (eval { my $x; $x->method; 1 } ? "ok" : "died"), "
"; exit 4'
