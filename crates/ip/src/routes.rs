//! Routes: for each destination the route with the longest prefix, and among these the one with the
//! least metric.

use crate::NoMemory;
use alloc::vec::Vec;
use core::hash::BuildHasher;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use hash_table::HashMap;

/// The most routes: all of them fit one listing.
pub const MOST: usize = 2048;
/// The most routes that share a prefix, with different metrics.
pub const MOST_ALIKE: usize = 64;

/// A range of addresses with a common prefix.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Prefix {
    /// The first address.
    pub ip: IpAddr,
    /// The length of the prefix in bits.
    pub bits: u8,
}

impl Prefix {
    /// The prefix of an address with this length; `None` if the address is shorter.
    pub fn of(ip: IpAddr, bits: u8) -> Option<Self> {
        let ip = match ip {
            IpAddr::V4(ip) if bits <= 32 => {
                let mask = u32::MAX.checked_shl(32 - u32::from(bits)).unwrap_or(0);
                Ipv4Addr::from(u32::from(ip) & mask).into()
            }
            IpAddr::V6(ip) if bits <= 128 => {
                let mask = u128::MAX.checked_shl(128 - u32::from(bits)).unwrap_or(0);
                Ipv6Addr::from(u128::from(ip) & mask).into()
            }
            _ => return None,
        };
        Some(Prefix { ip, bits })
    }

    /// Whether the prefix contains an address.
    pub fn has(&self, ip: IpAddr) -> bool {
        ip.is_ipv4() == self.ip.is_ipv4() && Prefix::of(ip, self.bits) == Some(*self)
    }
}

/// What a route does with packets, with Linux's numbers (`RTN_`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Sends them to a neighbour.
    Unicast = 1,
    /// Delivers them to this machine.
    Local = 2,
    /// Broadcasts them on the link.
    Broadcast = 3,
    /// Drops them silently.
    Blackhole = 6,
    /// Reports to their sender that the destination is unreachable.
    Unreachable = 7,
    /// Reports to their sender that the destination is prohibited.
    Prohibit = 8,
}

/// A route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Route {
    /// The destinations.
    pub to: Prefix,
    /// What is done with the packets.
    pub kind: Kind,
    /// The next hop; without one, the destination is a neighbour.
    pub via: Option<IpAddr>,
    /// The interface.
    pub interface: u32,
    /// The source address for packets whose sender has chosen none.
    pub source: Option<IpAddr>,
    /// The route with the lowest metric is used.
    pub metric: u32,
    /// Its origin (`RTPROT_`) and its scope (`RT_SCOPE_`).
    pub origin: u8,
    /// See above.
    pub scope: u8,
    /// The MTU, if it is lower than the interface's.
    pub mtu: Option<u32>,
}

/// Why a route cannot be added.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// The route exists already.
    Exists,
    /// There is no memory, or there are too many routes.
    NoMemory,
}

/// A table of routes.
pub struct Routes<S> {
    all: HashMap<Prefix, Vec<Route>, S>,
    /// The number of prefixes of each length.
    lengths_v4: [u32; 33],
    lengths_v6: [u32; 129],
    count: usize,
}

impl<S: BuildHasher> Routes<S> {
    /// An empty table.
    pub const fn new(hasher: S) -> Self {
        Routes {
            all: HashMap::with_hasher(hasher),
            lengths_v4: [0; 33],
            lengths_v6: [0; 129],
            count: 0,
        }
    }

    /// The number of routes.
    pub fn len(&self) -> usize {
        self.count
    }

