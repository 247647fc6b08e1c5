//! Ports, and the sockets that hold them.

use super::connections;
use super::port_set::{self, PortSet};
use crate::errno::{Errno, Result};
use crate::hash::{Keyed, Lists};
use crate::net::socket::Socket;
use crate::random;
use crate::sync::{Mutex, MutexGuard};
use crate::task::current;
use crate::task::sched::cond_resched_killable;
use alloc::sync::{Arc, Weak};
use alloc::vec::Vec;
use core::hash::BuildHasher;
use core::iter;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use core::ptr;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};
use radix::Radix;
use tree::Tree;

/// The first and the last ephemeral port.
static EPHEMERAL: AtomicU32 = AtomicU32::new(32768 << 16 | 60999);
/// The first port that does not need CAP_NET_BIND_SERVICE (`net.ipv4.ip_unprivileged_port_start`).
static UNPRIVILEGED: AtomicU32 = AtomicU32::new(1024);
const CAP_NET_BIND_SERVICE: u32 = 10;

/// The first and the last ephemeral port, for sockets without one (`net.ipv4.ip_local_port_range`).
pub fn ephemeral() -> (u16, u16) {
    let both = EPHEMERAL.load(Relaxed);
    ((both >> 16) as u16, both as u16)
}

/// Sets the ephemeral ports.
///
/// # Errors
/// EINVAL: the range is empty, or includes privileged ports.
pub fn set_ephemeral(first: u16, last: u16) -> Result<()> {
    if last < first || u32::from(first) < unprivileged() {
        return Err(Errno::EINVAL);
    }
    EPHEMERAL.store(u32::from(first) << 16 | u32::from(last), Relaxed);
    Ok(())
}

/// The first unprivileged port.
pub fn unprivileged() -> u32 {
    UNPRIVILEGED.load(Relaxed)
}

/// Sets the first unprivileged port.
///
/// # Errors
/// EINVAL: an ephemeral port would be privileged.
pub fn set_unprivileged(first: u32) -> Result<()> {
    if u32::from(ephemeral().0) < first {
        return Err(Errno::EINVAL);
    }
    UNPRIVILEGED.store(first, Relaxed);
    Ok(())
}

/// The properties with which a socket holds a port.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Holder {
    /// The address that it is bound to.
    pub ip: IpAddr,
    /// Whether the socket is bound to IPv6 only (IPV6_V6ONLY).
    pub only_v6: bool,
    /// SO_REUSEADDR
    pub shares_address: bool,
    /// SO_REUSEPORT, with other sockets of the same user.
    pub shares_port: bool,
    /// The user that the socket belongs to.
    pub user: u32,
    /// Whether the socket accepts connections.
    pub listens: bool,
    /// Whether there is no socket any more, but the end of a connection that waits.
    pub waits: bool,
}

impl Holder {
    /// Whether a packet to `ip` is for this socket; also true for "any" if both are "any".
    fn covers(&self, ip: IpAddr) -> bool {
        match (self.ip, ip) {
            (own, ip) if own == ip => true,
            (IpAddr::V6(own), IpAddr::V4(_)) => own.is_unspecified() && !self.only_v6,
            (own, ip) => own.is_unspecified() && own.is_ipv4() == ip.is_ipv4(),
        }
    }

    fn overlaps(&self, other: &Holder) -> bool {
        self.covers(other.ip) || other.covers(self.ip)
    }

    /// The same for every address of a family except "any": a holder at "any" overlaps with all of
    /// them or with none.
    fn kind(self) -> Holder {
        let ip = match self.ip {
            ip if ip.is_unspecified() => ip,
            IpAddr::V4(_) => Ipv4Addr::LOCALHOST.into(),
            IpAddr::V6(_) => Ipv6Addr::LOCALHOST.into(),
        };
        Holder { ip, ..self }
    }

    /// Whether both agree to share their port, which a process cannot force on another user's
    /// socket.
    fn shares_with(&self, other: &Holder) -> bool {
        let may = self.user == other.user || other.waits;
        self.shares_port && other.shares_port && may
    }

    fn conflicts(&self, other: &Holder) -> bool {
        let shared = self.shares_address && other.shares_address && !self.listens && !other.listens;
        self.overlaps(other) && !shared && !self.shares_with(other)
    }
}

/// A socket that holds a port, by the order in which sockets got it.
struct Member {
    number: u64,
    socket: Weak<dyn Socket>,
}

