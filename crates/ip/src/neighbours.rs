//! The link-layer addresses of neighbours: the tables of ARP and of neighbour discovery, in the
//! states of RFC 4861, 7.3, with Linux's times.

use crate::{Mac, NoMemory, SECOND};
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::hash::BuildHasher;
use core::net::IpAddr;
use deadlines::{Deadlines, Ticket};
use hash_table::HashMap;

/// The most neighbours (`gc_thresh3`); the ones that changed longest ago make room.
pub const MOST: usize = 1024;
/// How many entries are examined for one that is not in use.
const LOOKS: usize = 32;
/// The most packets that wait for a neighbour's card; the oldest makes room.
pub const MOST_WAITING: usize = 16;
/// The time between solicitations, and their number.
const RETRANS: u64 = SECOND;
const PROBES: u8 = 3;
/// How long an answer is valid, how long to wait for another sign of life after that, and how long
/// a failure is remembered.
const REACHABLE: u64 = 30 * SECOND;
const DELAY: u64 = 5 * SECOND;
const FORGET: u64 = 60 * SECOND;
/// For how long a confirmed card is not replaced by another that claims its address.
const LOCKED: u64 = SECOND;

/// Identifies a neighbour.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Key {
    /// The interface.
    pub interface: u32,
    /// The address.
    pub ip: IpAddr,
}

/// The state of a neighbour, with Linux's numbers (`NUD_`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// It is being solicited.
    Incomplete = 0x01,
    /// It answered recently.
    Reachable = 0x02,
    /// It answered some time ago.
    Stale = 0x04,
    /// As `Stale`, but a packet was sent, which may be answered.
    Delay = 0x08,
    /// It is being solicited again.
    Probe = 0x10,
    /// It did not answer.
    Failed = 0x20,
    /// The administrator set it.
    Permanent = 0x80,
}

/// What a packet says about its sender's card.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Said {
    /// It answers a solicitation, which proves that both directions work.
    pub solicited: bool,
    /// It may replace a known card.
    pub overrides: bool,
    /// It creates an entry if there is none: its sender is about to get an answer.
    pub creates: bool,
}

/// What the caller must do with a packet.
#[derive(Debug, PartialEq, Eq)]
pub enum Resolved<P> {
    /// Send it to this card.
    Send(Mac, P),
    /// It waits; broadcast a solicitation.
    Ask,
    /// It waits; another packet may have been dropped for it.
    Waits(Option<P>),
    /// There is no room.
    Lost(P),
}

/// What the caller must do for a timer.
#[derive(Debug, PartialEq, Eq)]
pub enum Due<P> {
    /// Send a solicitation, to all or to one card.
    Ask(Key, Option<Mac>),
    /// The neighbour does not answer: these packets cannot be sent.
    Failed(Key, Vec<P>),
}

struct Entry<P> {
    state: State,
    mac: Mac,
    waiting: VecDeque<P>,
    probes: u8,
    timer: Option<Ticket>,
    /// Its place in the order of eviction.
    order: Ticket,
    changed: u64,
    confirmed: u64,
}

/// An entry of the table, as it is listed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shown {
    /// The neighbour.
    pub key: Key,
    /// Its card, if known.
    pub mac: Option<Mac>,
    /// Its state.
    pub state: State,
    /// When the state changed, and when the neighbour last gave a sign of life.
    pub changed: u64,
    /// See above.
    pub confirmed: u64,
}

/// The table, with packets of type `P`.
pub struct Neighbours<P, S> {
    all: HashMap<Key, Entry<P>, S>,
    due: Deadlines<Key>,
    order: Deadlines<Key>,
}

impl<P> Entry<P> {
    fn has_mac(&self) -> bool {
        !matches!(self.state, State::Incomplete | State::Failed)
    }
}

impl<P, S: BuildHasher> Neighbours<P, S> {
    /// An empty table.
    pub const fn new(hasher: S) -> Self {
        Neighbours {
            all: HashMap::with_hasher(hasher),
            due: Deadlines::new(),
            order: Deadlines::new(),
        }
    }

    /// When [`Self::on_timer`] must be called.
    pub fn next_timer(&self) -> Option<u64> {
        self.due.first()
    }

    /// All entries, in no order.
    pub fn iter(&self) -> impl Iterator<Item = Shown> {
        self.all.iter().map(|(&key, entry)| Shown {
            key,
            mac: entry.has_mac().then_some(entry.mac),
            state: entry.state,
            changed: entry.changed,
            confirmed: entry.confirmed,
        })
    }

