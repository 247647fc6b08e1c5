//! Path MTUs (RFC 1191, RFC 8201).

use crate::{NoMemory, SECOND, v4, v6};
use core::hash::BuildHasher;
use core::net::IpAddr;
use deadlines::{Deadlines, Ticket};
use hash_table::HashMap;

/// The most paths that are remembered; the oldest make room.
pub const MOST: usize = 2048;
/// How long a path is remembered (`net.ipv4.route.mtu_expires`).
const PATIENCE: u64 = 600 * SECOND;
/// The lower limit for reports over IPv4 (`net.ipv4.route.min_pmtu`), so that a forged report
/// cannot make every segment tiny.
pub const LEAST_V4: u32 = 552;

struct Path {
    mtu: u32,
    /// When it expires.
    due: u64,
    ticket: Ticket,
}

/// The paths.
pub struct Paths<S> {
    all: HashMap<IpAddr, Path, S>,
    due: Deadlines<IpAddr>,
}

impl<S: BuildHasher> Paths<S> {
    /// No paths.
    pub const fn new(hasher: S) -> Self {
        Paths {
            all: HashMap::with_hasher(hasher),
            due: Deadlines::new(),
        }
    }

    /// The path MTU to an address, if it is known and was not learnt too long ago.
    pub fn mtu(&self, now: u64, to: IpAddr) -> Option<u32> {
        let path = self.all.get(&to).filter(|path| now < path.due);
        path.map(|path| path.mtu)
    }

    /// Notes that a packet of `sent` bytes to an address was too big: `told` is the reported MTU,
    /// or 0 from an old router. Returns the new path MTU if it changed.
    pub fn learn(&mut self, now: u64, to: IpAddr, told: u32, sent: u32) -> Option<u32> {
        self.expire(now);
        let least = match to {
            IpAddr::V4(_) => LEAST_V4.max(v4::LEAST_MTU as u32),
            IpAddr::V6(_) => v6::LEAST_MTU as u32,
        };
        let told = match told {
            0 => plateau(sent),
            told => told,
        };
        let mtu = told.max(least);
        let known = self.mtu(now, to).unwrap_or(u32::MAX);
        if mtu >= known || mtu >= sent {
            return None;
        }
        self.note(now, to, mtu).ok().map(|()| mtu)
    }

    fn note(&mut self, now: u64, to: IpAddr, mtu: u32) -> Result<(), NoMemory> {
        if let Some(old) = self.all.remove(&to) {
            self.due.remove(old.ticket);
        }
        while self.all.len() >= MOST {
            let oldest = self.due.take_due(u64::MAX).ok_or(NoMemory)?;
            self.all.remove(&oldest);
        }
        self.all.try_reserve(1).map_err(|_| NoMemory)?;
        let due = now + PATIENCE;
        let ticket = self.due.add(due, to).map_err(|_| NoMemory)?;
        self.all.insert(to, Path { mtu, due, ticket });
        Ok(())
    }

    /// Removes the paths that were learnt too long ago: their MTUs may have grown.
    pub fn expire(&mut self, now: u64) {
        while let Some(gone) = self.due.take_due(now) {
            self.all.remove(&gone);
        }
    }
}

/// The next usual MTU below so many bytes (RFC 1191, 7).
fn plateau(sent: u32) -> u32 {
    let usual = [32000, 17914, 8166, 4352, 2002, 1492, 576, 296, 216, 128, 68];
    usual.into_iter().find(|&mtu| mtu < sent).unwrap_or(68)
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::hash::BuildHasherDefault;
    use core::net::Ipv4Addr;

    extern crate std;
    type Hasher = BuildHasherDefault<std::hash::DefaultHasher>;

    fn ip(number: u32) -> IpAddr {
        Ipv4Addr::from(number).into()
    }

    #[test]
    fn learns_and_forgets() {
        let mut paths = Paths::new(Hasher::default());
        assert_eq!(paths.learn(0, ip(1), 1400, 1500), Some(1400));
        assert_eq!(paths.mtu(0, ip(1)), Some(1400));
        // A report never raises it, nor does one about a packet that fits.
        assert_eq!(paths.learn(1, ip(1), 1450, 1500), None);
        assert_eq!(paths.learn(1, ip(1), 1300, 1300), None);
        assert_eq!(paths.learn(1, ip(1), 20, 1400), Some(LEAST_V4));
        assert_eq!(paths.learn(1, ip(2), 0, 1500), Some(1492));
        let v6: IpAddr = "fec0::1".parse().unwrap();
        assert_eq!(paths.learn(1, v6, 600, 1500), Some(1280));
        // This holds even if nobody called `expire`.
        let known = |paths: &Paths<_>, now| [ip(1), v6].map(|to| paths.mtu(now, to));
        assert_eq!(known(&paths, PATIENCE), [Some(LEAST_V4), Some(1280)]);
        assert_eq!(known(&paths, 1 + PATIENCE), [None, None]);
        paths.expire(1 + PATIENCE);
        assert_eq!(paths.all.len(), 0);
    }

    #[test]
    fn floods() {
        let mut paths = Paths::new(Hasher::default());
        for number in 0..10_000 {
            paths.learn(number.into(), ip(number), 1400, 1500);
        }
        assert_eq!(paths.all.len(), MOST);
        let known = [0, 9_999].map(|number| paths.mtu(9_999, ip(number)));
        assert_eq!(known, [None, Some(1400)]);
    }
}