impl tree::Member for Member {
    type Key = u64;
    type Sum = usize;

    fn key(&self) -> u64 {
        self.number
    }

    fn sum(&self) -> usize {
        1
    }

    fn join(one: usize, other: usize) -> usize {
        one + other
    }
}

/// Sockets that hold a port with the same properties: several, if they share it (Linux's `struct
/// sock_reuseport`).
struct Group {
    holder: Holder,
    members: Tree<Member>,
    /// The number of ends of connections that were accepted, or that wait; they only keep others
    /// from the port.
    ends: usize,
    /// Whether one of them was ever connected, or preferred a CPU: then the receiver is not chosen
    /// by a hash of the sender (Linux's `has_conns`).
    hashing_disabled: bool,
}

impl Group {
    /// Candidate receivers for `from` with numbers from `first` on, in order; only one, if the
    /// group is hashed.
    fn candidates(&self, from: SocketAddr, first: u64) -> impl Iterator<Item = &Member> {
        let shared = self.holder.shares_port && !self.hashing_disabled;
        let start = if shared {
            let one = self.members.nth(spread(from) % self.members.len().max(1));
            one.filter(|one| one.number >= first)
        } else {
            self.members.from(&first)
        };
        iter::successors(start, move |before| {
            let next = before.number + 1;
            (!shared).then(|| self.members.from(&next)).flatten()
        })
    }
}

/// The holders of a port.
struct Held {
    /// The groups, by the address that they are bound to.
    groups: Lists<IpAddr, Group>,
    /// The same groups by kind of holder: these are few, however many addresses there are.
    kinds: Vec<Kind>,
    /// Whether bind(2) gave it to a socket since it was last free: then connect(2) does not choose
    /// it.
    bound: bool,
}

/// Groups whose holders differ only in their addresses.
struct Kind {
    holder: Holder,
    groups: usize,
    /// The number of sockets in them.
    members: usize,
}

/// The purpose of a claim on a port.
#[derive(Clone, Copy, PartialEq, Eq)]
enum For {
    /// bind(2), or another use of a port of its own.
    Bind,
    /// connect(2), which shares it with other connections.
    Connect,
    /// The end of a connection, which shares the port with all its holders.
    End,
}

/// A new holder of a port.
enum Entrant {
    Socket(Member),
    /// An end of a connection.
    End,
}

impl Group {
    fn enter(&mut self, entrant: Entrant) -> Result<()> {
        match entrant {
            Entrant::Socket(member) => {
                let entered = self.members.insert(member);
                entered.map_err(|_| Errno::ENOMEM)
            }
            Entrant::End => {
                self.ends += 1;
                Ok(())
            }
        }
    }
}

/// Adds a holder to the group with the same properties.
fn enter(held: &mut Held, holder: Holder, entrant: Entrant) -> Result<()> {
    let sockets = usize::from(matches!(entrant, Entrant::Socket(_)));
    let at = held.kind_at(holder)?;
    let mut groups = held.groups.of_mut(&holder.ip).iter_mut();
    if let Some(group) = groups.find(|group| group.holder == holder) {
        group.enter(entrant)?;
    } else {
        let mut group = Group {
            holder,
            members: Tree::new(),
            ends: 0,
            hashing_disabled: false,
        };
        let entered = group.enter(entrant);
        entered.and_then(|()| held.groups.push(holder.ip, group))?;
        held.kinds[at].groups += 1;
    }
    held.kinds[at].members += sockets;
    Ok(())
}

/// Removes a socket, or without a number the end of a connection, from the group with the
/// properties of `holder`.
fn leave(held: &mut Held, holder: &Holder, number: Option<u64>) -> Option<Member> {
    let mut groups = held.groups.of_mut(&holder.ip).iter_mut();
    let group = groups.find(|group| group.holder == *holder)?;
    let gone = match number {
        Some(number) => group.members.remove(&number),
        None => {
            group.ends -= 1;
            None
        }
    };
    let is_empty = group.members.is_empty() && group.ends == 0;
    if is_empty {
        held.groups
            .take(&holder.ip, |group| group.holder == *holder);
    }
    let kind = holder.kind();
    if let Some(at) = held.kinds.iter().position(|known| known.holder == kind) {
        let known = &mut held.kinds[at];
        known.members -= usize::from(gone.is_some());
        known.groups -= usize::from(is_empty);
        if known.groups == 0 {
            held.kinds.swap_remove(at);
        }
    }
    gone
}