    /// A neighbour's card, if a packet can be sent to it now; as [`Self::resolve`], without a
    /// packet.
    pub fn card(&mut self, now: u64, key: Key) -> Option<Mac> {
        let entry = self.all.get_mut(&key)?;
        if entry.state == State::Stale {
            self.enter(now, key, State::Delay);
        }
        let entry = self.all.get(&key)?;
        entry.has_mac().then_some(entry.mac)
    }

    /// Finds the card to which a packet is sent.
    pub fn resolve(&mut self, now: u64, key: Key, packet: P) -> Resolved<P> {
        if let Some(mac) = self.card(now, key) {
            return Resolved::Send(mac, packet);
        }
        let asks = match self.all.get(&key).map(|entry| entry.state) {
            Some(State::Incomplete) => false,
            Some(_) => {
                self.enter(now, key, State::Incomplete);
                true
            }
            None if self
                .add(now, key, State::Incomplete, Mac::default())
                .is_err() =>
            {
                return Resolved::Lost(packet);
            }
            None => true,
        };
        let Some(entry) = self.all.get_mut(&key) else {
            return Resolved::Lost(packet);
        };
        let lost = match entry.waiting.len() < MOST_WAITING {
            true => None,
            false => entry.waiting.pop_front(),
        };
        if entry.waiting.try_reserve(1).is_err() {
            return Resolved::Lost(packet);
        }
        entry.waiting.push_back(packet);
        match asks {
            true => Resolved::Ask,
            false => Resolved::Waits(lost),
        }
    }

    /// Notes that a packet named a neighbour's card, or showed that it is alive. Returns the card
    /// and the packets that waited for it.
    pub fn learn(
        &mut self,
        now: u64,
        key: Key,
        mac: Option<Mac>,
        said: Said,
    ) -> Option<(Mac, Vec<P>)> {
        let Some(entry) = self.all.get_mut(&key) else {
            if let Some(mac) = mac.filter(|_| said.creates) {
                // Without room it is solicited when something is sent.
                _ = self.add(now, key, State::Stale, mac);
            }
            return None;
        };
        let fresh = match said.solicited {
            true => State::Reachable,
            false => State::Stale,
        };
        match entry.state {
            State::Permanent => return None,
            State::Incomplete | State::Failed => {
                entry.mac = mac?;
                self.enter(now, key, fresh);
            }
            state => {
                let other = mac.filter(|&mac| mac != entry.mac);
                let is_locked = state == State::Reachable && now < entry.changed + LOCKED;
                match other {
                    Some(_) if is_locked => return None,
                    Some(_) if !said.overrides => {
                        if state == State::Reachable {
                            self.enter(now, key, State::Stale);
                        }
                        return None;
                    }
                    Some(mac) => {
                        entry.mac = mac;
                        self.enter(now, key, fresh);
                    }
                    None if said.solicited => self.enter(now, key, State::Reachable),
                    None => {}
                }
            }
        }
        let entry = self.all.get_mut(&key)?;
        let waiting = core::mem::take(&mut entry.waiting);
        Some((entry.mac, waiting.into()))
    }

    /// Notes that a connection made progress, so the neighbour is alive.
    pub fn confirm(&mut self, now: u64, key: Key) {
        let state = self.all.get(&key).map(|entry| entry.state);
        if let Some(State::Reachable | State::Stale | State::Delay | State::Probe) = state {
            self.enter(now, key, State::Reachable);
        }
    }

    /// Sets a neighbour's card on behalf of the administrator.
    ///
    /// # Errors
    /// There is no memory, or no room.
    pub fn set(&mut self, now: u64, key: Key, mac: Mac, state: State) -> Result<Vec<P>, NoMemory> {
        let Some(entry) = self.all.get_mut(&key) else {
            self.add(now, key, state, mac)?;
            return Ok(Vec::new());
        };
        entry.mac = mac;
        let waiting = core::mem::take(&mut entry.waiting);
        self.enter(now, key, state);
        Ok(waiting.into())
    }

    /// Removes a neighbour and returns the packets that waited for it.
    pub fn remove(&mut self, key: &Key) -> Option<Vec<P>> {
        let gone = self.all.remove(key)?;
        if let Some(timer) = gone.timer {
            self.due.remove(timer);
        }
        self.order.remove(gone.order);
        Some(gone.waiting.into())
    }

