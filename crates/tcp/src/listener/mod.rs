//! A listening socket: connections that are only half open are compact entries, and beyond a number
//! SYN cookies (RFC 4987) need none.

mod cookie;
mod request;

pub use request::Accepted;

use crate::config::Config;
use crate::connection::{Agreed, Identity};
use crate::header::{Flags, Header};
use crate::isn::{Secret, Tuple};
use crate::rtt::{INITIAL_RTO, MOST_RTO, SECOND};
use core::hash::{BuildHasher, Hasher};
use deadlines::Deadlines;
use hash_table::HashMap;
use request::Request;

/// For how long after the last cookie an ACK may bring one back: the age that makes it stale.
const COOKIES_COUNT: u64 = 2 * 60 * SECOND;

/// What the kernel does with a segment for a listening socket.
#[derive(Debug)]
pub enum Answer {
    /// Nothing.
    None,
    /// Send this.
    Send(Header),
    /// Make the connection and give it the same segment. It counts as waiting until
    /// [`Listener::taken`].
    Accept(Accepted),
}

/// Keys are hashes by a secret already.
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
    /// listen(2)'s number.
    backlog: usize,
    /// `net.ipv4.tcp_syncookies`.
    cookies: bool,
    requests: HashMap<u64, Request, Keyed>,
    timers: Deadlines<u64>,
    /// Connections that accept(2) has not taken.
    waiting: usize,
    last_cookie: Option<u64>,
}

impl Listener {
    /// A socket whose connections have these settings.
    pub fn new(config: &Config, secret: Secret, backlog: usize, cookies: bool) -> Self {
        Listener {
            config: config.clone(),
            secret,
            backlog,
            cookies,
            requests: HashMap::default(),
            timers: Deadlines::new(),
            waiting: 0,
            last_cookie: None,
        }
    }

    /// listen(2) again.
    pub fn set_backlog(&mut self, backlog: usize) {
        self.backlog = backlog;
    }

    /// accept(2) has taken a connection, or one that waited is gone.
    pub fn taken(&mut self) {
        self.waiting = self.waiting.saturating_sub(1);
    }

    /// How many connections wait for accept(2) (`tcpi_unacked` of a listening socket).
    pub fn waiting(&self) -> usize {
        self.waiting
    }

    /// How many connections are half open.
    pub fn half_open(&self) -> usize {
        self.requests.len()
    }

    /// Linux lets one more wait than listen(2) says.
    fn is_full(&self) -> bool {
        self.waiting > self.backlog
    }

    /// When [`due`](Self::due) is to be called, in ns.
    pub fn next_timer(&self) -> Option<u64> {
        self.timers.first()
    }

    /// A SYN with ACK that is to be sent again by `now`. To be called until there is none.
    pub fn due(&mut self, now: u64) -> Option<(Tuple, Header)> {
        while let Some(key) = self.timers.take_due(now) {
            let Some(request) = self.requests.get_mut(&key) else {
                continue;
            };
            request.tries += 1;
            let wait = (INITIAL_RTO << request.tries.min(20)).min(MOST_RTO);
            let ticket = self.timers.add(now + wait, key);
            match ticket {
                Ok(ticket) if request.tries <= self.config.synack_retries => {
                    request.ticket = Some(ticket);
                    return Some((request.tuple, request.answer(&self.config, now)));
                }
                Ok(ticket) => {
                    self.timers.remove(ticket);
                    self.requests.remove(&key);
                }
                // Without its timer it would stay for ever.
                Err(deadlines::Full) => {
                    self.requests.remove(&key);
                }
            }
        }
        None
    }

    /// Takes a segment that no connection has, with `payload` bytes.
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
            None if header.flags.has(Flags::RST) => Answer::None,
            None if header.flags.has(Flags::ACK) => self.take_cookie(now, tuple, header, payload),
            None if header.flags.has(Flags::SYN) => self.begin(now, key, tuple, header),
            None => Answer::None,
        }
    }

    fn identity(&self, now: u64, tuple: &Tuple) -> Identity {
        Identity {
            local: tuple.local.port(),
            peer: tuple.peer.port(),
            isn: self.secret.sequence(now, tuple),
            stamp_offset: self.secret.stamp_offset(tuple),
        }
    }

    /// A SYN.
    fn begin(&mut self, now: u64, key: u64, tuple: &Tuple, header: &Header) -> Answer {
        if self.is_full() {
            return Answer::None;
        }
        let identity = self.identity(now, tuple);
        let agreed = Agreed::by(&self.config, &header.options);
        let mut request = Request::new(tuple, identity, header.seq, agreed, None);
        // listen(2) with zero lets one in.
        let has_room = self.requests.len() < self.backlog.max(1);
        if has_room && self.requests.try_reserve(1).is_ok() {
            let Ok(ticket) = self.timers.add(now + INITIAL_RTO, key) else {
                return Answer::None;
            };
            request.ticket = Some(ticket);
            self.requests.insert(key, request);
            return Answer::Send(request.answer(&self.config, now));
        }
        if !self.cookies {
            return Answer::None;
        }
        self.last_cookie = Some(now);
        Answer::Send(cookie::answer(&self.secret, &self.config, now, request))
    }

    /// An ACK of no entry: of a cookie, or of nothing.
    fn take_cookie(&mut self, now: u64, tuple: &Tuple, header: &Header, payload: usize) -> Answer {
        let recent = self
            .last_cookie
            .is_some_and(|last| now < last + COOKIES_COUNT);
        let is_answer = recent && !header.flags.has(Flags::SYN);
        let found = is_answer
            .then(|| cookie::check(&self.secret, &self.config, now, tuple, header))
            .flatten();
        match found {
            Some(_) if self.is_full() => Answer::None,
            Some(agreed) => {
                let identity = Identity {
                    isn: header.ack.wrapping_sub(1),
                    ..self.identity(now, tuple)
                };
                self.waiting += 1;
                Answer::Accept(Accepted {
                    identity,
                    peer_isn: header.seq.wrapping_sub(1),
                    agreed,
                    window: request::window(&self.config),
                })
            }
            None => header.reset(payload).map_or(Answer::None, Answer::Send),
        }
    }

    /// A segment of a half open connection.
    fn continue_request(
        &mut self,
        now: u64,
        key: u64,
        request: Request,
        header: &Header,
        payload: usize,
    ) -> Answer {
        let flags = header.flags;
        let ahead = header.seq.wrapping_sub(request.peer_isn.wrapping_add(1));
        if flags.has(Flags::SYN) && !flags.has(Flags::ACK) && header.seq == request.peer_isn {
            return Answer::Send(request.answer(&self.config, now));
        }
        if flags.has(Flags::RST) {
            if ahead == 0 {
                self.forget(key, &request);
            }
            return Answer::None;
        }
        if ahead > u32::from(request::window(&self.config)) || flags.has(Flags::SYN) {
            return Answer::Send(request.acknowledgment(&self.config, now));
        }
        if !flags.has(Flags::ACK) {
            return Answer::None;
        }
        if header.ack != request.identity.isn.wrapping_add(1) {
            return header.reset(payload).map_or(Answer::None, Answer::Send);
        }
        // The SYN with ACK goes out again, and the ACK comes again: by then there may be room.
        if self.is_full() {
            return Answer::None;
        }
        self.forget(key, &request);
        self.waiting += 1;
        Answer::Accept(request.accepted(&self.config))
    }

    fn forget(&mut self, key: u64, request: &Request) {
        request.ticket.and_then(|ticket| self.timers.remove(ticket));
        self.requests.remove(&key);
    }
}