impl Held {
    /// The index of a holder's kind.
    fn kind_at(&mut self, holder: Holder) -> Result<usize> {
        let holder = holder.kind();
        if let Some(at) = self.kinds.iter().position(|known| known.holder == holder) {
            return Ok(at);
        }
        self.kinds.try_reserve(1).map_err(|_| Errno::ENOMEM)?;
        self.kinds.push(Kind {
            holder,
            groups: 0,
            members: 0,
        });
        Ok(self.kinds.len() - 1)
    }
}

/// The properties with which the socket `number` holds the port at `ip`.
fn holder(held: &Held, ip: IpAddr, number: u64) -> Option<Holder> {
    let mut groups = held.groups.of(&ip).iter();
    let has = |group: &&Group| group.members.get(&number).is_some();
    groups.find(has).map(|group| group.holder)
}

/// The groups of sockets that may receive packets to `ip`.
fn covering(held: &Held, ip: IpAddr) -> impl Iterator<Item = &Group> {
    let any = [Ipv6Addr::UNSPECIFIED.into(), Ipv4Addr::UNSPECIFIED.into()];
    let addresses = any.into_iter().filter(move |&any| any != ip).chain([ip]);
    let bound = addresses.flat_map(|ip| held.groups.of(&ip));
    bound.filter(move |group| group.holder.covers(ip))
}

/// Whether `is` holds for a group whose address overlaps with that of `holder`, or for all groups
/// of a kind together: it gets a holder, and the number of sockets.
fn overlapping(held: &Held, holder: &Holder, is: impl Fn(&Holder, usize) -> bool) -> bool {
    if holder.ip.is_unspecified() {
        let mut kinds = held.kinds.iter().filter(|kind| kind.groups > 0);
        kinds.any(|kind| holder.overlaps(&kind.holder) && is(&kind.holder, kind.members))
    } else {
        covering(held, holder.ip).any(|group| is(&group.holder, group.members.len()))
    }
}

/// The number of buckets of each protocol: users of different ports do not wait for each other.
const BUCKETS: usize = 64;

/// The ports whose numbers have the same remainder, by the quotient. In cache lines of its own.
#[repr(align(128))]
struct Bucket(Mutex<Radix<Held>>);

/// The ports of a protocol.
pub struct Ports {
    buckets: [Bucket; BUCKETS],
    /// The ports that are held, and those that were given by bind(2). Each bit changes under its
    /// bucket's lock.
    held: PortSet,
    bound: PortSet,
}

/// TCP's ports.
pub static TCP: Ports = Ports::new();
/// UDP's ports.
pub static UDP: Ports = Ports::new();
/// UDP-Lite's ports.
pub static UDP_LITE: Ports = Ports::new();
/// The identifiers of ping sockets.
pub static PING: Ports = Ports::new();

/// The index of a port in its bucket.
fn place(port: u16) -> usize {
    usize::from(port) / BUCKETS
}

/// The number for the next socket that gets a port.
static NEXT: AtomicU64 = AtomicU64::new(0);

/// The maximum number of sockets of a group that are looked up under one hold of the ports' lock.
const FEW: usize = 64;

/// A claim of a socket on a port, which is released when this is dropped.
pub struct Claim {
    ports: &'static Ports,
    /// The port.
    pub port: u16,
    /// The address that the socket is bound to.
    ip: IpAddr,
    number: u64,
}

impl Drop for Claim {
    fn drop(&mut self) {
        self.ports.give(self.port, |held| {
            let own = holder(held, self.ip, self.number)?;
            leave(held, &own, Some(self.number))
        });
    }
}

/// A port that the end of a connection keeps until this is dropped.
pub struct Kept {
    ports: &'static Ports,
    port: u16,
    holder: Holder,
}

impl Kept {
    /// Another hold on the same port, for an end that waits.
    pub fn waiting(&self) -> Result<Kept> {
        let waits = true;
        self.ports.keep(
            self.port,
            Holder {
                waits,
                ..self.holder
            },
        )
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        self.ports
            .give(self.port, |held| leave(held, &self.holder, None));
    }
}

fn random_below(count: u32) -> u32 {
    let mut bytes = [0; 2];
    random::fill(&mut bytes);
    u32::from(u16::from_ne_bytes(bytes)) % count
}

/// A hash of a sender.
fn spread(from: SocketAddr) -> usize {
    Keyed.hash_one(from) as usize
}