    /// Removes one neighbour of an interface; returns its packets, or `None` if there was none.
    pub fn remove_one_of(&mut self, interface: u32) -> Option<Vec<P>> {
        let key = self
            .all
            .keys()
            .copied()
            .find(|key| key.interface == interface)?;
        self.remove(&key)
    }

    /// Does one thing that is due by `now`.
    pub fn on_timer(&mut self, now: u64) -> Option<Due<P>> {
        while let Some(key) = self.due.take_due(now) {
            let Some(entry) = self.all.get_mut(&key) else {
                continue;
            };
            entry.timer = None;
            match entry.state {
                State::Reachable => self.enter(now, key, State::Stale),
                State::Delay => {
                    self.enter(now, key, State::Probe);
                    return self.ask(now, key);
                }
                State::Incomplete | State::Probe if entry.probes < PROBES => {
                    return self.ask(now, key);
                }
                State::Incomplete | State::Probe => {
                    let waiting = core::mem::take(&mut entry.waiting);
                    self.enter(now, key, State::Failed);
                    return Some(Due::Failed(key, waiting.into()));
                }
                State::Failed => _ = self.remove(&key),
                State::Stale | State::Permanent => {}
            }
        }
        None
    }

    fn ask(&mut self, now: u64, key: Key) -> Option<Due<P>> {
        let entry = self.all.get_mut(&key)?;
        entry.probes += 1;
        let to = (entry.state == State::Probe).then_some(entry.mac);
        self.arm(key, now + RETRANS);
        Some(Due::Ask(key, to))
    }

    fn add(&mut self, now: u64, key: Key, state: State, mac: Mac) -> Result<(), NoMemory> {
        if self.all.len() >= MOST && !self.make_room() {
            return Err(NoMemory);
        }
        self.all.try_reserve(1).map_err(|_| NoMemory)?;
        let order = self.order.add(now, key).map_err(|_| NoMemory)?;
        let entry = Entry {
            state,
            mac,
            waiting: VecDeque::new(),
            probes: 0,
            timer: None,
            order,
            changed: now,
            confirmed: now,
        };
        self.all.insert(key, entry);
        self.enter(now, key, state);
        Ok(())
    }

    /// Removes the neighbour that changed longest ago, except those set by the administrator; first
    /// of all one to which nothing was sent recently, as strangers can create thousands.
    fn make_room(&mut self) -> bool {
        let idle = |key: &Key| {
            let state = self.all.get(key).map(|entry| entry.state);
            matches!(
                state,
                Some(State::Stale | State::Incomplete | State::Failed)
            )
        };
        let mut oldest = (0..LOOKS).map_while(|at| Some(*self.order.get(at)?.1));
        if let Some(key) = oldest.find(idle) {
            return self.remove(&key).is_some();
        }
        while let Some((_, &key)) = self.order.get(0) {
            let Some(entry) = self.all.get(&key) else {
                return false;
            };
            if entry.state != State::Permanent {
                return self.remove(&key).is_some();
            }
            // It moves to the end, as long as there are others.
            if !self
                .all
                .values()
                .any(|entry| entry.state != State::Permanent)
            {
                return false;
            }
            let ticket = entry.order;
            self.order.remove(ticket);
            let Ok(order) = self.order.add(u64::MAX, key) else {
                return false;
            };
            if let Some(entry) = self.all.get_mut(&key) {
                entry.order = order;
            }
        }
        false
    }

    fn enter(&mut self, now: u64, key: Key, state: State) {
        let Some(entry) = self.all.get_mut(&key) else {
            return;
        };
        let timer = entry.timer.take();
        (entry.state, entry.probes) = (state, 0);
        entry.changed = now;
        let due = match state {
            State::Incomplete => {
                // The caller sends the first solicitation.
                entry.probes = 1;
                Some(now + RETRANS)
            }
            State::Reachable => {
                entry.confirmed = now;
                Some(now + REACHABLE)
            }
            State::Delay => Some(now + DELAY),
            State::Failed => Some(now + FORGET),
            State::Probe | State::Stale | State::Permanent => None,
        };
        let old = entry.order;
        if let Some(timer) = timer {
            self.due.remove(timer);
        }
        // Its former place is free.
        self.order.remove(old);
        let placed = self.order.add(now, key);
        if let (Some(entry), Ok(order)) = (self.all.get_mut(&key), placed) {
            entry.order = order;
        }
        if let Some(due) = due {
            self.arm(key, due);
        }
    }