    /// Whether the table is empty.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    fn lengths(&mut self, v4: bool) -> &mut [u32] {
        match v4 {
            true => &mut self.lengths_v4,
            false => &mut self.lengths_v6,
        }
    }

    /// The route to an address, among those that `fits` accepts. It takes one step per length of
    /// prefix.
    pub fn find_by(&self, to: IpAddr, fits: impl Fn(&Route) -> bool) -> Option<&Route> {
        let lengths: &[u32] = match to {
            IpAddr::V4(_) => &self.lengths_v4,
            IpAddr::V6(_) => &self.lengths_v6,
        };
        let used = lengths
            .iter()
            .enumerate()
            .rev()
            .filter(|(_, count)| **count > 0);
        used.filter_map(|(bits, _)| self.all.get(&Prefix::of(to, bits as u8)?))
            .find_map(|alike| alike.iter().find(|route| fits(route)))
    }

    /// The route to an address.
    pub fn find(&self, to: IpAddr) -> Option<&Route> {
        self.find_by(to, |_| true)
    }

    /// Adds a route.
    ///
    /// # Errors
    /// The route exists with this prefix and metric and `replace` is not set, there is no
    /// memory, or there are too many routes.
    pub fn add(&mut self, route: Route, replace: bool) -> Result<(), Refused> {
        if self.count >= MOST {
            return Err(Refused::NoMemory);
        }
        let no_memory = |_| Refused::NoMemory;
        if let Some(alike) = self.all.get_mut(&route.to) {
            let at = alike.partition_point(|other| other.metric < route.metric);
            if let Some(same) = alike.get_mut(at)
                && same.metric == route.metric
            {
                if !replace {
                    return Err(Refused::Exists);
                }
                *same = route;
                return Ok(());
            }
            if alike.len() >= MOST_ALIKE {
                return Err(Refused::NoMemory);
            }
            alike.try_reserve(1).map_err(|_| Refused::NoMemory)?;
            alike.insert(at, route);
        } else {
            self.all.try_reserve(1).map_err(no_memory)?;
            let mut alike = Vec::new();
            alike.try_reserve(1).map_err(|_| Refused::NoMemory)?;
            alike.push(route);
            self.all.insert(route.to, alike);
            self.lengths(route.to.ip.is_ipv4())[usize::from(route.to.bits)] += 1;
        }
        self.count += 1;
        Ok(())
    }

    /// Removes the first route to a prefix for which `is_it` holds.
    pub fn remove(&mut self, to: Prefix, is_it: impl Fn(&Route) -> bool) -> Option<Route> {
        let alike = self.all.get_mut(&to)?;
        let at = alike.iter().position(is_it)?;
        let gone = alike.remove(at);
        self.count -= 1;
        if alike.is_empty() {
            self.all.remove(&to);
            self.lengths(to.ip.is_ipv4())[usize::from(to.bits)] -= 1;
        }
        Some(gone)
    }

    /// All routes, in no order.
    pub fn iter(&self) -> impl Iterator<Item = &Route> {
        self.all.values().flatten()
    }

    /// A copy of all routes, in the order in which Linux lists them.
    pub fn sorted(&self) -> Result<Vec<Route>, NoMemory> {
        let mut all: Vec<Route> = Vec::new();
        all.try_reserve_exact(self.count).map_err(|_| NoMemory)?;
        all.extend(self.iter());
        heapsort::sort_by_key(&mut all, |route| (route.to.ip, route.to.bits, route.metric));
        Ok(all)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::hash::BuildHasherDefault;
    use proptest::prelude::*;

    extern crate std;
    type Hasher = BuildHasherDefault<std::hash::DefaultHasher>;

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    fn route(to: &str, bits: u8, metric: u32) -> Route {
        Route {
            to: Prefix::of(ip(to), bits).unwrap(),
            kind: Kind::Unicast,
            via: None,
            interface: 2,
            source: None,
            metric,
            origin: 3,
            scope: 0,
            mtu: None,
        }
    }

    #[test]
    fn prefixes() {
        assert_eq!(Prefix::of(ip("10.1.2.3"), 8).unwrap().ip, ip("10.0.0.0"));
        assert_eq!(Prefix::of(ip("10.1.2.3"), 0).unwrap().ip, ip("0.0.0.0"));
        assert_eq!(Prefix::of(ip("10.1.2.3"), 32).unwrap().ip, ip("10.1.2.3"));
        assert_eq!(Prefix::of(ip("10.1.2.3"), 33), None);
        assert_eq!(Prefix::of(ip("fe80::1:2"), 10).unwrap().ip, ip("fe80::"));
        assert!(!Prefix::of(ip("::"), 0).unwrap().has(ip("1.2.3.4")));
        assert!(Prefix::of(ip("0.0.0.0"), 0).unwrap().has(ip("1.2.3.4")));
    }

    #[test]
    fn longest_and_least() {
        let mut routes = Routes::new(Hasher::default());
        for one in [
            route("0.0.0.0", 0, 100),
            route("10.0.0.0", 8, 0),
            route("10.0.2.0", 24, 5),
        ] {
            routes.add(one, false).unwrap();
        }
        assert_eq!(routes.find(ip("10.0.2.2")), Some(&route("10.0.2.0", 24, 5)));
        assert_eq!(routes.find(ip("10.9.2.2")), Some(&route("10.0.0.0", 8, 0)));
        assert_eq!(routes.find(ip("1.1.1.1")), Some(&route("0.0.0.0", 0, 100)));
        assert_eq!(routes.find(ip("fe80::1")), None);
        routes.add(route("0.0.0.0", 0, 50), false).unwrap();
        assert_eq!(routes.find(ip("1.1.1.1")).unwrap().metric, 50);
        assert_eq!(
            routes.add(route("0.0.0.0", 0, 50), false),
            Err(Refused::Exists)
        );
        let other = Route {
            interface: 3,
            ..route("0.0.0.0", 0, 50)
        };
        routes.add(other, true).unwrap();
        assert_eq!(routes.find(ip("1.1.1.1")), Some(&other));
        assert_eq!((routes.len(), routes.sorted().unwrap().len()), (4, 4));
        let gone = routes.remove(other.to, |route| route.interface == 3);
        assert_eq!(gone, Some(other));
        assert_eq!(routes.find(ip("1.1.1.1")).unwrap().metric, 100);
    }

    proptest! {
        /// The result equals that of a walk over all routes.
        #[test]
        fn as_a_walk(
            steps in proptest::collection::vec((0u32..8, 0u8..=32, 0u32..3, any::<bool>()), 0..60),
            asked in proptest::collection::vec(0u32..8, 1..10),
        ) {
            let spread = |bits: u32| Ipv4Addr::from(bits << 29 | bits << 3 | bits);
            let mut routes = Routes::new(Hasher::default());
            let mut all: Vec<Route> = Vec::new();
            for (bits, length, metric, adds) in steps {
                let to = Prefix::of(spread(bits).into(), length).unwrap();
                let one = Route { to, metric, ..route("0.0.0.0", 0, 0) };
                let at = all.iter().position(|other| *other == one);
                if adds {
                    prop_assert_eq!(routes.add(one, false).is_err(), at.is_some());
                    if at.is_none() { all.push(one); }
                } else {
                    let gone = routes.remove(to, |route| route.metric == metric);
                    prop_assert_eq!(gone.is_some(), at.is_some());
                    at.map(|at| all.remove(at));
                }
            }
            prop_assert_eq!(routes.len(), all.len());
            for bits in asked {
                let to = IpAddr::from(spread(bits));
                let fitting = all.iter().filter(|route| route.to.has(to));
                let best = fitting.min_by_key(|route| (core::cmp::Reverse(route.to.bits), route.metric));
                prop_assert_eq!(routes.find(to), best);
            }
        }
    }
}
