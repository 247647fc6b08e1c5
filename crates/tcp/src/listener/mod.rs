//! A listening socket. Half-open connections are compact entries; beyond a limit, SYN cookies (RFC
//! 4987) replace them.

mod cookie;
mod request;

pub use request::Accepted;

use crate::config::Config;
use crate::connection::{Agreed, Identity};
use crate::header::{Flags, Header};
use crate::isn::{Secret, Tuple};
use crate::limiter::has_data;
use crate::rtt::SECOND;
use core::hash::{BuildHasher, Hasher};
use deadlines::Deadlines;
use hash_table::HashMap;
use request::Request;

/// How long after the last cookie an ACK may return one: its maximum age.
const COOKIES_COUNT: u64 = 2 * 60 * SECOND;

/// What the kernel must do with a segment for a listening socket.
#[derive(Debug)]
pub enum Answer {
    /// Nothing.
    None,
    /// Send this.
    Send(Header),
    /// Create the connection and pass it the same segment. It counts as waiting until
    /// [`Listener::taken`].
    Accept(Accepted),
}

/// When SYNs are answered with cookies (`net.ipv4.tcp_syncookies`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Cookies {
    /// 0.
    Never,
    /// 1: when the backlog is full.
    #[default]
    WhenFull,
    /// 2.
    Always,
}

/// Keys are already hashes with a secret.
#[derive(Clone, Copy, Default)]
struct Keyed(u64);

impl BuildHasher for Keyed {
    type Hasher = Keyed;

    fn build_hasher(&self) -> Keyed {
        *self
    }
}

impl Hasher for Keyed {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = self.0.rotate_left(8) ^ u64::from(*byte);
        }
    }

    fn write_u64(&mut self, key: u64) {
        self.0 = key;
    }
}

/// A socket in LISTEN.
pub struct Listener {
    config: Config,
    secret: Secret,
    /// The argument of listen(2).
    backlog: usize,
    cookies: Cookies,
    requests: HashMap<u64, Request, Keyed>,
    timers: Deadlines<u64>,
    /// The number of requests whose first timeout has not expired.
    young: usize,
    /// The number of connections that accept(2) has not taken.
    waiting: usize,
    last_cookie: Option<u64>,
}

impl Listener {
    /// A listening socket for connections with these settings.
    pub fn new(config: &Config, secret: Secret, backlog: usize, cookies: Cookies) -> Self {
        Listener {
            config: config.clone(),
            secret,
            backlog,
            cookies,
            requests: HashMap::default(),
            timers: Deadlines::new(),
            young: 0,
            waiting: 0,
            last_cookie: None,
        }
    }

    /// Sets the settings of new connections, after options were set on the socket.
    pub fn set_config(&mut self, config: &Config) {
        self.config = config.clone();
    }

    /// Sets the argument of another listen(2).
    pub fn set_backlog(&mut self, backlog: usize) {
        self.backlog = backlog;
    }

    /// Called when accept(2) has taken a connection, or a waiting one is gone.
    pub fn taken(&mut self) {
        self.waiting = self.waiting.saturating_sub(1);
    }

    /// The number of connections that wait for accept(2) (`tcpi_unacked` of a listening socket).
    pub fn waiting(&self) -> usize {
        self.waiting
    }

    /// The argument of listen(2) (`tcpi_sacked` of a listening socket).
    pub fn backlog(&self) -> usize {
        self.backlog
    }

    /// Sets the segment size on the path to those that connect from now on ([`Config::mss`]).
    pub fn set_mss(&mut self, mss: u16) {
        self.config.mss = mss;
    }

    /// Forgets the half-open connections: the socket listens no more.
    pub fn clear(&mut self) {
        self.requests = HashMap::default();
        self.timers = Deadlines::new();
        self.young = 0;
    }

    /// The number of half-open connections.
    pub fn half_open(&self) -> usize {
        self.requests.len()
    }

    /// Linux lets one more connection wait than listen(2) requests.
    fn is_full(&self) -> bool {
        self.waiting > self.backlog
    }

    /// When [`due`](Self::due) is to be called, in ns.
    pub fn next_timer(&self) -> Option<u64> {
        self.timers.first()
    }