impl Ports {
    const fn new() -> Self {
        Ports {
            buckets: [const { Bucket(Mutex::new(Radix::new())) }; BUCKETS],
            held: PortSet::new(),
            bound: PortSet::new(),
        }
    }

    fn lock(&self, port: u16) -> MutexGuard<'_, Radix<Held>> {
        self.buckets[usize::from(port) % BUCKETS].0.lock()
    }

    /// Gives `holder` the port, or for port 0 any free one of `range`; the bounds of `range` are
    /// used if they are within the system's range. EADDRINUSE, EACCES.
    pub fn claim(
        &'static self,
        port: u16,
        range: [u16; 2],
        holder: Holder,
        socket: &Weak<dyn Socket>,
    ) -> Result<Claim> {
        if ptr::eq(self, &TCP) {
            connections::expire();
        }
        if port != 0 {
            let may = |who: &crate::task::credentials::Credentials| who.can(CAP_NET_BIND_SERVICE);
            let guarded = u32::from(port) < unprivileged() && !ptr::eq(self, &PING);
            if guarded && !current().with_credentials(may) {
                return Err(Errno::EACCES);
            }
            return self.take(port, holder, socket, For::Bind);
        }
        let (first, mut count) = self.choice(range);
        if ptr::eq(self, &TCP) && count > 1 {
            // As on Linux, where TCP chooses among pairs of an odd and an even port.
            count &= !1;
        }
        let last = first + (count - 1) as u16;
        let start = first + random_below(count) as u16;
        for port in self.held.outside([first, last], start, port_set::ALL) {
            cond_resched_killable()?;
            match self.take(port, holder, socket, For::Bind) {
                Err(Errno::EADDRINUSE) => {}
                done => return done,
            }
        }
        Err(Errno::EADDRINUSE)
    }

    /// The first port of those that `range` permits, as in [`Self::claim`], and their number.
    fn choice(&self, range: [u16; 2]) -> (u16, u32) {
        let (least, most) = if ptr::eq(self, &PING) {
            (1, u16::MAX)
        } else {
            ephemeral()
        };
        let within = |port: u16, or: u16| {
            if (least..=most).contains(&port) {
                port
            } else {
                or
            }
        };
        let (first, last) = (within(range[0], least), within(range[1], most));
        (first, u32::from(last.saturating_sub(first)) + 1)
    }

    /// Gives `holder` a port of `range` for a connection: a free one, or one that was only given to
    /// others in this way, and with which `connect` succeeds.
    ///
    /// # Errors
    /// EADDRNOTAVAIL, and the other errors of `connect`.
    pub fn connect_from<T>(
        &'static self,
        range: [u16; 2],
        holder: Holder,
        socket: &Weak<dyn Socket>,
        is_free: impl Fn(u16) -> bool,
        connect: impl Fn(u16) -> Result<T>,
    ) -> Result<(Claim, T)> {
        let (first, count) = self.choice(range);
        let last = first + (count - 1) as u16;
        let start = first + (random_below(count) & !1) as u16;
        // Every second port is tried first, so that bind(2) finds the others free.
        let even = match first % 2 {
            0 => port_set::EVEN,
            _ => !port_set::EVEN,
        };
        let of = |kind| self.bound.outside([first, last], start, kind);
        for port in of(even).chain(of(!even)) {
            cond_resched_killable()?;
            if !is_free(port) {
                continue;
            }
            let claimed = self.take(port, holder, socket, For::Connect);
            let connected = claimed.and_then(|claim| Ok((claim, connect(port)?)));
            match connected {
                Err(Errno::EADDRNOTAVAIL | Errno::EADDRINUSE) => {}
                done => return done,
            }
        }
        Err(Errno::EADDRNOTAVAIL)
    }

    fn take(
        &'static self,
        port: u16,
        holder: Holder,
        socket: &Weak<dyn Socket>,
        what: For,
    ) -> Result<Claim> {
        let number = NEXT.fetch_add(1, Relaxed);
        let socket = socket.clone();
        let member = Entrant::Socket(Member { number, socket });
        self.enter(port, holder, member, what)?;
        Ok(Claim {
            ports: self,
            port,
            ip: holder.ip,
            number,
        })
    }

    /// Keeps a port for the end of a connection, which shares it with all its holders.
    pub fn keep(&'static self, port: u16, holder: Holder) -> Result<Kept> {
        self.enter(port, holder, Entrant::End, For::End)?;
        Ok(Kept {
            ports: self,
            port,
            holder,
        })
    }

    /// Removes a holder of a port.
    fn give(&self, port: u16, leave: impl FnOnce(&mut Held) -> Option<Member>) {
        let mut ports = self.lock(port);
        let Some(held) = ports.get_mut(place(port)) else {
            return;
        };
        let gone = leave(held);
        if held.groups.len() == 0 {
            ports.remove_range(place(port), place(port), &mut drop);
            self.held.set(port, false);
            self.bound.set(port, false);
        }
        drop(ports);
        drop(gone);
    }

    fn enter(&self, port: u16, holder: Holder, entrant: Entrant, what: For) -> Result<()> {
        let mut ports = self.lock(port);
        let Some(held) = ports.get_mut(place(port)) else {
            let mut fresh = Held {
                groups: Lists::new(),
                kinds: Vec::new(),
                bound: what == For::Bind,
            };
            enter(&mut fresh, holder, entrant)?;
            ports
                .insert(place(port), fresh)
                .map_err(|_| Errno::ENOMEM)?;
            self.held.set(port, true);
            self.bound.set(port, what == For::Bind);
            return Ok(());
        };
        let refused = match what {
            For::Bind => overlapping(held, &holder, |other, _| holder.conflicts(other)),
            For::Connect => held.bound,
            For::End => false,
        };
        if refused {
            return Err(Errno::EADDRINUSE);
        }
        enter(held, holder, entrant)?;
        held.bound |= what == For::Bind;
        self.bound.set(port, held.bound);
        Ok(())
    }

    /// Makes the socket with `claim` accept connections. EADDRINUSE if another does already.
    pub fn listen(&self, claim: &Claim) -> Result<()> {
        let mut ports = self.lock(claim.port);
        let held = ports.get_mut(place(claim.port)).ok_or(Errno::EINVAL)?;
        let own = held.groups.of(&claim.ip).iter().find_map(|group| {
            let member = group.members.get(&claim.number)?;
            Some((group.holder, member.socket.clone()))
        });
        let (own, socket) = own.ok_or(Errno::EINVAL)?;
        if own.listens {
            return Ok(());
        }
        // A socket whose claim was moved may have an address that another is bound to.
        let is_taken = |other: &Holder, members: usize| {
            let listens = other.listens && !other.shares_with(&own);
            let itself = usize::from(*other == own);
            listens || members > itself && own.conflicts(other)
        };
        if overlapping(held, &own, is_taken) {
            return Err(Errno::EADDRINUSE);
        }
        let (number, listens) = (claim.number, true);
        let listening = Holder { listens, ..own };
        let member = Entrant::Socket(Member { number, socket });
        enter(held, listening, member)?;
        leave(held, &own, Some(number));
        Ok(())
    }

    /// Keeps the port of `claim` at `ip`, for the end of its socket's connection, which waits.
    pub fn keep_waiting(&'static self, claim: &Claim, ip: IpAddr) -> Result<Kept> {
        let own = {
            let ports = self.lock(claim.port);
            let held = ports.get(place(claim.port)).ok_or(Errno::EINVAL)?;
            holder(held, claim.ip, claim.number).ok_or(Errno::EINVAL)?
        };
        let waits = true;
        self.keep(claim.port, Holder { ip, waits, ..own })
    }

    /// Ends hashing among the sockets that share the port of `claim`: they no longer accept the
    /// same senders.
    pub fn disable_hashing(&self, claim: &Claim) {
        let mut ports = self.lock(claim.port);
        if let Some(held) = ports.get_mut(place(claim.port)) {
            let mut groups = held.groups.of_mut(&claim.ip).iter_mut();
            if let Some(own) = groups.find(|group| group.members.get(&claim.number).is_some()) {
                own.hashing_disabled = true;
            }
        }
    }

    /// The sockets that hold the port of `to` at its address, or at "any". Each is looked up when
    /// it is requested, since there may be as many as there are descriptors.
    pub fn holders(&self, to: SocketAddr) -> impl Iterator<Item = Weak<dyn Socket>> {
        let (mut first, end) = (0, NEXT.load(Relaxed));
        iter::from_fn(move || {
            let ports = self.lock(to.port());
            let held = ports.get(place(to.port()))?;
            let groups = covering(held, to.ip());
            let members = groups.filter_map(|group| group.members.from(&first));
            let next = members.min_by_key(|member| member.number)?;
            first = next.number + 1;
            (next.number < end).then(|| next.socket.clone())
        })
    }

    /// Moves a claim to another address, even if others hold the port there.
    ///
    /// # Errors
    /// ENOMEM: the claim is unchanged.
    pub fn move_claim(&self, claim: &mut Claim, ip: IpAddr) -> Result<()> {
        let mut ports = self.lock(claim.port);
        let held = ports.get_mut(place(claim.port)).ok_or(Errno::EINVAL)?;
        let own = holder(held, claim.ip, claim.number).ok_or(Errno::EINVAL)?;
        let groups = held.groups.of(&claim.ip).iter();
        let found = groups
            .flat_map(|group| group.members.get(&claim.number))
            .next();
        let socket = found.ok_or(Errno::EINVAL)?.socket.clone();
        let number = claim.number;
        let member = Entrant::Socket(Member { number, socket });
        enter(held, Holder { ip, ..own }, member)?;
        let gone = leave(held, &own, Some(number));
        claim.ip = ip;
        drop(ports);
        drop(gone);
        Ok(())
    }

    /// The socket for a packet from `from` to `to`: among the holders that `fits` accepts, the one
    /// with the greatest `rank` that is not `None`; one that is bound to exactly this address takes
    /// precedence. Sockets that share the port (SO_REUSEPORT) share the senders too. May sleep.
    ///
    /// # Errors
    /// ENOMEM; EINTR for a thread that is killed meanwhile.
    pub fn find<R: Ord>(
        &self,
        to: SocketAddr,
        from: SocketAddr,
        fits: impl Fn(&Holder) -> bool,
        rank: impl Fn(&Arc<dyn Socket>) -> Option<R>,
    ) -> Result<Option<Arc<dyn Socket>>> {
        let mut candidates = Vec::new();
        let mut best = Best::default();
        let mut first = 0;
        loop {
            // The first one that is not looked up yet, if there are more.
            let mut rest = None;
            {
                let ports = self.lock(to.port());
                let Some(held) = ports.get(place(to.port())) else {
                    break;
                };
                for group in covering(held, to.ip()).filter(|group| fits(&group.holder)) {
                    for (count, member) in group.candidates(from, first).enumerate() {
                        if count == FEW {
                            rest = Some(rest.unwrap_or(member.number).min(member.number));
                            break;
                        }
                        // A socket that is dropped here would take the lock of the ports.
                        candidates.try_reserve(1).map_err(|_| Errno::ENOMEM)?;
                        if let Some(socket) = member.socket.upgrade() {
                            candidates.push((group.holder, member.number, socket));
                        }
                    }
                }
            }
            heapsort::sort_by_key(&mut candidates, |&(_, number, _)| number);
            for (holder, number, socket) in candidates.drain(..) {
                if rest.is_none_or(|rest| number < rest)
                    && let Some(rank) = rank(&socket)
                {
                    let spread = holder.shares_port.then(|| Keyed.hash_one((from, number)));
                    best.offer((rank, holder.ip == to.ip()), spread, socket);
                }
            }
            let Some(rest) = rest else { break };
            first = rest;
            cond_resched_killable()?;
        }
        Ok(best.socket())
    }
}

/// The best receiver of those offered so far, in order of age.
struct Best<R> {
    rank: Option<R>,
    last: Option<Arc<dyn Socket>>,
    /// Among those that share the port, if the last one does: the one with the greatest hash of its
    /// number and the sender.
    chosen: Option<(u64, Arc<dyn Socket>)>,
}

impl<R> Default for Best<R> {
    fn default() -> Self {
        Best {
            rank: None,
            last: None,
            chosen: None,
        }
    }
}

impl<R: Ord> Best<R> {
    fn offer(&mut self, rank: R, spread: Option<u64>, socket: Arc<dyn Socket>) {
        let rank = Some(rank);
        if rank < self.rank {
            return;
        }
        let before = self.chosen.take().filter(|_| rank == self.rank);
        self.chosen = spread.map(|hash| match before {
            Some(before) if before.0 > hash => before,
            _ => (hash, socket.clone()),
        });
        self.rank = rank;
        self.last = Some(socket);
    }

    fn socket(self) -> Option<Arc<dyn Socket>> {
        self.chosen.map(|(_, socket)| socket).or(self.last)
    }
}