    fn arm(&mut self, key: Key, due: u64) {
        let Some(entry) = self.all.get_mut(&key) else {
            return;
        };
        // Without memory for its timer the neighbour is removed and will be solicited anew.
        match self.due.add(due, key) {
            Ok(timer) => entry.timer = Some(timer),
            Err(_) => _ = self.remove(&key),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;
    use core::hash::BuildHasherDefault;
    use core::net::Ipv4Addr;
    use proptest::prelude::*;

    extern crate std;
    type Hasher = BuildHasherDefault<std::hash::DefaultHasher>;
    type Table = Neighbours<u32, Hasher>;

    const ANSWER: Said = Said {
        solicited: true,
        overrides: true,
        creates: false,
    };
    const QUESTION: Said = Said {
        solicited: false,
        overrides: true,
        creates: true,
    };
    const MAC: Mac = Mac([2, 0, 0, 0, 0, 1]);
    const OTHER: Mac = Mac([2, 0, 0, 0, 0, 2]);

    fn table() -> Table {
        Neighbours::new(Hasher::default())
    }

    fn key(number: u32) -> Key {
        Key {
            interface: 2,
            ip: Ipv4Addr::from(0x0a00_0000 + number).into(),
        }
    }

    fn state(table: &Table, number: u32) -> Option<State> {
        table.all.get(&key(number)).map(|entry| entry.state)
    }

    #[test]
    fn asks_and_sends() {
        let mut table = table();
        assert_eq!(table.resolve(0, key(1), 7), Resolved::Ask);
        assert_eq!(table.resolve(0, key(1), 8), Resolved::Waits(None));
        assert_eq!(
            table.learn(5, key(1), Some(MAC), ANSWER),
            Some((MAC, vec![7, 8]))
        );
        assert_eq!(table.resolve(6, key(1), 9), Resolved::Send(MAC, 9));
        assert_eq!(table.next_timer(), Some(5 + REACHABLE));
        assert_eq!(table.on_timer(5 + REACHABLE), None);
        assert_eq!(state(&table, 1), Some(State::Stale));
        assert_eq!(table.next_timer(), None);
        // A packet is then sent at once, and an answer is awaited.
        let mut now = 40 * SECOND;
        assert_eq!(table.resolve(now, key(1), 10), Resolved::Send(MAC, 10));
        assert_eq!(table.next_timer(), Some(now + DELAY));
        for _ in 0..PROBES {
            now = table.next_timer().unwrap();
            assert_eq!(table.on_timer(now), Some(Due::Ask(key(1), Some(MAC))));
        }
        now = table.next_timer().unwrap();
        assert_eq!(table.on_timer(now), Some(Due::Failed(key(1), vec![])));
        assert_eq!(table.on_timer(now + FORGET), None);
        assert_eq!(state(&table, 1), None);
        assert!(table.due.first().is_none() && table.order.first().is_none());
    }

    #[test]
    fn does_not_answer() {
        let mut table = table();
        table.resolve(0, key(1), 7);
        assert_eq!(table.on_timer(SECOND), Some(Due::Ask(key(1), None)));
        assert_eq!(table.on_timer(SECOND), None);
        assert_eq!(table.on_timer(2 * SECOND), Some(Due::Ask(key(1), None)));
        assert_eq!(
            table.on_timer(3 * SECOND),
            Some(Due::Failed(key(1), vec![7]))
        );
        // Another attempt solicits again.
        assert_eq!(table.resolve(4 * SECOND, key(1), 8), Resolved::Ask);
        assert_eq!(
            table.learn(4 * SECOND, key(1), Some(MAC), ANSWER),
            Some((MAC, vec![8]))
        );
    }

    #[test]
    fn a_connection_confirms() {
        let mut table = table();
        table.resolve(0, key(1), 7);
        table.learn(0, key(1), Some(MAC), ANSWER);
        table.on_timer(REACHABLE);
        table.resolve(REACHABLE, key(1), 7);
        table.confirm(REACHABLE + 1, key(1));
        assert_eq!(state(&table, 1), Some(State::Reachable));
        assert_eq!(table.on_timer(REACHABLE + DELAY), None);
    }

    #[test]
    fn what_strangers_say() {
        let mut table = table();
        // An unsolicited answer is not noted, a solicitation is.
        assert_eq!(table.learn(0, key(1), Some(MAC), ANSWER), None);
        assert_eq!(state(&table, 1), None);
        table.learn(0, key(1), Some(MAC), QUESTION);
        assert_eq!(state(&table, 1), Some(State::Stale));
        table.learn(1, key(1), Some(MAC), ANSWER);
        // Another card is not accepted at once, nor without the flag.
        assert_eq!(table.learn(2, key(1), Some(OTHER), ANSWER), None);
        assert_eq!(table.card(2, key(1)), Some(MAC));
        let weak = Said {
            overrides: false,
            ..ANSWER
        };
        assert_eq!(table.learn(2 * SECOND, key(1), Some(OTHER), weak), None);
        assert_eq!(state(&table, 1), Some(State::Stale));
        assert_eq!(table.card(2 * SECOND, key(1)), Some(MAC));
        table.learn(2 * SECOND, key(1), Some(OTHER), ANSWER);
        assert_eq!(table.card(2 * SECOND, key(1)), Some(OTHER));
        // Nor is an entry of the administrator changed.
        table.set(0, key(2), MAC, State::Permanent).unwrap();
        table.learn(9 * SECOND, key(2), Some(OTHER), ANSWER);
        assert_eq!(table.card(9 * SECOND, key(2)), Some(MAC));
    }

    #[test]
    fn few_packets_wait() {
        let mut table = table();
        assert_eq!(table.resolve(0, key(1), 0), Resolved::Ask);
        for packet in 1..MOST_WAITING as u32 {
            assert_eq!(table.resolve(0, key(1), packet), Resolved::Waits(None));
        }
        assert_eq!(table.resolve(0, key(1), 99), Resolved::Waits(Some(0)));
        assert_eq!(table.all.get(&key(1)).unwrap().waiting.len(), MOST_WAITING);
    }

    #[test]
    fn floods() {
        let mut table = table();
        table
            .set(0, key(u16::MAX.into()), MAC, State::Permanent)
            .unwrap();
        // The router, which is in use.
        table.resolve(0, key(20_000), 0);
        table.learn(0, key(20_000), Some(MAC), ANSWER);
        for number in 0..5000 {
            table.learn(number.into(), key(number), Some(MAC), QUESTION);
            table.resolve(number.into(), key(10_000 + number), 1);
            assert!(table.all.len() <= MOST);
        }
        assert_eq!(table.card(0, key(u16::MAX.into())), Some(MAC));
        assert_eq!(table.card(5000, key(20_000)), Some(MAC));
        assert!(table.due.len_for_test() <= MOST);
    }

    #[test]
    fn all_permanent() {
        let mut table = table();
        for number in 0..MOST as u32 {
            table.set(0, key(number), MAC, State::Permanent).unwrap();
        }
        assert_eq!(
            table.set(0, key(5000), MAC, State::Permanent),
            Err(NoMemory)
        );
        assert_eq!(table.resolve(0, key(5000), 3), Resolved::Lost(3));
    }

    trait Len {
        fn len_for_test(&self) -> usize;
    }

    impl<T> Len for Deadlines<T> {
        fn len_for_test(&self) -> usize {
            (0..).take_while(|&at| self.get(at).is_some()).count()
        }
    }

    proptest! {
        /// No packet is lost or duplicated: each is sent, dropped, or still waits.
        #[test]
        fn every_packet_once(steps in proptest::collection::vec((0u8..5, 0u32..4, 0u64..20), 0..200)) {
            let (mut table, mut now, mut next, mut out) = (table(), 0, 0, 0);
            for (step, who, pause) in steps {
                now += pause * SECOND / 3;
                match step {
                    0 | 1 => {
                        next += 1;
                        out += match table.resolve(now, key(who), next) {
                            Resolved::Send(..) | Resolved::Lost(_) | Resolved::Waits(Some(_)) => 1,
                            _ => 0,
                        };
                    }
                    2 => {
                        let said = table.learn(now, key(who), Some(MAC), ANSWER);
                        out += said.map_or(0, |(_, packets)| packets.len());
                    }
                    3 => out += table.remove(&key(who)).map_or(0, |packets| packets.len()),
                    _ => while let Some(due) = table.on_timer(now) {
                        if let Due::Failed(_, packets) = due {
                            out += packets.len();
                        }
                    },
                }
                let waiting: usize = table.all.values().map(|entry| entry.waiting.len()).sum();
                prop_assert_eq!(out + waiting, next as usize);
                prop_assert_eq!(table.order.len_for_test(), table.all.len());
                let timers = table.all.values().filter(|entry| entry.timer.is_some()).count();
                prop_assert_eq!(table.due.len_for_test(), timers);
            }
        }
    }
}