    /// A SYN-ACK that is to be retransmitted by `now`. Call this until it returns None.
    pub fn due(&mut self, now: u64) -> Option<(Tuple, Header)> {
        while let Some(key) = self.timers.take_due(now) {
            let (most, deferrals) = (self.most_retries(), u32::from(self.config.defer_accept));
            let Some(request) = self.requests.get_mut(&key) else {
                continue;
            };
            let (is_over, resends) = request.on_timeout(most, deferrals);
            self.young -= usize::from(request.timeouts == 0);
            request.timeouts += 1;
            request.ticket = if is_over {
                None
            } else {
                self.timers.add(request.due(now), key).ok()
            };
            // Without its timer it would stay forever.
            if request.ticket.is_none() {
                self.requests.remove(&key);
            } else if resends {
                request.retransmissions += 1;
                return Some((request.tuple, request.answer(&self.config, now)));
            }
        }
        None
    }

    /// The maximum number of SYN-ACK retransmissions. Half of the backlog is reserved for young
    /// requests, whose first timeout has not expired: the more others there are, the earlier they
    /// are dropped, as in Linux.
    fn most_retries(&self) -> u32 {
        let mut most = self.config.synack_retries;
        let len = self.requests.len();
        let mut young = 2 * self.young;
        if 2 * len > self.backlog.max(8) {
            while most > 2 && len >= young {
                most -= 1;
                young *= 2;
            }
        }
        most
    }

    /// Handles a segment with `payload` bytes that belongs to no connection.
    pub fn on_segment(
        &mut self,
        now: u64,
        tuple: &Tuple,
        header: &Header,
        payload: usize,
    ) -> Answer {
        let key = self.secret.hash(tuple, u64::MAX);
        let known = self.requests.get(&key).copied();
        match known.filter(|request| request.tuple == *tuple) {
            Some(request) => self.continue_request(now, key, request, header, payload),
            None if header.flags.contains(Flags::RST) => Answer::None,
            None if header.flags.contains(Flags::ACK) => {
                self.take_cookie(now, tuple, header, payload)
            }
            None => self.begin(now, key, tuple, header, None),
        }
    }

    /// Handles a SYN that replaces a connection in TIME_WAIT, which has requested that this end's
    /// sequence numbers begin with `isn` ([`Received::reopens`](crate::Received::reopens)). The
    /// kernel has dropped that connection.
    pub fn on_reopening(&mut self, now: u64, tuple: &Tuple, header: &Header, isn: u32) -> Answer {
        let key = self.secret.hash(tuple, u64::MAX);
        if self.requests.contains_key(&key) {
            return self.on_segment(now, tuple, header, 0);
        }
        self.begin(now, key, tuple, header, Some(isn))
    }

    /// Handles a SYN, or ignores the segment. A SYN with FIN is invalid (Linux drops it).
    fn begin(
        &mut self,
        now: u64,
        key: u64,
        tuple: &Tuple,
        header: &Header,
        isn: Option<u32>,
    ) -> Answer {
        let flags = header.flags;
        if !flags.contains(Flags::SYN) || flags.contains(Flags::FIN) || self.is_full() {
            return Answer::None;
        }
        let mut identity = Identity::of(&self.secret, now, tuple);
        identity.isn = isn.unwrap_or(identity.isn);
        let agreed = Agreed::by(&self.config, &header.options);
        let mss = self.config.mss;
        let mut request = Request::new(tuple, identity, header.seq, agreed, mss, now);
        // listen(2) with zero lets one in. A cookie could not have the requested number.
        let fits = self.cookies != Cookies::Always && self.requests.len() < self.backlog.max(1);
        let has_room = fits || isn.is_some();
        if has_room && self.requests.try_reserve(1).is_ok() {
            let Ok(ticket) = self.timers.add(request.due(now), key) else {
                return Answer::None;
            };
            request.ticket = Some(ticket);
            self.young += 1;
            self.requests.insert(key, request);
            return Answer::Send(request.answer(&self.config, now));
        }
        if self.cookies == Cookies::Never || isn.is_some() {
            return Answer::None;
        }
        self.last_cookie = Some(now);
        Answer::Send(cookie::answer(&self.secret, &self.config, now, request))
    }

    /// Handles an ACK without an entry, which may return a cookie.
    fn take_cookie(&mut self, now: u64, tuple: &Tuple, header: &Header, payload: usize) -> Answer {
        let recent = self
            .last_cookie
            .is_some_and(|last| now < last + COOKIES_COUNT);
        let is_answer = recent && !header.flags.contains(Flags::SYN);
        let found = is_answer
            .then(|| cookie::check(&self.secret, &self.config, now, tuple, header))
            .flatten();
        match found {
            Some(_) if self.is_full() => Answer::None,
            Some(agreed) => {
                let identity = Identity {
                    isn: header.ack.wrapping_sub(1),
                    ..Identity::of(&self.secret, now, tuple)
                };
                self.waiting += 1;
                Answer::Accept(Accepted {
                    identity,
                    peer_isn: header.seq.wrapping_sub(1),
                    agreed,
                    window: self.config.syn_window(),
                    answered_at: None,
                    retransmissions: 0,
                })
            }
            None => header.reset(payload).map_or(Answer::None, Answer::Send),
        }
    }

    /// Handles a segment of a half-open connection (Linux's `tcp_check_req`).
    fn continue_request(
        &mut self,
        now: u64,
        key: u64,
        mut request: Request,
        header: &Header,
        payload: usize,
    ) -> Answer {
        let flags = header.flags;
        let has_ack = flags.contains(Flags::ACK);
        let is_again = flags.contains(Flags::SYN) && header.seq == request.peer_isn;
        let is_old = request.is_old(now, header);
        if is_again && !has_ack && !is_old {
            return self.answer_again(now, key, request);
        }
        let begin = header.seq.wrapping_add(u32::from(is_again));
        let ahead = begin.wrapping_sub(request.peer_isn.wrapping_add(1));
        if flags.contains(Flags::RST) {
            if ahead == 0 {
                self.forget(key, &request);
            }
            return Answer::None;
        }
        if has_ack && header.ack != request.identity.isn.wrapping_add(1) {
            return header.reset(payload).map_or(Answer::None, Answer::Send);
        }
        let is_foreign = ahead > u32::from(self.config.syn_window());
        if is_old || is_foreign || flags.contains(Flags::SYN) && !is_again {
            let answers = request.limiter.allows(now, has_data(header, payload));
            self.requests.insert(key, request);
            return if answers {
                Answer::Send(request.acknowledgment(&self.config, now))
            } else {
                Answer::None
            };
        }
        if !has_ack {
            return Answer::None;
        }
        let is_bare = ahead == 0 && payload == 0 && !flags.contains(Flags::FIN);
        let is_deferred = is_bare && request.timeouts < u32::from(self.config.defer_accept);
        if !is_deferred && self.is_full() && self.config.abort_on_overflow {
            self.forget(key, &request);
            return header.reset(payload).map_or(Answer::None, Answer::Send);
        }
        // The SYN-ACK is sent again, and the ACK will come again: there may be room by then.
        if is_deferred || self.is_full() {
            request.acked = true;
            self.requests.insert(key, request);
            return Answer::None;
        }
        self.forget(key, &request);
        self.waiting += 1;
        Answer::Accept(request.accepted(&self.config))
    }

    /// Answers a retransmitted SYN, and restarts the timer.
    fn answer_again(&mut self, now: u64, key: u64, mut request: Request) -> Answer {
        if !request.limiter.allows(now, false) {
            return Answer::None;
        }
        if let Ok(ticket) = self.timers.add(request.due(now), key) {
            let before = request.ticket.replace(ticket);
            before.and_then(|before| self.timers.remove(before));
        }
        request.retransmissions += 1;
        self.requests.insert(key, request);
        Answer::Send(request.answer(&self.config, now))
    }

    /// Handles an ICMP error about the SYN-ACK with the sequence number `seq`, which reports that
    /// none will arrive: the half-open connection is dropped (Linux's `tcp_req_err`).
    pub fn on_icmp(&mut self, tuple: &Tuple, seq: u32) {
        let key = self.secret.hash(tuple, u64::MAX);
        let known = self.requests.get(&key).copied();
        let is_ours = |request: &Request| request.tuple == *tuple && request.identity.isn == seq;
        if let Some(request) = known.filter(is_ours) {
            self.forget(key, &request);
        }
    }

    fn forget(&mut self, key: u64, request: &Request) {
        request.ticket.and_then(|ticket| self.timers.remove(ticket));
        self.young -= usize::from(request.timeouts == 0);
        self.requests.remove(&key);
    }
}
